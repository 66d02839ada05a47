//! Errors of setting up io_uring.

use rustix::io::Errno;

/// Reason why there is no io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// Not allowed here (`EPERM`, `EACCES`): switched off by sysctl, or by a container's filter.
    #[error("cannot set up io_uring: not permitted")]
    NotPermitted {
        /// The system's answer.
        #[source]
        errno: Errno,
    },
    /// Not in this kernel (`ENOSYS`).
    #[error("cannot set up io_uring: not in this kernel")]
    Absent,
    /// In this kernel, but too old: waiting with a deadline came with Linux 5.11.
    #[error("cannot set up io_uring: this kernel cannot wait with a deadline")]
    TooOld,
    /// Any other answer.
    #[error("cannot set up io_uring with {entries} entries")]
    Other {
        /// Entries asked for.
        entries: u32,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
}

impl UringError {
    /// Returns advice.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotPermitted { .. } => Some(
                "`sysctl kernel.io_uring_disabled` must be 0 (or 1 with your group in \
                 kernel.io_uring_group); a container's seccomp profile must allow io_uring_setup",
            ),
            Self::Absent | Self::TooOld => {
                Some("Linux 5.11 or later with CONFIG_IO_URING is needed")
            }
            Self::Other { errno: Errno::NOMEM, .. } => {
                Some("raise `ulimit -l`, or take a smaller --depth")
            }
            Self::Other { .. } => None,
        }
    }
}
