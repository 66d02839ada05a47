//! Records a target's content when overwriting it is permitted, so a resumed copy need not ask
//! again.

use std::io;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::CopyError;
use super::begin::Beginning;
use crate::endpoints::PathNode;
use crate::endpoints::guard::SurveyError;
use crate::endpoints::open::Opened;
use crate::io::failure::RequestError;
use crate::io::journal::digests::{END, tail_start};
use crate::io::journal::{EndDigests, Journal, Overwritten, identity_of_file};

impl Beginning<'_, '_> {
    /// The file that the target is to replace.
    pub(super) fn replaced(&self) -> Result<Option<Overwritten>, CopyError> {
        if !matches!(self.target_live.node, PathNode::File { .. }) {
            return Ok(None);
        }
        let path = &self.target_live.path;
        let opened = self.machine.open(OFlags::RDONLY, self.target_live, self.deadline);
        let opened = opened.map_err(|source| CopyError::File {
            action: "look at",
            path: path.clone(),
            source,
        })?;
        Ok(Some(Overwritten::File(identity_of_file(self.root(), path, &opened.file)?)))
    }

    /// True when the file in the way is the one that a copy was permitted to replace.
    pub(super) fn may_replace(&self, journal: &Journal) -> Result<bool, CopyError> {
        Ok(match (&journal.overwrites, self.replaced()?) {
            (Some(Overwritten::File(then)), Some(Overwritten::File(now))) => {
                then.is_same_file(&now)
                    && (then.size, then.modified_ns) == (now.size, now.modified_ns)
            }
            _ => false,
        })
    }

    /// Both ends of the target, as they are before the copy.
    pub(super) fn ends_of(&self, target: &Opened) -> Result<Overwritten, CopyError> {
        let failed = |error: SurveyError| match error {
            SurveyError::Request(RequestError::Stuck(source)) => {
                CopyError::Stuck { drive: self.target_name.clone(), route: self.route, source }
            }
            error => CopyError::File {
                action: "read source and target of",
                path: self.target_live.path.clone(),
                source: io::Error::other(error),
            },
        };
        let device = self.target_live.device.as_ref();
        let size = device.map_or(0, |device| device.size.0);
        let mut reader = self.surveyor.reader(target, self.target_block).map_err(failed)?;
        let head = reader.readable_bytes(0..size.min(END)).map_err(failed)?;
        let tail = reader.readable_bytes(tail_start(size)..size).map_err(failed)?;
        // What cannot be read counts as zeroes, which all of a device that went away would.
        if device.is_some_and(|device| self.machine.is_drive_gone(&device.name)) {
            return Err(failed(SurveyError::Open(Errno::NODEV.into())));
        }
        Ok(Overwritten::Device(EndDigests::new(&head, &tail)))
    }
}
