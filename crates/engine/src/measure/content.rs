//! Checks that written content is there, and states the content of device memory when a flow is
//! done.
//!
//! A copy is compared with its source. A drive that is written out of one memory gets a pattern of its
//! own from each slot; the last slot that wrote a range is noted, so a range that went to the wrong
//! place, or nowhere, shows.

use std::collections::HashMap;
use std::ops::Range;

use peerlane_memory::host;
use peerlane_results::{Evidence, RouteVerdict, Verification, VerifyMode, Warning};
use peerlane_units::Bytes;

use super::planned::PlannedFlow;
use super::ready::ReadyFlow;
use super::scrub::{BORROWED_MAX, HOST_PARTS, ScrubSetup, scrub};
use super::stream::SlotLog;
use super::{FlowTools, MeasureError, Result};
use crate::io::failure::Role;
use crate::io::ranges::RangeSet;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, FileId, RegionId, Ring};
use crate::io::stamp::{SECTOR, Stamp};
use crate::transfer::verify::{ComparisonRequest, Coverage, Digests, verify};

/// No slot wrote there, or two at a time.
const UNKNOWN: u16 = u16::MAX;
/// Requests side by side while content is read back.
const SIDE_BY_SIDE: usize = 16;

/// The slot that wrote each part of the range last. One request writes one part; the last of a
/// block may be shorter.
pub(super) struct Slots {
    /// Seed of the patterns.
    seed: u64,
    block: u64,
    request: u64,
    last: Vec<u16>,
    /// Parts that are being written.
    under_way: HashMap<usize, UnderWay>,
}

/// A part that is being written. Random blocks, or a range shorter than the bytes in flight, may
/// write it again before it is done. The order of completions does not tell which of several writes
/// came last.
#[derive(Default)]
struct UnderWay {
    writes: u32,
    is_contested: bool,
}

impl Slots {
    pub(super) fn new(planned: &PlannedFlow, seed: u64) -> Self {
        Self {
            seed,
            ..Self::without_seed(planned.flow.block.0, planned.request, planned.flow.bytes.0)
        }
    }

    fn without_seed(block: u64, request: u64, bytes: u64) -> Self {
        let (block, last, under_way) = (block.max(1), Vec::new(), HashMap::new());
        let mut slots = Self { seed: 0, block, request, last, under_way };
        let blocks = bytes.div_ceil(slots.block);
        let parts = usize::try_from(blocks.saturating_mul(slots.of_a_block())).unwrap_or(0);
        slots.last = vec![UNKNOWN; parts];
        slots
    }

    fn of_a_block(&self) -> u64 {
        self.block.div_ceil(self.request.max(1)).max(1)
    }

    fn index(&self, range: &Range<u64>) -> usize {
        let (block, within) = (range.start / self.block, range.start % self.block);
        let index = block * self.of_a_block() + within / self.request.max(1);
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    /// Returns the range of a part, within so many bytes.
    fn part(&self, index: u64, bytes: u64) -> Range<u64> {
        let (block, within) = (index / self.of_a_block(), index % self.of_a_block());
        let start = block * self.block + within * self.request;
        start..(start + self.request).min((block + 1) * self.block).min(bytes)
    }
}

impl SlotLog for Slots {
    fn begun(&mut self, range: &Range<u64>) {
        let under_way = self.under_way.entry(self.index(range)).or_default();
        under_way.is_contested |= under_way.writes > 0;
        under_way.writes += 1;
    }

    fn done(&mut self, slot: u32, range: Range<u64>) {
        let index = self.index(&range);
        let mut is_contested = false;
        if let Some(under_way) = self.under_way.get_mut(&index) {
            is_contested = under_way.is_contested;
            under_way.writes -= 1;
            if under_way.writes == 0 {
                self.under_way.remove(&index);
            }
        }
        if let Some(last) = self.last.get_mut(index) {
            *last = if is_contested { UNKNOWN } else { u16::try_from(slot).unwrap_or(UNKNOWN) };
        }
    }
}

/// Seed of the content of a slot, or of a part of a source.
fn seed_of(seed: u64, number: u64) -> u64 {
    seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03)
}

/// Fills bytes with the content of a slot, or of a part of a source: sectors that say that a benchmark wrote
/// them.
pub(super) fn fill(seed: u64, number: u64, bytes: &mut [u8]) {
    fill_from(0, seed, number, bytes);
}

/// Continues [`fill`], `offset` bytes after its start, a multiple of a sector.
pub(super) fn fill_from(offset: u64, seed: u64, number: u64, bytes: &mut [u8]) {
    Stamp::Benchmark.fill_from(offset / SECTOR as u64, seed_of(seed, number), bytes);
}

/// True when bytes equal those of [`fill`].
fn is_filled(seed: u64, number: u64, bytes: &[u8]) -> bool {
    Stamp::Benchmark.is_filled(seed_of(seed, number), bytes)
}

impl ReadyFlow {
    /// Gives every slot a pattern of its own if slots are written out; device memory gets it by way
    /// of the target, which proves that way in both directions.
    pub(super) fn fill_slots(
        &mut self,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<Option<Slots>> {
        let Some(target) = self.target else { return Ok(None) };
        let (seed, length) = (tools.seed, planned.request);
        let slots = Slots::new(planned, seed);
        if !planned.is_device() {
            let stride = usize::try_from(self.shape.stride).unwrap_or(usize::MAX);
            if let Some(bytes) = self.ring.host_bytes(self.region) {
                for (slot, bytes) in bytes.chunks_mut(stride).enumerate() {
                    fill(seed, slot as u64, bytes);
                }
            }
            return Ok(Some(slots));
        }
        let start = planned.flow.target_offset.0;
        for slot in 0..u64::from(self.shape.slots) {
            let size = usize::try_from(length).unwrap_or(usize::MAX);
            if let Some(bytes) = self.ring.host_bytes(self.host).and_then(|b| b.get_mut(..size)) {
                fill(seed, slot, bytes);
            }
            let steps = [
                (Action::Write, MemoryPlace::host(self.host, 0)),
                (
                    Action::Read,
                    MemoryPlace {
                        region: self.region,
                        offset: slot * self.shape.stride,
                        kind: self.kind,
                    },
                ),
            ];
            for (action, place) in steps {
                let to = FilePlace { file: target.payload, offset: start, block: self.blocks[1] };
                let request = Request::new(Role::Target, action, to, place, length);
                carry_out(&mut self.ring, &mut [request], tools.clock, tools.deadline)?;
            }
        }
        Ok(Some(slots))
    }

    /// Reads back the slots' writes, by host memory.
    pub(super) fn read_back(
        &mut self,
        planned: &PlannedFlow,
        slots: &Slots,
        tools: &FlowTools<'_>,
    ) -> Result<Verification> {
        let Some(target) = self.target else { return Err(MeasureError::WithOthers) };
        let back = Back { file: target.compared, host: self.host, block: self.blocks[1] };
        read_back(&mut self.ring, planned, slots, &back, tools)
    }

    /// Compares a copy with its source, by host memory.
    pub(super) fn compare(
        &mut self,
        planned: &PlannedFlow,
        written: &RangeSet,
        tools: &mut FlowTools<'_>,
    ) -> Result<Verification> {
        let (Some(source), Some(target)) = (self.source, self.target) else {
            return Err(MeasureError::WithOthers);
        };
        let room = Bytes(self.ring.region_length(self.host).unwrap_or(0));
        let second = self.ring.attach_region(host::allocate(room)?);
        let (mut bytes, mut mismatches) = (0, 0);
        for range in written.iter() {
            let comparison = ComparisonRequest {
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
    ) -> Result<Option<Warning>> {
        if !planned.is_device() {
            return Ok(None);
        }
        let Some(target) = self.target else {
            let reason = "no drive of this transfer may be written".to_owned();
            return Ok(Some(Warning::NotScrubbed { reason }));
        };
        let block = self.blocks[1];
        let room = self.ring.region_length(self.host).unwrap_or(0) / HOST_PARTS;
        let most = BORROWED_MAX.min(planned.flow.bytes.0).min(planned.request).min(room);
        let memory_length = self.shape.memory().0;
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
        let looked_at = format!("{} after the check of the content", planned.memory.name);
        let showed = format!("{} bytes were overwritten with zeroes by DMA", cleared.0);
        let says = RouteVerdict::Consistent;
        self.evidence.push(Evidence { looked_at, showed }.says(says));
        self.flush(tools)?;
        Ok(None)
    }
}

/// File and host memory for reading back the slots' writes.
pub(super) struct Back {
    pub(super) file: FileId,
    pub(super) host: RegionId,
    /// Block size of the file.
    pub(super) block: u64,
}

/// Reads back the slots' writes, by host memory, and compares them with their patterns.
pub(super) fn read_back<R: Ring>(
    ring: &mut R,
    planned: &PlannedFlow,
    slots: &Slots,
    back: &Back,
    tools: &FlowTools<'_>,
) -> Result<Verification> {
    let room = ring.region_length(back.host).unwrap_or(0);
    let piece = slots.request.min(room).max(1);
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
                let part = slots.part(*index, planned.flow.bytes.0);
                let (start, need) = (part.start, piece.min(part.end - part.start));
                let offset = planned.flow.target_offset.0 + start;
                let from = FilePlace { file: back.file, offset, block: back.block };
                let place = MemoryPlace::host(back.host, lane as u64 * piece);
                Request::new(Role::Target, Action::Read, from, place, need)
            })
            .collect();
        carry_out(ring, &mut requests, tools.clock, tools.deadline)?;
        let Some(found) = ring.host_bytes(back.host) else { continue };
        for (request, (index, slot)) in requests.iter().zip(some) {
            let range = request.region_offset..request.region_offset + request.need;
            let found = &found[as_size(range.start)..as_size(range.end)];
            bytes += request.need;
            if !is_filled(slots.seed, u64::from(*slot), found) {
                mismatches += 1;
                let part = slots.part(*index, planned.flow.bytes.0);
                first.get_or_insert(planned.flow.target_offset.0 + part.start);
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

fn differs(planned: &PlannedFlow, mismatches: u64, offset: u64) -> MeasureError {
    let path = planned.target().map(|facts| facts.path.clone()).unwrap_or_default();
    MeasureError::Differs { path, mismatches, offset: Bytes(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_writes_leave_writer_unknown() {
        let mut slots = Slots::without_seed(4, 4, 8);
        slots.begun(&(0..4));
        slots.begun(&(4..8));
        slots.done(0, 0..4);
        slots.done(1, 4..8);
        assert_eq!(slots.last, [0, 1]);
        for _ in 0..3 {
            slots.begun(&(0..4));
        }
        for slot in [2, 0, 1] {
            slots.done(slot, 0..4);
            assert_eq!(slots.last, [UNKNOWN, 1]);
        }
        slots.begun(&(0..4));
        slots.done(2, 0..4);
        assert_eq!(slots.last, [2, 1], "alone, it is known again");
        assert!(slots.under_way.is_empty());
    }

    #[test]
    fn part_is_request_in_uneven_blocks() {
        // A block of 10 in requests of 4, of which the last block lacks 3; and a block shorter than a request.
        for (block, request, bytes, ranges) in
            [(10, 4, 17, vec![0..4, 4..8, 8..10, 10..14, 14..17]), (3, 4, 6, vec![0..3, 3..6])]
        {
            let slots = Slots::without_seed(block, request, bytes);
            for (index, range) in ranges.into_iter().enumerate() {
                assert_eq!(slots.index(&range), index);
                assert_eq!(slots.part(index as u64, bytes), range);
            }
        }
    }
}
