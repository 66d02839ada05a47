//! Errors of a journal.

use std::io;
use std::path::PathBuf;

use crate::io::failure::HINT_OF_SIZE;

/// Reason why there is no journal to work with.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file or directory of the journal cannot be used.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// The failed operation: `write the journal`, `flush the directory of the journal`.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another copy works with this journal now.
    #[error(
        "cannot lock the journal: {}: in use by {}",
        path.display(),
        process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    InUse {
        /// The lock file.
        path: PathBuf,
        /// The other's process id, if it could be read.
        process: Option<u32>,
    },
    /// The file is one that others may have written, so its content is not trusted.
    #[error("cannot trust the journal: {}: {reason}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Reason for distrust.
        reason: &'static str,
    },
    /// The file is larger than any journal.
    #[error("cannot read the journal: {}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// The largest size that is read.
        limit: u64,
    },
    /// The text is not a journal.
    #[error("cannot read the journal: not in the form of a journal")]
    Malformed(#[source] serde_json::Error),
    /// The journal is of another version.
    #[error("cannot read the journal: schema `{found}`, this program reads `{known}`")]
    Schema {
        /// Schema of the journal.
        found: String,
        /// Schema that this program reads.
        known: &'static str,
    },
    /// The content is torn or edited.
    #[error("cannot trust the journal: checksum is {found}, content has {computed}")]
    Checksum {
        /// Checksum in the journal.
        found: String,
        /// Checksum of its content.
        computed: String,
    },
    /// The content contradicts itself.
    #[error("cannot trust the journal: {0}")]
    Contradiction(&'static str),
    /// A journal is too large to be written.
    #[error("cannot write the journal: {size} bytes, limit {limit}")]
    TooLong {
        /// Bytes that it would have.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The journal's path names no file.
    #[error("cannot keep a journal: {}: not the name of a file", path.display())]
    NoFileName {
        /// Path as given.
        path: PathBuf,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    #[error("cannot keep a journal: neither XDG_STATE_HOME nor HOME is an absolute path")]
    NoStateDirectory,
    /// The device has nothing to be known by again.
    #[error(
        "cannot keep a journal: {name} has no serial, WWID, NGUID, EUI-64 or UUID to know it by again"
    )]
    NoStableId {
        /// Name of the device.
        name: String,
    },
    /// The name is not one of a device.
    #[error("cannot identify a device: `{name}` is not the name of a block device here")]
    NoDevice {
        /// Name as given.
        name: String,
    },
}

impl JournalError {
    /// Suggests a remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                Some(HINT_OF_SIZE)
            }
            Self::Io { .. } | Self::NoStateDirectory => {
                Some("name a writable place with `--journal FILE`")
            }
            Self::NoStableId { .. } => {
                Some("leave out `--journal`: the copy then runs without one, and cannot be resumed")
            }
            Self::InUse { .. } => Some("wait for the other copy, or end it; it can be resumed"),
            Self::Foreign { .. }
            | Self::TooLarge { .. }
            | Self::Malformed(_)
            | Self::Schema { .. }
            | Self::Checksum { .. }
            | Self::Contradiction(_) => Some(
                "name another file with `--journal`; if it is a journal and of no use, remove it",
            ),
            Self::TooLong { .. } | Self::NoFileName { .. } | Self::NoDevice { .. } => None,
        }
    }
}
