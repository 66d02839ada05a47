//! The two widths of an io_uring: ordinary entries, and those twice as long that carry NVMe commands.
//!
//! A ring is of one width for all its life (mixed ones came with Linux 6.19), so one that may have to
//! carry commands is wide from the start.

use io_uring::{IoUring, Parameters, Submitter, cqueue, opcode, squeue};
use rustix::io::Errno;

use super::uring::UringError;

/// A request for a ring of either width.
pub(super) enum RingRequest {
    /// One that the kernel knows by its opcode.
    Plain(squeue::Entry),
    /// A command of a driver; wide rings only.
    Command(squeue::Entry128),
}

impl RingRequest {
    /// A command for a file given by number or descriptor.
    pub(super) fn command(builder: opcode::UringCmd80, command: [u8; 80]) -> Self {
        Self::Command(builder.cmd(command).build())
    }
}

pub(super) enum Queues {
    Narrow(IoUring),
    Wide(IoUring<squeue::Entry128, cqueue::Entry32>),
}

/// Length of the entries of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

impl Queues {
    pub(super) fn new(entries: u32, width: Width) -> Result<Self, UringError> {
        Ok(match width {
            Width::Narrow => Self::Narrow(set_up(entries)?),
            Width::Wide => Self::Wide(set_up(entries)?),
        })
    }

    pub(super) fn is_wide(&self) -> bool {
        matches!(self, Self::Wide(_))
    }

    pub(super) fn params(&self) -> &Parameters {
        match self {
            Self::Narrow(ring) => ring.params(),
            Self::Wide(ring) => ring.params(),
        }
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        match self {
            Self::Narrow(ring) => ring.submitter(),
            Self::Wide(ring) => ring.submitter(),
        }
    }

    /// Entries that wait for the kernel.
    pub(super) fn waiting(&mut self) -> usize {
        match self {
            Self::Narrow(ring) => ring.submission().len(),
            Self::Wide(ring) => ring.submission().len(),
        }
    }

    /// Queues a request; false if there is no room, or the ring is too narrow for it.
    ///
    /// # Safety
    /// Memory and file of the request must stay valid until its completion was popped.
    pub(super) unsafe fn push(&mut self, request: RingRequest, number: u64) -> bool {
        match (self, request) {
            (Self::Narrow(ring), RingRequest::Plain(entry)) => {
                let entry = entry.user_data(number);
                // SAFETY: the caller's.
                unsafe { ring.submission().push(&entry) }.is_ok()
            }
            (Self::Wide(ring), request) => {
                let entry = match request {
                    RingRequest::Plain(entry) => entry.into(),
                    RingRequest::Command(entry) => entry,
                };
                let entry: squeue::Entry128 = entry;
                let entry = entry.user_data(number);
                // SAFETY: the caller's.
                unsafe { ring.submission().push(&entry) }.is_ok()
            }
            (Self::Narrow(_), RingRequest::Command(_)) => false,
        }
    }

    /// Number and result of the next completion.
    pub(super) fn pop(&mut self) -> Option<(u64, i32)> {
        match self {
            Self::Narrow(ring) => {
                ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
            }
            Self::Wide(ring) => {
                ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
            }
        }
    }
}

/// Sets a ring up with the flags that serve one thread best, and with fewer on kernels that do not
/// know them: deferred task work came with Linux 6.1, cooperative with 5.19, submit-all with 5.18.
fn set_up<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    entries: u32,
) -> Result<IoUring<S, C>, UringError> {
    let mut last = Errno::INVAL;
    for level in 0..4 {
        let mut builder = IoUring::<S, C>::builder();
        builder.setup_clamp();
        // A child (`apart`, `worker`) would keep the ring after the process is killed: its exclusive claims, and a poll that
        // keeps the socket open whose closing ends the child.
        builder.dontfork();
        if level <= 2 {
            builder.setup_submit_all();
        }
        match level {
            0 => {
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            }
            1 => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            _ => {}
        }
        last = match builder.build(entries) {
            Ok(ring) => return Ok(ring),
            Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        if last != Errno::INVAL {
            break;
        }
    }
    Err(match last {
        errno @ (Errno::PERM | Errno::ACCESS) => UringError::NotPermitted { errno },
        Errno::NOSYS => UringError::Absent,
        errno => UringError::Other { entries, errno },
    })
}
