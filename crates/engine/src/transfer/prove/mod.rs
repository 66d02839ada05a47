//! Shows that data really arrive by a route before anything is trusted to it.
//!
//! A successful completion does not prove that data arrived: the kernel decides by topology and
//! tables, device writes are posted, and a machine was seen where every request succeeded and every
//! byte was wrong. So a random pattern goes from the target through the memory and back, then a part
//! of the source does; both are read back by host memory, which is another way. Nothing is written
//! before both drives were seen to accept the memory.
//!
//! Before each way the memory is filled with the complement of the expected bytes, and before the
//! way back the target is filled with another pattern. Each wrong 8-byte word may thus tell the leg
//! that lost it.
//!
//! The first block of the target's range holds test patterns meanwhile. After a failure it is written back by
//! host memory; after success it holds the source's data.

mod error;

pub(crate) use error::{ProofCause, ProofFailure, ProofLeg, ProofStep, TargetState};

use peerlane_results::{Evidence, MemoryKind};
use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, FileId, RegionId, Ring};
use crate::io::stamp::Stamp;

/// The most that a proof moves at once, in bytes.
pub(crate) const LENGTH_MAX: u64 = 16 << 10;

/// Parts of host memory that a proof needs, each as long as the proof.
pub(crate) const HOST_PARTS: u64 = 3;

/// Input of a proof. Offsets, lengths and blocks are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofSetup {
    /// The end that payload comes from.
    pub source: FileId,
    /// The end that payload goes to.
    pub target: FileId,
    /// The memory between them.
    pub memory: RegionId,
    /// Owner of that memory; decides the meaning of an errno.
    pub memory_kind: MemoryKind,
    /// Offset in that memory of a slot that holds `length`.
    pub slot_offset: u64,
    /// Host memory of `HOST_PARTS` times `length`.
    pub host: RegionId,
    /// Offset of the copy in the source, a multiple of its block.
    pub source_offset: u64,
    /// Offset of the copy in the target, a multiple of its block; `length` bytes must be there.
    pub target_offset: u64,
    /// Bytes of a step: a multiple of both blocks, at most `LENGTH_MAX`.
    pub length: u64,
    /// Bytes of the copy that lie in `length`; the target's bytes behind them stay.
    pub payload: u64,
    /// Block size of the source.
    pub source_block: u64,
    /// Block size of the target.
    pub target_block: u64,
    /// Tests first that both drives accept the memory. Off if that was seen before, since cuFile
    /// reads a target that is a hole through host memory.
    pub probes: bool,
    /// Of the patterns; another one each time, since memory keeps the bytes of an earlier user.
    pub seed: u64,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// A route that was proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Evidence of the route.
    pub evidence: Vec<Evidence>,
    /// Bytes that passed through host memory for it.
    pub host_bytes: Bytes,
}

/// Proves a route in both directions, by a handful of requests one after the other.
///
/// # Errors
/// `ProofFailure`, with the target's first block as it was unless it says otherwise. With anything
/// left in flight the ring is not to be used again.
pub fn prove_route<R: Ring>(
    ring: &mut R,
    setup: &ProofSetup,
    clock: &dyn Clock,
) -> Result<Proof, ProofFailure> {
    let mut prover = Prover { ring, setup, clock, step: ProofStep::ProbeTarget, host_bytes: 0 };
    let outcome = match prover.check() {
        Ok(()) => prover.run(),
        Err(cause) => Err(cause),
    };
    match outcome {
        Ok(()) => Ok(Proof {
            evidence: evidence(setup.length, setup.payload),
            host_bytes: Bytes(prover.host_bytes),
        }),
        Err(cause) => {
            let step = prover.step;
            let target = prover.restore();
            Err(ProofFailure { step, cause, target })
        }
    }
}

fn evidence(length: u64, payload: u64) -> Vec<Evidence> {
    vec![
        Evidence {
            looked_at: format!(
                "a random pattern of {}: target to memory, memory to target, read back by host memory",
                Bytes(length)
            ),
            showed: "it arrived unchanged in both directions".to_owned(),
        },
        Evidence {
            looked_at: format!(
                "the first {} of the copy: source to memory, memory to target, both read back by host memory",
                Bytes(payload)
            ),
            showed: "source and target are equal".to_owned(),
        },
    ]
}

struct Prover<'a, R> {
    ring: &'a mut R,
    setup: &'a ProofSetup,
    clock: &'a dyn Clock,
    step: ProofStep,
    host_bytes: u64,
}

/// Changes each byte into its complement.
const COMPLEMENT: u8 = 0xff;
/// Changes each byte into something else than itself and its complement.
const OTHER: u8 = 0x55;

/// Place of a step's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepLocation {
    /// The slot of the memory that is proved.
    Memory,
    /// A part of host memory.
    Host(u64),
}

/// Part of host memory with the target's bytes.
const KEPT: u64 = 0;
/// Part of host memory with the expected bytes: a pattern, later the source's bytes.
const WORK: u64 = 1;
/// Part of host memory with the bytes read back.
const BACK: u64 = 2;

impl<R: Ring> Prover<'_, R> {
    fn check(&mut self) -> Result<(), ProofCause> {
        let ProofSetup { length, payload, source_block, target_block, .. } = *self.setup;
        let is_whole = |block: u64| block.is_power_of_two() && length % block == 0;
        let host = self.ring.host_bytes(self.setup.host).map_or(0, |bytes| bytes.len() as u64);
        let fits = (1..=LENGTH_MAX).contains(&length)
            && (1..=length).contains(&payload)
            && is_whole(source_block)
            && is_whole(target_block)
            && host >= HOST_PARTS * length;
        if fits { Ok(()) } else { Err(ProofCause::Shape { length }) }
    }

    fn run(&mut self) -> Result<(), ProofCause> {
        use Action::Read;
        use StepLocation::{Host, Memory};
        if self.setup.probes {
            self.carry(ProofStep::ProbeTarget, Role::Target, Read, Memory)?;
            self.carry(ProofStep::ProbeSource, Role::Source, Read, Memory)?;
        }
        self.carry(ProofStep::KeepTarget, Role::Target, Read, Host(KEPT))?;

        let seed = self.setup.seed;
        Stamp::Proof.fill(seed, self.host(WORK)?);
        self.fill_memory()?;
        self.write_target(ProofStep::WritePattern, 0)?;
        self.carry(ProofStep::PatternIntoMemory, Role::Target, Read, Memory)?;
        self.return_from_memory(ProofStep::PatternOutOfMemory, ProofStep::ReadPattern)?;
        self.compare(self.setup.length)?;

        self.carry(ProofStep::ReadSource, Role::Source, Read, Host(WORK))?;
        self.fill_memory()?;
        self.carry(ProofStep::SourceIntoMemory, Role::Source, Read, Memory)?;
        self.return_from_memory(ProofStep::SourceOutOfMemory, ProofStep::ReadTarget)?;
        self.compare(self.setup.payload)?;
        self.keep_rest()
    }

    /// Puts the complement of the expected bytes into the memory, by way of the target.
    fn fill_memory(&mut self) -> Result<(), ProofCause> {
        self.write_target(ProofStep::WriteComplement, COMPLEMENT)?;
        self.carry(ProofStep::FillMemory, Role::Target, Action::Read, StepLocation::Memory)
    }

    /// Writes the memory to the target, which holds something else, and reads that back.
    fn return_from_memory(&mut self, out: ProofStep, back: ProofStep) -> Result<(), ProofCause> {
        self.write_target(ProofStep::WriteOther, OTHER)?;
        self.carry(out, Role::Target, Action::Write, StepLocation::Memory)?;
        self.host(BACK)?.fill(0);
        self.carry(back, Role::Target, Action::Read, StepLocation::Host(BACK))
    }

    /// Writes the expected bytes, each changed by a mask, to the target by host memory.
    fn write_target(&mut self, step: ProofStep, mask: u8) -> Result<(), ProofCause> {
        self.change_work(mask)?;
        self.carry(step, Role::Target, Action::Write, StepLocation::Host(WORK))?;
        self.change_work(mask)
    }

    fn change_work(&mut self, mask: u8) -> Result<(), ProofCause> {
        self.host(WORK)?.iter_mut().for_each(|byte| *byte ^= mask);
        Ok(())
    }

    /// Moves the proof's length between one end and a place.
    fn carry(
        &mut self,
        step: ProofStep,
        role: Role,
        action: Action,
        place: StepLocation,
    ) -> Result<(), ProofCause> {
        self.step = step;
        let setup = self.setup;
        let (file, offset, block, need) = match role {
            Role::Source => (setup.source, setup.source_offset, setup.source_block, setup.payload),
            Role::Target => (setup.target, setup.target_offset, setup.target_block, setup.length),
        };
        let memory = match place {
            StepLocation::Memory => {
                let (region, offset, kind) = (setup.memory, setup.slot_offset, setup.memory_kind);
                MemoryPlace { region, offset, kind }
            }
            StepLocation::Host(part) => MemoryPlace::host(setup.host, part * setup.length),
        };
        let end = FilePlace { file, offset, block };
        let mut request = [Request::new(role, action, end, memory, need)];
        if place != StepLocation::Memory {
            self.host_bytes += request[0].ask;
        }
        Ok(carry_out(self.ring, &mut request, self.clock, setup.deadline)?)
    }

    fn host(&mut self, part: u64) -> Result<&mut [u8], ProofCause> {
        let length = self.setup.length;
        let bytes = self.ring.host_bytes(self.setup.host);
        let part = usize::try_from(part).ok();
        let size = usize::try_from(length).ok();
        bytes
            .zip(part.zip(size))
            .and_then(|(bytes, (part, size))| bytes.chunks_exact_mut(size).nth(part))
            .ok_or(ProofCause::Shape { length })
    }

    /// Compares each word read back, up to `length`, with the expected one.
    fn compare(&mut self, length: u64) -> Result<(), ProofCause> {
        let size = usize::try_from(self.setup.length).unwrap_or(usize::MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let shape = ProofCause::Shape { length: self.setup.length };
        let bytes = self.ring.host_bytes(self.setup.host).ok_or(shape)?;
        let mut parts = bytes.chunks_exact(size).skip(1);
        let (Some(expected), Some(found)) = (parts.next(), parts.next()) else { return Ok(()) };
        let words = words(&expected[..length.min(size)]).zip(words(&found[..length.min(size)]));
        let mut wrong = words.enumerate().filter(|(_, (expected, found))| expected != found);
        let Some((index, (expected, found))) = wrong.next() else { return Ok(()) };
        let mut wrong = wrong.map(|(_, pair)| pair);
        let first = leg(expected, found);
        let leg = first.filter(|_| wrong.all(|(expected, found)| leg(expected, found) == first));
        let offset = (index * WORD) as u64;
        Err(ProofCause::Differs { offset, found: number(found), expected: number(expected), leg })
    }

    /// Writes back the bytes of the target's block behind the payload.
    fn keep_rest(&mut self) -> Result<(), ProofCause> {
        let ProofSetup { length, payload, .. } = *self.setup;
        if payload == length {
            return Ok(());
        }
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        let kept = usize::try_from(payload).unwrap_or(usize::MAX);
        let shape = ProofCause::Shape { length };
        let bytes = self.ring.host_bytes(self.setup.host).ok_or(shape)?;
        bytes.copy_within(2 * size..2 * size + kept, 0);
        self.carry(ProofStep::KeepRest, Role::Target, Action::Write, StepLocation::Host(KEPT))
    }

    /// After a failure: restores the target's bytes, if any were overwritten.
    fn restore(&mut self) -> TargetState {
        match self.step {
            ProofStep::ProbeSource | ProofStep::ProbeTarget | ProofStep::KeepTarget => {
                return TargetState::Untouched;
            }
            // The kept bytes now begin with the payload.
            ProofStep::KeepRest => return TargetState::NotRestored,
            _ => {}
        }
        // A request that still runs may write to the block at any time.
        if self.ring.in_flight() > 0 {
            return TargetState::NotRestored;
        }
        match self.carry(self.step, Role::Target, Action::Write, StepLocation::Host(KEPT)) {
            Ok(()) => TargetState::Restored,
            Err(_) => TargetState::NotRestored,
        }
    }
}

/// Bytes that are compared at once; devices tear or reorder words of this size or multiples of it.
const WORD: usize = 8;

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(WORD)
}

fn number(word: &[u8]) -> u64 {
    word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Finds the leg that lost a word, by the bytes that lay in its place before.
fn leg(expected: &[u8], found: &[u8]) -> Option<ProofLeg> {
    let is_changed = |mask: u8| expected.iter().zip(found).all(|(one, other)| one ^ mask == *other);
    match () {
        () if is_changed(COMPLEMENT) => Some(ProofLeg::IntoMemory),
        () if is_changed(OTHER) => Some(ProofLeg::OutOfMemory),
        () => None,
    }
}

/// True when a sector of a target is a proof's own. That is a pattern, or `wanted` by the source,
/// as it is or changed.
pub(crate) fn is_left_by_proof(sector: &[u8], wanted: Option<&[u8]>) -> bool {
    [0, COMPLEMENT, OTHER].into_iter().any(|mask| {
        let plain: Vec<u8> = sector.iter().map(|byte| byte ^ mask).collect();
        Stamp::Proof.is_on(&plain) || wanted == Some(plain.as_slice())
    })
}

#[cfg(test)]
mod tests;
