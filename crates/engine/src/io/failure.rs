//! Meaning of the system's answer to a request.
//!
//! One errno means different things by direction, memory and kernel; `Cause::from_errno` is the only place
//! that knows. Sources: Linux 7.2 block layer and NVMe driver, read and run in an emulated machine; the
//! answers of older kernels are named if they differ.

use std::fmt;
use std::io;
use std::path::Path;

use peerlane_results::MemoryKind;
use peerlane_units::Nanos;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::io::ring::{Action, NvmeStatus, PushError};

/// An end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The end that payload comes from.
    Source,
    /// The end that payload goes to.
    Target,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Source => "source",
            Self::Target => "target",
        })
    }
}

/// Advice about a file that would be larger than the system lets it be.
pub const HINT_OF_SIZE: &str =
    "`ulimit -f` shows how large a file may be here; a file system has a limit, too";

/// Returns advice if the system denies the user access, or lets no file be as large.
pub(crate) fn hint_of_denial(path: &Path, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some(format!(
            "docs/privileges.md says what each command needs; `namei -l {}` shows who has it here",
            path.display()
        )),
        io::ErrorKind::FileTooLarge => Some(HINT_OF_SIZE.to_owned()),
        _ => None,
    }
}

/// A request that failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {}", what(*action, *offset, Some(*length), *role))]
pub struct RequestFailure {
    /// Source or target.
    pub role: Role,
    /// Read, write or flush.
    pub action: Action,
    /// Offset in the file, in bytes: the first byte that is not done.
    pub offset: u64,
    /// Bytes that were still to move.
    pub length: u64,
    /// Meaning of the answer.
    #[source]
    pub cause: Cause,
}

/// "1 block differs", "2 blocks differ".
pub(crate) fn differing(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one} differs") } else { format!("{number} {one}s differ") }
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Read => "read",
        Action::Write => "write",
        Action::Flush => "flush",
        Action::Zero => "zero",
        Action::Stage => "work on",
    }
}

/// A request in words: `read 4096 bytes at 512 of the source`.
fn what(action: Action, offset: u64, length: Option<u64>, role: Role) -> String {
    if action == Action::Flush {
        return format!("flush the {role}");
    }
    if action == Action::Stage {
        return format!("work on the chunk at {offset} of the copy");
    }
    let length = length.map_or_else(String::new, |length| format!("{length} bytes "));
    format!("{} {length}at {offset} {} {role}", verb(action), preposition(action))
}

fn preposition(action: Action) -> &'static str {
    match action {
        Action::Read | Action::Zero | Action::Stage => "of the",
        Action::Write | Action::Flush => "to the",
    }
}

/// Meaning of the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// `EINVAL` peer to peer, from Linux 6.18 on: the drive takes P2P pages, but the kernel permits no
    /// route between it and this memory. A request that does not fit the drive's blocks looks the same.
    #[error("the kernel permits no route between this drive and the memory (EINVAL)")]
    RouteRefused,
    /// `EREMOTEIO` peer to peer: the block device or file system below takes no P2P pages. Linux up to
    /// 6.12 answers so for a route that is not permitted, too.
    #[error(
        "the block device or file system takes no P2P memory, or before Linux 6.18 the kernel \
         permits no route to it (EREMOTEIO)"
    )]
    MemoryNotAccepted,
    /// `EFAULT` peer to peer: the memory is gone, since its function was removed or its driver unbound.
    #[error("the memory is gone: its device was removed or its driver unbound (EFAULT)")]
    ProviderGone,
    /// `EINVAL` through host memory: offset, length or address does not have the file's alignment.
    #[error("the request does not fit the file's blocks (EINVAL)")]
    NotAligned,
    /// `ENODATA`: the drive reports a medium error, or gave a command up after its time.
    #[error("bad sector: the drive cannot {} it, or gave up trying (ENODATA)", verb(*action))]
    BadSector {
        /// Reading or writing.
        action: Action,
    },
    /// A read came back empty before the end: the source became shorter, or was unplugged.
    #[error("the data end here: the source became shorter or was unplugged")]
    EndedEarly,
    /// `ENOSPC` on a write, or a write of nothing: the target is full, or was unplugged.
    #[error("no room: the target is full, or was unplugged (ENOSPC)")]
    TargetFullOrGone,
    /// `ENODEV`, `ENXIO`: the drive is gone.
    #[error("the drive is gone ({errno:?})")]
    DriveGone {
        /// The system's answer.
        errno: Errno,
    },
    /// `EILSEQ`: protection information does not fit the data.
    #[error("protection information does not fit the data (EILSEQ)")]
    ProtectionInformation,
    /// `EPERM`, `EROFS`, `EACCES` on a write: the target is read only.
    #[error("the target is read only ({errno:?})")]
    ReadOnly {
        /// The system's answer.
        errno: Errno,
    },
    /// The same request was tried again and again without progress.
    #[error("no progress after {tries} tries")]
    NoProgress {
        /// Tries.
        tries: u32,
        /// The last answer, if it was an error.
        errno: Option<Errno>,
    },
    /// The kernel says that it moved more than requested.
    #[error("the kernel says that it moved {moved} bytes, more than requested")]
    MoreThanAsked {
        /// Its own words.
        moved: u32,
    },
    /// The drive's own answer to a command through a passthrough node.
    #[error("{status}")]
    Nvme {
        /// Status from the drive.
        status: NvmeStatus,
    },
    /// Any other answer.
    #[error("{errno}")]
    Other {
        /// The system's answer.
        errno: Errno,
    },
}

impl Cause {
    /// Returns the meaning of an errno for a request of this kind between a drive and this memory.
    pub(crate) fn from_errno(errno: Errno, action: Action, memory: MemoryKind) -> Self {
        let is_p2p = memory != MemoryKind::Host;
        if let Some(status) = NvmeStatus::from_errno(errno) {
            return Self::Nvme { status };
        }
        match errno {
            Errno::INVAL if is_p2p => Self::RouteRefused,
            Errno::INVAL => Self::NotAligned,
            Errno::REMOTEIO if is_p2p => Self::MemoryNotAccepted,
            Errno::FAULT if is_p2p => Self::ProviderGone,
            Errno::NODATA => Self::BadSector { action },
            Errno::NOSPC if action == Action::Write => Self::TargetFullOrGone,
            Errno::NODEV | Errno::NXIO => Self::DriveGone { errno },
            Errno::ILSEQ => Self::ProtectionInformation,
            Errno::PERM | Errno::ROFS | Errno::ACCESS if action == Action::Write => {
                Self::ReadOnly { errno }
            }
            errno => Self::Other { errno },
        }
    }

    /// Returns advice. It does not say if the copy can go on: only a journal tells.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::RouteRefused | Self::MemoryNotAccepted => Some(
                "`peerlane plan SOURCE TARGET` shows what blocks it; --route host copies \
                 through host memory",
            ),
            Self::ProviderGone => Some("take another memory with --via"),
            Self::BadSector { .. } => Some(
                "`nvme smart-log` of the drive; --offset and --length copy what lies around it",
            ),
            Self::Nvme { status } if status.is_medium() => Some(
                "`nvme smart-log` of the drive; --offset and --length copy what lies around it",
            ),
            Self::Nvme { status } if !status.is_of_the_way() => None,
            Self::EndedEarly => Some(
                "`ls -l` of a source file shows whether it was cut short; `dmesg | tail` says whether a drive \
                 went away",
            ),
            Self::TargetFullOrGone => Some(
                "`df` of a target file shows what room is left; `dmesg | tail` says whether a drive went away",
            ),
            Self::Nvme { .. } | Self::DriveGone { .. } => {
                Some("`dmesg | tail` says whether a drive went away")
            }
            Self::ProtectionInformation => Some(
                "format the namespace without protection information, or write the area once before \
                 it is read",
            ),
            Self::ReadOnly { .. } => {
                Some("`blockdev --getro` of the target; `blockdev --setrw` opens it")
            }
            Self::Other { errno: Errno::FBIG } => Some(HINT_OF_SIZE),
            Self::NotAligned
            | Self::NoProgress { .. }
            | Self::MoreThanAsked { .. }
            | Self::Other { .. } => None,
        }
    }
}

/// A request that is older than its deadline. The kernel still works on it: the ring that holds it is
/// to be dropped, not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer in {age} to the request to {}", what(*action, *offset, None, *role))]
pub struct Stuck {
    /// Source or target.
    pub role: Role,
    /// Read, write or flush.
    pub action: Action,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Time that it has been waited for.
    pub age: Nanos,
}

/// Reason why a request, or a ring full of them, came to no good end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] RequestFailure),
    /// A request was not answered in time.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The ring did not take a request.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The ring itself failed.
    #[error("cannot submit requests")]
    Ring(#[from] io::Error),
    /// Every slot may still be in use by a device that did not answer.
    #[error("all memory of the copy may still be in use by a device that did not answer")]
    NoSlot,
    /// A stage failed on a chunk, or was not done with it in time.
    #[error("stage {} failed", number + 1)]
    Stage {
        /// Its place in the row, from 0.
        number: u32,
        /// Failure of its work.
        #[source]
        source: Box<RequestError>,
    },
    /// The source does not tell where it has holes.
    #[error("cannot find the holes of the source")]
    Holes(#[source] io::Error),
}

impl RequestError {
    /// The same for another target that it ends as well.
    pub(crate) fn again(&self) -> Self {
        let same = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        match self {
            Self::Failed(failure) => Self::Failed(*failure),
            Self::Stuck(stuck) => Self::Stuck(*stuck),
            Self::Push(error) => Self::Push(*error),
            Self::Ring(error) => Self::Ring(same(error)),
            Self::NoSlot => Self::NoSlot,
            Self::Stage { number, source } => {
                Self::Stage { number: *number, source: Box::new(source.again()) }
            }
            Self::Holes(error) => Self::Holes(same(error)),
        }
    }

    /// True if something may still work on the memory of the request.
    pub(crate) fn is_stuck(&self) -> bool {
        match self {
            Self::Stuck(_) => true,
            Self::Stage { source, .. } => source.is_stuck(),
            _ => false,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Failed(failure) => failure.cause.hint(),
            Self::Stuck(_) | Self::NoSlot => Some(
                "`dmesg | tail` names the drive that does not answer; on a confidential guest use \
                 --route host",
            ),
            Self::Push(_) | Self::Ring(_) | Self::Holes(_) | Self::Stage { .. } => None,
        }
    }
}

/// An error and its sources in one line.
pub fn error_in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words = format!("{words}: {error}");
        source = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_errno_means_different_things_by_direction_and_memory() {
        use Action::{Read, Write};
        use MemoryKind::{Host, P2pmem};
        for (errno, action, memory, cause) in [
            (Errno::INVAL, Read, P2pmem, Cause::RouteRefused),
            (Errno::INVAL, Read, Host, Cause::NotAligned),
            (Errno::REMOTEIO, Write, P2pmem, Cause::MemoryNotAccepted),
            (Errno::REMOTEIO, Write, Host, Cause::Other { errno: Errno::REMOTEIO }),
            (Errno::FAULT, Write, P2pmem, Cause::ProviderGone),
            (Errno::FAULT, Write, Host, Cause::Other { errno: Errno::FAULT }),
            (Errno::NODATA, Read, Host, Cause::BadSector { action: Read }),
            (Errno::NOSPC, Write, P2pmem, Cause::TargetFullOrGone),
            (Errno::NOSPC, Read, P2pmem, Cause::Other { errno: Errno::NOSPC }),
            (Errno::PERM, Write, Host, Cause::ReadOnly { errno: Errno::PERM }),
            (Errno::ILSEQ, Read, P2pmem, Cause::ProtectionInformation),
            (Errno::IO, Read, P2pmem, Cause::Other { errno: Errno::IO }),
        ] {
            assert_eq!(
                Cause::from_errno(errno, action, memory),
                cause,
                "{errno:?} {action:?} {memory:?}"
            );
        }
    }

    #[test]
    fn no_hint_promises_that_a_copy_can_go_on() {
        let errno = Errno::NODEV;
        for cause in [
            Cause::RouteRefused,
            Cause::MemoryNotAccepted,
            Cause::ProviderGone,
            Cause::BadSector { action: Action::Read },
            Cause::EndedEarly,
            Cause::TargetFullOrGone,
            Cause::DriveGone { errno },
            Cause::ProtectionInformation,
            Cause::ReadOnly { errno },
        ] {
            let hint = cause.hint().unwrap_or_default();
            assert!(!hint.is_empty() && !hint.contains("resume"), "{cause:?}: {hint}");
        }
    }

    #[test]
    fn a_failure_says_what_where_and_why() {
        let failure = RequestFailure {
            role: Role::Source,
            action: Action::Read,
            offset: 4096,
            length: 512,
            cause: Cause::BadSector { action: Action::Read },
        };
        assert_eq!(failure.to_string(), "cannot read 512 bytes at 4096 of the source");
        assert!(std::error::Error::source(&failure).unwrap().to_string().starts_with("bad sector"));
    }
}
