//! Progress of a copy, kept across power loss.
//!
//! A [`Journal`] says which bytes stand at the target, and names that target and its source.
//! A resumed copy writes the ranges that [`Journal::done`] lacks. It is right byte for byte
//! because:
//!
//! 1. A range enters `done` only after a flush of the target that was *submitted after* its write
//!    completed (`Recorder`); a flush that fails throws away everything that waited for it.
//! 2. The journal is saved after that flush: whatever a journal on disk claims was on stable storage
//!    before the journal was written.
//! 3. It is saved by writing a new file, fsync, rename over the old one, fsync of the directory
//!    (`Store`). Rename is atomic, so after a crash one whole journal is there, the old or the new.
//!    Both are true; the old one only knows less.
//! 4. A checksum, bounds and the form of the ranges are checked on reading. A torn, edited or foreign
//!    journal is refused, never trusted.
//! 5. A journal names devices by identifiers stored in them, not by kernel names, which change at a
//!    boot. [`Journal::differences`] lists changes; any of them forbids resuming.
//!
//! Resuming may write bytes again that are done: they come from the same source and are the same.
//! At the end: flush the target, rename a partial file to its name, fsync its directory, and only
//! then `Store::remove`. After a crash in between [`Journal::is_complete`] is true.
//!
//! Left out on purpose: permission to overwrite (guard), writes to a block device between two runs
//! (a drive keeps no time of change: verification at the end decides), any clock.

mod codec;
pub(crate) mod difference;
pub(crate) mod digests;
mod error;
mod identity;
mod partial;
mod paths;
mod recorder;
mod store;
mod system;

use std::fmt;
use std::ops::Range;

use peerlane_results::Route;
use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::io::ranges::RangeSet;

pub(crate) use codec::JOURNAL_BYTES_MAX;
pub use codec::{decode, encode};
pub(crate) use difference::{JournalDifference, Now, Role};
pub(crate) use digests::EndDigests;
pub(crate) use error::JournalError;
pub use identity::{DeviceIdentity, IdKind, StableId};
pub(crate) use identity::{FileIdentity, Identity, PartitionRange};
pub(crate) use partial::{is_partial_of, partial_stem};
pub use paths::StateEnvironment;
pub(crate) use paths::{beside_file, for_device, state_directory};
pub(crate) use recorder::{Cadence, Recorder};
pub(crate) use store::Store;
pub(crate) use system::is_distinct;
pub(crate) use system::{device_name, identity_of_device, identity_of_file};

/// Schema of [`Journal`].
pub(crate) const JOURNAL_SCHEMA: &str = "peerlane.journal/1";

/// Options that decide which byte goes where. Nothing else does: block size, depth and route may
/// differ between the runs of one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalOptions {
    /// Offset in the source at which the copy begins.
    pub source_offset: Bytes,
    /// Offset in the target at which the copy begins.
    pub target_offset: Bytes,
    /// Bytes to copy.
    pub length: Bytes,
}

/// A copy that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Version of the program that wrote this.
    pub program: String,
    /// The source.
    pub source: Identity,
    /// The target.
    pub target: Identity,
    /// Offsets and length of the copy.
    pub options: JournalOptions,
    /// The route that the last run took.
    pub route: Route,
    /// Name of the unfinished file next to the target that carries the data; `None` when the data go
    /// straight into the target.
    pub partial: Option<String>,
    /// Bytes that are at the target, written and flushed; offsets from the start of the copy.
    pub done: RangeSet,
    /// Stages that work on each chunk between read and write, and how long a chunk is; empty without any.
    #[serde(default, skip_serializing_if = "JournalStages::is_empty")]
    pub staged: JournalStages,
    /// Content of the target when overwriting it was permitted; `None` for a new or blank one.
    #[serde(default)]
    pub overwrites: Option<Overwritten>,
    /// Time when the copy began: seconds since 1970, UTC.
    pub created: u64,
    /// Time when this was written: seconds since 1970, UTC.
    pub updated: u64,
}

/// The stages of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalStages {
    /// Each with a digest of the file that it comes from, in the order of their work.
    pub row: Vec<String>,
    /// Length of each chunk but the last.
    pub chunk: Bytes,
    /// Identity of the manifest of the copy; `None` without one.
    #[serde(default)]
    pub manifest: Option<String>,
}

impl JournalStages {
    fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// True for the same stages on the same chunks.
    pub(super) fn is_same_work(&self, other: &Self) -> bool {
        (&self.row, self.chunk) == (&other.row, other.chunk)
    }
}

impl fmt::Display for JournalStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row.as_slice() {
            [] => f.write_str("none"),
            row => write!(f, "{} on chunks of {} bytes", row.join(", "), self.chunk.0),
        }
    }
}

/// Old content of a target, to tell it from content that came later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwritten {
    /// Both ends of a device.
    Device(EndDigests),
    /// The file that has the target's name until the copy is complete.
    File(FileIdentity),
}

impl Journal {
    /// Walks the ranges still to be copied in whole blocks of `block` bytes; offsets from the start
    /// of the copy.
    pub fn missing(&self, block: Bytes) -> impl Iterator<Item = Range<u64>> + '_ {
        self.done.missing_in_blocks(0..self.options.length.0, block.0)
    }

    /// Tells whether every byte is at the target.
    pub fn is_complete(&self) -> bool {
        self.done.contains_range(0..self.options.length.0)
    }

    /// Checks that everything in it can be true of one copy.
    fn check(&self) -> Result<(), &'static str> {
        let JournalOptions { source_offset, target_offset, length } = self.options;
        if source_offset.checked_add(length).is_none()
            || target_offset.checked_add(length).is_none()
        {
            return Err("the copy ends beyond any device");
        }
        if self.done.end() > length.0 {
            return Err("a range that is done lies beyond the end of the copy");
        }
        if self.updated < self.created {
            return Err("it was updated before it was created");
        }
        if self.partial.as_deref().is_some_and(|name| !is_file_name(name)) {
            return Err("the name of the unfinished file is not a file name");
        }
        Ok(())
    }
}

fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
pub(crate) mod tests;
