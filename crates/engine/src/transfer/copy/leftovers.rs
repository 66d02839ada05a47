//! Files that an earlier copy onto the same target left, and no copy resumes.

use std::fs::File;
use std::path::Path;

use super::CopyError;
use super::begin::Beginning;
use super::beside::remove_left;
use crate::io::journal::{Identity, Journal, Store, identity_of_file, is_partial_of};

impl Beginning<'_, '_> {
    /// Removes the journal and the partial file of an unfinished copy, the latter only if it is the
    /// journal's own.
    pub(super) fn forget(&self, store: &Store<'_>, journal: &Journal) -> Result<(), CopyError> {
        store.clear()?;
        if let Some(partial) = self.partial(journal) {
            let opened = File::open(&partial);
            let identity = opened.map(|file| identity_of_file(self.root(), &partial, &file));
            let is_ours = |found: Identity| match (&journal.target, found) {
                (Identity::File(then), Identity::File(now)) => then.is_same_file(&now),
                _ => false,
            };
            if identity.is_ok_and(|found| found.is_ok_and(|found| is_ours(Identity::File(found)))) {
                self.remove_partial(&partial)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_partial(&self, partial: &Path) -> Result<(), CopyError> {
        let name = partial.file_name().unwrap_or_default();
        remove_left(self.machine, &self.target_live.path, name).map_err(|source| CopyError::File {
            action: "remove the unfinished file",
            path: partial.to_owned(),
            source,
        })
    }

    /// Removes the unfinished file of a copy that was killed before it had a journal: no copy can
    /// resume it, and as this copy holds the place of its journal, no process writes it.
    pub(super) fn sweep(&self, store: &Store<'_>) {
        let target = &self.target_live.path;
        let Some(name) = store.left().filter(|name| is_partial_of(target, name)) else { return };
        if let Err(error) = remove_left(self.machine, target, name) {
            let path = target.with_file_name(name);
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished file");
        }
    }
}
