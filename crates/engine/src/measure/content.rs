//! Whether what was written is what is there, and what device memory holds when a flow is done.
//!
//! A copy is compared with its source. A drive that is written out of one memory gets a pattern of its
//! own from each slot; which slot wrote a range last is kept, so that a range that went to the wrong
//! place, or nowhere, shows.

use std::ops::Range;

use peerlane_memory::host;
use peerlane_results::{Evidence, Verification, VerifyMode, Warning};
use peerlane_units::Bytes;

use super::planned::PlannedFlow;
use super::ready::Ready;
use super::stream::Log;
use super::{FlowTools, MeasureError};
use crate::failure::Role;
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::request::{End, Progress, Request, carry_out};
use crate::ring::{Action, FileId, RegionId, Ring};
use crate::scrub::{BORROWED_MAX, HOST_PARTS, ScrubSetup, scrub};
use crate::verify::{Comparison, Coverage, Digests, verify};

/// Nobody wrote there, or two slots at a time.
const UNKNOWN: u16 = u16::MAX;
/// Requests side by side while content is read back.
const SIDE_BY_SIDE: usize = 16;

/// Slots that hold patterns.
pub(super) struct Filled {
    pub(super) seed: u64,
}

/// Which slot wrote which part of the range last.
pub(super) struct Slots {
    part: u64,
    last: Vec<u16>,
}

impl Slots {
    pub(super) fn new(planned: &PlannedFlow) -> Self {
        // Parts of a block begin at multiples of the request only where the block is one.
        let part = match planned.flow.block.0 % planned.request {
            0 => planned.request,
            _ => planned.flow.block.0,
        };
        let parts = usize::try_from(planned.flow.bytes.0.div_ceil(part)).unwrap_or(0);
        Self { part, last: vec![UNKNOWN; parts] }
    }
}

impl Log for Slots {
    fn done(&mut self, slot: u32, range: Range<u64>) {
        let index = usize::try_from(range.start / self.part).unwrap_or(usize::MAX);
        if let Some(last) = self.last.get_mut(index) {
            *last = u16::try_from(slot).unwrap_or(UNKNOWN);
        }
    }
}

/// Bytes that a seed and a number make.
pub(super) fn pattern(seed: u64, slot: u64) -> Random {
    Random::new(seed ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Ready {
    /// Gives every slot a pattern of its own where slots are what is written; device memory gets it by
    /// way of the target, which proves that way in both directions.
    pub(super) fn fill_slots(
        &mut self,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<Option<Filled>, MeasureError> {
        let Some(target) = self.target else { return Ok(None) };
        let (seed, length) = (tools.seed, planned.request);
        if !planned.is_device() {
            let stride = usize::try_from(self.stride).unwrap_or(usize::MAX);
            if let Some(bytes) = self.ring.host_bytes(self.region) {
                for (slot, bytes) in bytes.chunks_mut(stride).enumerate() {
                    pattern(seed, slot as u64).fill(bytes);
                }
            }
            return Ok(Some(Filled { seed }));
        }
        for slot in 0..u64::from(self.slots) {
            let size = usize::try_from(length).unwrap_or(usize::MAX);
            if let Some(bytes) = self.ring.host_bytes(self.host).and_then(|b| b.get_mut(..size)) {
                pattern(seed, slot).fill(bytes);
            }
            let steps =
                [(Action::Write, self.host, 0), (Action::Read, self.region, slot * self.stride)];
            for (action, region, region_offset) in steps {
                let memory = if region == self.host {
                    peerlane_results::MemoryKind::Host
                } else {
                    self.kind
                };
                let request = Request {
                    role: Role::Target,
                    action,
                    file: target.payload,
                    file_offset: planned.flow.target_offset.0,
                    region,
                    region_offset,
                    memory,
                    need: length,
                    ask: length,
                    block: self.blocks[1],
                    end: End::Fails,
                    progress: Progress::default(),
                };
                carry_out(&mut self.ring, &mut [request], tools.clock, tools.deadline)?;
            }
        }
        Ok(Some(Filled { seed }))
    }

    /// Reads back what slots wrote, by host memory.
    pub(super) fn read_back(
        &mut self,
        planned: &PlannedFlow,
        slots: &Slots,
        seed: u64,
        tools: &FlowTools<'_>,
    ) -> Result<Verification, MeasureError> {
        let Some(target) = self.target else { return Err(MeasureError::WithOthers) };
        let block = self.blocks[1];
        let back = Back { file: target.compared, host: self.host, block, seed };
        read_back(&mut self.ring, planned, slots, &back, tools)
    }

    /// Compares what a copy wrote with its source, by host memory.
    pub(super) fn compare(
        &mut self,
        planned: &PlannedFlow,
        written: &RangeSet,
        tools: &mut FlowTools<'_>,
    ) -> Result<Verification, MeasureError> {
        let (Some(source), Some(target)) = (self.source, self.target) else {
            return Err(MeasureError::WithOthers);
        };
        let room = Bytes(self.ring.region_length(self.host).unwrap_or(0));
        let second = self.ring.attach_region(host::allocate(room)?);
        let (mut bytes, mut mismatches) = (0, 0);
        for range in written.iter() {
            let comparison = Comparison {
                source: source.compared,
                target: target.compared,
                source_offset: planned.flow.offset.0 + range.start,
                target_offset: planned.flow.target_offset.0 + range.start,
                length: range.end - range.start,
                source_block: self.blocks[0],
                target_block: self.blocks[1],
                coverage: Coverage::Full,
                hosts: [self.host, second],
                digests: Digests::Left,
                deadline: tools.deadline,
            };
            let found = verify(&mut self.ring, &comparison, tools.clock, tools.watch)?;
            bytes += found.bytes;
            mismatches += found.mismatches;
            if let Some(first) = found.first {
                let offset = planned.flow.target_offset.0 + range.start + first.offset;
                return Err(differs(planned, mismatches, offset));
            }
        }
        Ok(Verification { mode: VerifyMode::Full, bytes: Bytes(bytes), mismatches })
    }

    /// Overwrites device memory out of a target that may be written; without one it says so.
    pub(super) fn scrub(
        &mut self,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), MeasureError> {
        if !planned.is_device() {
            return Ok(());
        }
        let Some(target) = self.target else {
            let reason = "no drive of this transfer may be written".to_owned();
            warnings.push(Warning::NotScrubbed { reason });
            return Ok(());
        };
        let block = self.blocks[1];
        let room = self.ring.region_length(self.host).unwrap_or(0) / HOST_PARTS;
        let most = BORROWED_MAX.min(planned.flow.bytes.0).min(planned.request).min(room);
        let memory_length = self.stride * u64::from(self.slots);
        let setup = ScrubSetup {
            target: target.payload,
            target_offset: planned.flow.target_offset.0,
            length: (most / block * block).max(block),
            block,
            memory: self.region,
            memory_kind: self.kind,
            memory_length: memory_length / block * block,
            host: self.host,
            deadline: tools.deadline,
        };
        let cleared = scrub(&mut self.ring, &setup, tools.clock).map_err(Box::new)?;
        self.evidence.push(Evidence {
            looked_at: format!("{} after the check of the content", planned.memory.name),
            showed: format!("{} bytes were overwritten with zeroes by DMA", cleared.0),
        });
        self.flush(tools)
    }
}

/// Where what slots wrote is read back from, and into what.
pub(super) struct Back {
    pub(super) file: FileId,
    pub(super) host: RegionId,
    /// Block size of the file.
    pub(super) block: u64,
    /// Of the patterns.
    pub(super) seed: u64,
}

/// Reads back what slots wrote, by host memory, and compares it with their patterns.
pub(super) fn read_back<R: Ring>(
    ring: &mut R,
    planned: &PlannedFlow,
    slots: &Slots,
    back: &Back,
    tools: &FlowTools<'_>,
) -> Result<Verification, MeasureError> {
    let room = ring.region_length(back.host).unwrap_or(0);
    let piece = slots.part.min(room).max(1);
    let lanes = usize::try_from(room / piece).unwrap_or(1).clamp(1, SIDE_BY_SIDE);
    let written = slots.last.iter().enumerate().filter(|(_, slot)| **slot != UNKNOWN);
    let all: Vec<(u64, u16)> = written.map(|(index, slot)| (index as u64, *slot)).collect();
    let (mut bytes, mut mismatches, mut first) = (0, 0, None);
    for some in all.chunks(lanes) {
        if tools.watch.stop_requested() {
            break;
        }
        let mut requests: Vec<Request> = some
            .iter()
            .enumerate()
            .map(|(lane, (index, _))| {
                let start = index * slots.part;
                let need = piece.min(planned.flow.bytes.0 - start);
                Request {
                    role: Role::Target,
                    action: Action::Read,
                    file: back.file,
                    file_offset: planned.flow.target_offset.0 + start,
                    region: back.host,
                    region_offset: lane as u64 * piece,
                    memory: peerlane_results::MemoryKind::Host,
                    need,
                    ask: need.next_multiple_of(back.block),
                    block: back.block,
                    end: End::Fails,
                    progress: Progress::default(),
                }
            })
            .collect();
        carry_out(ring, &mut requests, tools.clock, tools.deadline)?;
        let Some(found) = ring.host_bytes(back.host) else { continue };
        for (request, (index, slot)) in requests.iter().zip(some) {
            let range = request.region_offset..request.region_offset + request.need;
            let found = &found[as_size(range.start)..as_size(range.end)];
            bytes += request.need;
            if !is_pattern(found, pattern(back.seed, u64::from(*slot))) {
                mismatches += 1;
                first.get_or_insert(planned.flow.target_offset.0 + index * slots.part);
            }
        }
    }
    let verification = Verification { mode: VerifyMode::Full, bytes: Bytes(bytes), mismatches };
    match first {
        None => Ok(verification),
        Some(offset) => Err(differs(planned, mismatches, offset)),
    }
}

fn as_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn is_pattern(found: &[u8], mut random: Random) -> bool {
    found.chunks(8).all(|chunk| random.next().to_le_bytes()[..chunk.len()] == *chunk)
}

fn differs(planned: &PlannedFlow, mismatches: u64, offset: u64) -> MeasureError {
    let path = planned.target().map(|facts| facts.path.clone()).unwrap_or_default();
    MeasureError::Differs { path, mismatches, offset: Bytes(offset) }
}
