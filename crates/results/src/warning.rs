//! Warnings: a closed list, each with its advice.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that a reader of a result should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The copy went through host memory although `auto` looked for a peer-to-peer route.
    FellBack {
        /// Why.
        reason: String,
    },
    /// The last bytes went through host memory, since a device moves whole blocks.
    TailByHost {
        /// How many.
        bytes: u64,
    },
    /// Content at the target was not checked.
    NotVerified,
    /// The machine is emulated: what is shown holds for semantics, not for speed.
    Emulated {
        /// What tells: a vendor, a device.
        sign: String,
    },
    /// A debug build: CPU time and rates are not those of the product.
    DebugBuild,
    /// The depth asked for does not fit into the memory.
    DepthReduced {
        /// Slots asked for.
        asked: u32,
        /// Slots there is room for.
        slots: u32,
    },
    /// Direct I/O is not possible on this file system; the page cache was used.
    PageCache {
        /// Which file.
        path: String,
    },
    /// The copy could not have been resumed, had it been interrupted.
    NotResumable {
        /// Why.
        reason: String,
    },
    /// The journal could not be saved at times: it knew less than was done.
    JournalNotSaved {
        /// Why.
        reason: String,
    },
    /// Device memory went back with payload in it: its next user can read that.
    NotScrubbed {
        /// Why.
        reason: String,
    },
    /// A source that is in use may change while it is copied.
    SourceInUse {
        /// Where it is mounted, or who holds it.
        by: String,
    },
}

impl Warning {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::FellBack { .. } => "`--route p2p` refuses instead; `peerlane plan` shows why",
            Self::TailByHost { .. } => "copy a multiple of the target's block size to avoid it",
            Self::NotVerified => "leave `--verify` at `sample`, or use `full`",
            Self::Emulated { .. } => "measure speed on real devices",
            Self::DebugBuild => "build with `cargo build --release`",
            Self::DepthReduced { .. } => "use a smaller `--block` or `--depth`, or another memory",
            Self::PageCache { .. } => "use a file system with direct I/O, such as ext4 or XFS",
            Self::NotResumable { .. } => "name the drive by one with a serial, or copy in parts",
            Self::JournalNotSaved { .. } => "keep the journal elsewhere with `--journal FILE`",
            Self::NotScrubbed { .. } => {
                "another copy through the same memory clears it, or reset the drive that lends it"
            }
            Self::SourceInUse { .. } => "unmount it or copy from a snapshot",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FellBack { reason } => write!(f, "copied through host memory: {reason}"),
            Self::TailByHost { bytes } => {
                write!(f, "the last {bytes} bytes went through host memory")
            }
            Self::NotVerified => f.write_str("content at the target was not checked"),
            Self::Emulated { sign } => {
                write!(f, "this machine is emulated ({sign}): semantics, not speed")
            }
            Self::DebugBuild => f.write_str("debug build"),
            Self::DepthReduced { asked, slots } => {
                write!(f, "memory has room for {slots} of {asked} slots")
            }
            Self::PageCache { path } => write!(f, "no direct I/O on {path}: page cache used"),
            Self::NotResumable { reason } => {
                write!(f, "the copy cannot be resumed if it is interrupted: {reason}")
            }
            Self::JournalNotSaved { reason } => {
                write!(f, "the journal was not saved at times: {reason}")
            }
            Self::NotScrubbed { reason } => {
                write!(f, "device memory was not cleared after the copy: {reason}")
            }
            Self::SourceInUse { by } => write!(f, "the source is in use by {by}"),
        }
    }
}
