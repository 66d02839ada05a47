//! Overwrites device memory by DMA, so its next user reads nothing of a copy.
//!
//! Memory that a drive lends is not cleared between users, and the CPU must not store to it. Zeroes
//! get there as payload does: from a drive. A few blocks of the target, which the benchmark may
//! write, are borrowed: their bytes are kept in host memory, zeroes are written over them by host memory and
//! read into every slot, and the bytes are written back and compared.
//!
//! The borrowed blocks hold zeroes meanwhile; the caller flushes after.

use std::fmt;

use peerlane_results::MemoryKind;
use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role};
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, FileId, RegionId, Ring};

/// The most that is borrowed, in bytes: host traffic and the loss at a power cut grow with it, the
/// number of requests shrinks.
pub(crate) const BORROWED_MAX: u64 = 256 << 10;

/// Parts of host memory that a scrub needs, each as long as the borrowed blocks.
pub(crate) const HOST_PARTS: u64 = 3;

/// Requests side by side while slots are overwritten.
const SIDE_BY_SIDE: usize = 8;

/// Input of a scrub. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScrubSetup {
    /// File whose blocks are borrowed.
    pub target: FileId,
    /// Offset in the target of these blocks, a multiple of `block`.
    pub target_offset: u64,
    /// Length of these blocks together: a multiple of `block`, at most [`BORROWED_MAX`].
    pub length: u64,
    /// Block size of the target.
    pub block: u64,
    /// The memory to overwrite, from its start.
    pub memory: RegionId,
    /// Owner of that memory; decides the meaning of an errno.
    pub memory_kind: MemoryKind,
    /// Bytes to overwrite: a multiple of `block`.
    pub memory_length: u64,
    /// Host memory of [`HOST_PARTS`] times `length`.
    pub host: RegionId,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// A step of a scrub, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubStep {
    /// The target's bytes are kept in host memory.
    Keep,
    /// Zeroes are written to the target by host memory.
    WriteZeroes,
    /// The zeroes are read from the target into the memory.
    Overwrite,
    /// The target's bytes are written back by host memory.
    PutBack,
    /// The target is read by host memory and compared.
    Compare,
}

impl fmt::Display for ScrubStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Keep => "reading the target's first blocks into host memory",
            Self::WriteZeroes => "writing zeroes to the target by host memory",
            Self::Overwrite => "reading zeroes into the memory",
            Self::PutBack => "writing the target's first blocks back",
            Self::Compare => "reading the target's first blocks back",
        })
    }
}

/// Reason why memory was not overwritten, or a target is not as it was.
#[derive(Debug, thiserror::Error)]
#[error("cannot clear the memory, {step}")]
pub struct ScrubFailure {
    /// Step that failed.
    pub step: ScrubStep,
    /// Cause.
    #[source]
    pub cause: ScrubCause,
}

/// Reason why a step of a scrub failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrubCause {
    /// A request came to no good end.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Bytes written back differ from those read.
    #[error("the bytes that were written back did not arrive")]
    Differs,
    /// Requests are in flight, which may write to the target or the memory at any time.
    #[error("{in_flight} requests are in flight")]
    Busy {
        /// Number of requests.
        in_flight: u32,
    },
    /// The lengths do not add up, or `host` is not host memory of the length that is needed.
    #[error("{length} borrowed bytes do not fit the block or the memory")]
    Shape {
        /// Bytes to borrow.
        length: u64,
    },
}

/// Overwrites the memory with zeroes and leaves the target as it was, unflushed. Says how many bytes
/// were overwritten.
///
/// # Errors
/// [`ScrubFailure`]. With anything left in flight the ring is not to be used again.
pub(crate) fn scrub<R: Ring>(
    ring: &mut R,
    setup: &ScrubSetup,
    clock: &dyn Clock,
) -> Result<Bytes, ScrubFailure> {
    let mut scrubber = Scrubber { ring, setup, clock, step: ScrubStep::Keep };
    scrubber.check().and_then(|()| scrubber.keep()).map_err(|cause| scrubber.failure(cause))?;
    let overwritten = scrubber.write_zeroes().and_then(|()| scrubber.overwrite());
    let overwritten = overwritten.map_err(|cause| scrubber.failure(cause));
    // A write that failed may have been carried out in part.
    let restored = scrubber.put_back().map_err(|cause| scrubber.failure(cause));
    overwritten.and(restored)?;
    Ok(Bytes(setup.memory_length))
}

struct Scrubber<'a, R> {
    ring: &'a mut R,
    setup: &'a ScrubSetup,
    clock: &'a dyn Clock,
    step: ScrubStep,
}

/// Part of host memory with the target's bytes.
const KEPT: u64 = 0;
/// Part of host memory with zeroes.
const ZEROES: u64 = 1;
/// Part of host memory with the bytes read back.
const BACK: u64 = 2;

impl<R: Ring> Scrubber<'_, R> {
    fn check(&mut self) -> Result<(), ScrubCause> {
        let ScrubSetup { length, block, memory_length, .. } = *self.setup;
        match self.ring.in_flight() {
            0 => {}
            in_flight => return Err(ScrubCause::Busy { in_flight }),
        }
        let host = self.ring.host_bytes(self.setup.host).map_or(0, |bytes| bytes.len() as u64);
        let memory = self.ring.region_length(self.setup.memory).unwrap_or(0);
        let fits = (1..=BORROWED_MAX).contains(&length)
            && block.is_power_of_two()
            && length % block == 0
            && memory_length % block == 0
            && memory_length <= memory
            && host >= HOST_PARTS * length;
        if fits { Ok(()) } else { Err(ScrubCause::Shape { length }) }
    }

    fn failure(&self, cause: ScrubCause) -> ScrubFailure {
        ScrubFailure { step: self.step, cause }
    }

    /// Keeps the target's bytes.
    fn keep(&mut self) -> Result<(), ScrubCause> {
        self.host_request(ScrubStep::Keep, Action::Read, KEPT)
    }

    /// Writes zeroes over the target's bytes.
    fn write_zeroes(&mut self) -> Result<(), ScrubCause> {
        self.part(ZEROES)?.fill(0);
        self.host_request(ScrubStep::WriteZeroes, Action::Write, ZEROES)
    }

    fn overwrite(&mut self) -> Result<(), ScrubCause> {
        self.step = ScrubStep::Overwrite;
        let setup = self.setup;
        let mut at = 0;
        while at < setup.memory_length {
            let mut requests = Vec::with_capacity(SIDE_BY_SIDE);
            while at < setup.memory_length && requests.len() < SIDE_BY_SIDE {
                let length = setup.length.min(setup.memory_length - at);
                let (region, kind) = (setup.memory, setup.memory_kind);
                let memory = MemoryPlace { region, offset: at, kind };
                requests.push(self.request(Action::Read, memory, length));
                at += length;
            }
            carry_out(self.ring, &mut requests, self.clock, setup.deadline)?;
        }
        Ok(())
    }

    /// Writes the kept bytes back and looks whether they are there.
    fn put_back(&mut self) -> Result<(), ScrubCause> {
        self.step = ScrubStep::PutBack;
        match self.ring.in_flight() {
            0 => {}
            in_flight => return Err(ScrubCause::Busy { in_flight }),
        }
        self.host_request(ScrubStep::PutBack, Action::Write, KEPT)?;
        self.part(BACK)?.fill(!0);
        self.host_request(ScrubStep::Compare, Action::Read, BACK)?;
        let kept = self.part(KEPT)?.to_vec();
        if self.part(BACK)? == kept { Ok(()) } else { Err(ScrubCause::Differs) }
    }

    fn host_request(
        &mut self,
        step: ScrubStep,
        action: Action,
        part: u64,
    ) -> Result<(), ScrubCause> {
        self.step = step;
        let length = self.setup.length;
        let place = MemoryPlace::host(self.setup.host, part * length);
        let mut request = [self.request(action, place, length)];
        Ok(carry_out(self.ring, &mut request, self.clock, self.setup.deadline)?)
    }

    fn request(&self, action: Action, place: MemoryPlace, length: u64) -> Request {
        let setup = self.setup;
        let (file, offset, block) = (setup.target, setup.target_offset, setup.block);
        let file = FilePlace { file, offset, block };
        Request::new(Role::Target, action, file, place, length)
    }

    fn part(&mut self, part: u64) -> Result<&mut [u8], ScrubCause> {
        let length = self.setup.length;
        let bytes = self.ring.host_bytes(self.setup.host);
        let index = usize::try_from(part).ok().zip(usize::try_from(length).ok());
        bytes
            .zip(index)
            .and_then(|(bytes, (part, size))| bytes.chunks_exact_mut(size).nth(part))
            .ok_or(ScrubCause::Shape { length })
    }
}

#[cfg(test)]
mod tests;
