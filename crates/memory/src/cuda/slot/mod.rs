//! Pinned host memory that a file is read into, piece by piece, on its way to a GPU.
//!
//! The kernel writes it and the copy engine reads it, each by its address; the order of the two is
//! the user's. This process sees its bytes only to clear them.

#[allow(unsafe_code)]
mod ffi;

use std::sync::Arc;

use peerlane_units::Bytes;

use super::Pinned;

/// A slot of pinned host memory, with one user.
#[derive(Debug)]
pub struct PinnedSlot {
    pinned: Arc<Pinned>,
}

impl PinnedSlot {
    pub(super) fn new(pinned: Arc<Pinned>) -> Self {
        Self { pinned }
    }

    /// Size in bytes.
    pub fn length(&self) -> Bytes {
        self.pinned.length()
    }

    /// The memory for a queue of copies.
    pub fn pinned(&self) -> &Arc<Pinned> {
        &self.pinned
    }

    /// Overwrites its first bytes with zeroes; false where a copy may still be reading them.
    #[must_use]
    pub fn clear(&mut self, length: u64) -> bool {
        let Some(bytes) = Pinned::bytes_mut(&mut self.pinned) else { return false };
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        bytes[..length].fill(0);
        true
    }
}
