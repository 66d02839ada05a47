//! The machine that a copy runs on, passed in: rings, memory of devices, ends, small files.
//!
//! [`Host`] is the one that this program runs on; tests pass one whose drives, memory and loss of power are simulated.
//! The clock and the seed are passed in separately. Plan and guards only look and end before a copy
//! begins, so they do not use it.

mod host;

use std::fmt;
use std::fs::File;
use std::io;

use peerlane_memory::{MemoryError, Region};
use peerlane_results::MemoryFacts;
use peerlane_units::{Bytes, Nanos};
use rustix::fs::OFlags;

use crate::endpoints::Live;
use crate::endpoints::open::Opened;
use crate::io::device_memory::DeviceRefusal;
use crate::io::journal::{Identity, JournalError};
use crate::io::ring::{AnyRing, UringError};
pub(crate) use crate::io::small_files::SmallFiles;
use crate::io::system::System;
#[cfg(test)]
pub(crate) use host::Host;
pub(crate) use host::host;

/// Services of the machine for a copy.
pub(crate) trait Machine: SmallFiles + fmt::Debug {
    /// Returns the reader of sysfs and procfs.
    fn system(&self) -> &System;

    /// A ring with room for so many requests; `has_nodes` if it is to take passthrough nodes.
    ///
    /// # Errors
    /// When the kernel gives none.
    fn ring(&self, entries: u32, has_nodes: bool) -> Result<AnyRing, UringError>;

    /// Host memory, zeroed.
    ///
    /// # Errors
    /// When there is none.
    fn host_memory(&self, length: Bytes) -> Result<Region, MemoryError>;

    /// Memory of the device at a PCI address.
    ///
    /// # Errors
    /// Why there is none.
    fn device_memory(
        &self,
        memory: &MemoryFacts,
        address: &str,
        length: Bytes,
    ) -> Result<Region, DeviceRefusal>;

    /// Opens an end.
    ///
    /// # Errors
    /// The system's answer; `TimedOut` after `deadline`.
    fn open(&self, flags: OFlags, live: &Live, deadline: Nanos) -> io::Result<Opened>;

    /// Returns the identity of an open end.
    ///
    /// # Errors
    /// When it cannot be told.
    fn identify(&self, live: &Live, file: &File) -> Result<Identity, JournalError>;

    /// True when a block device went away, or is about to.
    fn is_drive_gone(&self, device: &str) -> bool;

    /// Sleeps, before another look at something that reports no end.
    fn nap(&self, time: Nanos);
}
