//! A ring with open files, memory and a trace, set up in one place.

use std::io;

use peerlane_memory::{MemoryError, Region, host};
use peerlane_units::Bytes;

use crate::open::{Attached, Opened};
use crate::ring::{FileId, Nodes, RegionId, Ring as _, Uring, UringError};
use crate::trace::{Log, Traced};

/// A ring for files that are open.
pub(crate) struct Session<R> {
    pub(crate) ring: Traced<R>,
}

impl Session<Uring> {
    /// Sets up a ring of the kernel; it takes passthrough nodes where one of the files is one.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn new<'a>(
        entries: u32,
        files: impl IntoIterator<Item = &'a Opened>,
        log: Option<Log>,
    ) -> Result<Self, UringError> {
        let has_nodes = files.into_iter().any(|opened| opened.passthrough.is_some());
        let ring = if has_nodes { Uring::for_passthrough(entries)? } else { Uring::new(entries)? };
        Ok(Self { ring: Traced::new(ring, log) })
    }
}

impl<R: Nodes<Region = Region>> Session<R> {
    /// Attaches a file, by the name that a trace has for it.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn attach(&mut self, opened: &Opened, name: &str) -> io::Result<Attached> {
        opened.attach(&mut self.ring, name)
    }

    /// Attaches the file or block device by itself, not the passthrough node that it may have.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn attach_file(&mut self, opened: &Opened) -> io::Result<FileId> {
        self.ring.attach_file(opened.file.try_clone()?)
    }

    /// Takes host memory.
    ///
    /// # Errors
    /// [`MemoryError`] with what was asked for.
    pub(crate) fn host(&mut self, length: Bytes) -> Result<RegionId, MemoryError> {
        Ok(self.ring.attach_region(host::allocate(length)?))
    }
}
