//! The source of a copy under way.

use crate::endpoints::Live;
use crate::endpoints::machine::Machine;
use crate::endpoints::open::Opened;
use crate::io::journal::Identity;

/// The open source of a copy.
pub(super) struct Source<'a> {
    pub(super) opened: Opened,
    pub(super) live: &'a Live,
    /// Its identity when the copy began.
    pub(super) identity: Identity,
}

impl Source<'_> {
    /// True when the content of a source file was changed since the copy began; a device does not
    /// tell.
    pub(super) fn has_changed(&self, machine: &dyn Machine) -> bool {
        let now = machine.identify(self.live, &self.opened.file);
        match (&self.identity, now) {
            (Identity::File(then), Ok(Identity::File(now))) => {
                (then.size, then.modified_ns) != (now.size, now.modified_ns)
            }
            _ => false,
        }
    }
}
