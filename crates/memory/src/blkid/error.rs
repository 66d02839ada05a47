//! Reasons why libblkid could not look at everything.

use std::io;
use std::time::Duration;

use peerlane_units::Bytes;

/// A reason why libblkid could not look at everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlkidError {
    /// The memory file that libblkid reads was refused.
    #[error("cannot make a memory file for a device of {size}")]
    Image {
        /// Size of the device.
        size: Bytes,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The thread that libblkid runs in was refused.
    #[error("cannot start a thread for libblkid")]
    Thread(#[source] io::Error),
    /// A call failed before anything was probed.
    #[error("{call} failed")]
    Call {
        /// The function.
        call: &'static str,
    },
    /// Some probers failed, which ends none of the others.
    #[error("{count} probers of libblkid failed")]
    Probers {
        /// Number of them.
        count: usize,
    },
    /// Probing lasted too long.
    #[error("libblkid was stopped after {limit:?}")]
    Deadline {
        /// The caller's limit.
        limit: Duration,
    },
    /// Probing took too much memory.
    #[error("libblkid was stopped: it had taken more than {limit} of memory")]
    Memory {
        /// The limit.
        limit: Bytes,
    },
    /// The thread that libblkid runs in ended without an answer.
    #[error("the thread of libblkid ended without an answer")]
    Lost,
}
