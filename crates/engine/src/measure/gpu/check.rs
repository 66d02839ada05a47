//! Fills memory of a GPU before a run, compares it after, and clears it at the end, by its copy
//! engine.

use std::ops::Range;

use peerlane_memory::cuda::CopyDirection;
use peerlane_results::{Verification, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::super::content::{self, Slots};
use super::super::planned::PlannedFlow;
use super::super::stream::{RegionLocation, SlotLog};
use super::super::{FlowTools, MeasureError, Result};
use super::ready::ReadyGpuFlow;
use super::saw;
use crate::io::desk::Stopped;
use crate::io::failure::Role;
use crate::io::ranges::RangeSet;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, Ring};

/// Parts of the range that came last into each place of the memory.
pub(super) enum Landed {
    /// Each byte at its own place.
    Range(RangeSet),
    /// In slots, the later over the earlier.
    Slots { stride: u64, last: Vec<Option<Range<u64>>> },
}

impl Landed {
    pub(super) fn new(ready: &ReadyGpuFlow) -> Self {
        match ready.place {
            RegionLocation::Range(_) => Self::Range(RangeSet::new()),
            RegionLocation::Slot(stride) => Self::Slots { stride, last: Vec::new() },
        }
    }

    /// Offsets in the memory with the parts of the range that are there.
    fn parts(&self) -> Vec<(u64, Range<u64>)> {
        match self {
            Self::Range(ranges) => ranges.iter().map(|range| (range.start, range)).collect(),
            Self::Slots { stride, last } => {
                let slots = (0..).zip(last);
                slots.filter_map(|(slot, range)| Some((slot * stride, range.clone()?))).collect()
            }
        }
    }
}

impl SlotLog for Landed {
    fn done(&mut self, slot: u32, range: Range<u64>) {
        match self {
            Self::Range(ranges) => ranges.insert(range),
            Self::Slots { last, .. } => {
                let slot = usize::try_from(slot).unwrap_or(usize::MAX);
                if last.len() <= slot {
                    last.resize(slot + 1, None);
                }
                last[slot] = Some(range);
            }
        }
    }
}

/// Difference between two contents.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differ {
    blocks: u64,
    /// Offset of the first byte that differs.
    first: Option<u64>,
}

impl Differ {
    /// Compares block by block; bytes that one of them lacks differ.
    fn between(one: &[u8], other: &[u8], block: usize) -> Self {
        let mut differ = Self::default();
        let all = one.len().max(other.len());
        for start in (0..all).step_by(block) {
            let end = start + block;
            let (one, other) = (part(one, start, end), part(other, start, end));
            if one != other {
                let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
                differ.blocks += 1;
                differ.first.get_or_insert((start + same) as u64);
            }
        }
        differ
    }
}

/// Returns the part of a slice that exists within the limits.
fn part(of: &[u8], start: usize, end: usize) -> &[u8] {
    &of[start.min(of.len())..end.min(of.len())]
}

impl ReadyGpuFlow {
    fn stopped(planned: &PlannedFlow, stopped: Stopped, deadline: Nanos) -> MeasureError {
        match stopped {
            Stopped::Cuda(source) => planned.no_gpu(source),
            Stopped::Deadline => {
                MeasureError::CopyEngine { gpu: planned.memory.name.clone(), deadline }
            }
        }
    }

    /// Gives every slot a pattern of its own.
    pub(super) fn fill(&mut self, planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Slots> {
        let (seed, time) = (tools.seed, (tools.clock, tools.deadline));
        for slot in 0..u64::from(planned.slots) {
            let mut done = 0;
            while done < planned.request {
                let part = self.side.desk.room().min(planned.request - done);
                let size = usize::try_from(part).unwrap_or(usize::MAX);
                content::fill_from(done, seed, slot, &mut self.side.desk.bytes()[..size]);
                let place = (&self.side.memory, slot * self.stride + done);
                self.side
                    .desk
                    .copy(CopyDirection::ToDevice, place, part, time)
                    .map_err(|stopped| Self::stopped(planned, stopped, tools.deadline))?;
                done += part;
            }
        }
        Ok(Slots::new(planned, seed))
    }

    /// Compares the memory with the file, which is read by host memory.
    pub(super) fn compare(
        &mut self,
        planned: &PlannedFlow,
        landed: &Landed,
        tools: &FlowTools<'_>,
    ) -> Result<Verification> {
        let (mut bytes, mut mismatches, mut first) = (0, 0, None);
        for (place, range) in landed.parts() {
            let mut start = range.start;
            while start < range.end {
                let part = self.side.desk.room().min(range.end - start);
                let there = place + (start - range.start);
                let found = self.differ(planned, there, start..start + part, tools)?;
                mismatches += found.blocks;
                first = first.or(found.first.map(|at| Bytes(start + at)));
                bytes += part;
                start += part;
            }
        }
        if let Some(offset) = first {
            let memory = planned.memory.name.clone();
            return Err(MeasureError::MemoryDiffers { memory, mismatches, offset });
        }
        let is_all = matches!(landed, Landed::Range(_));
        let mode = if is_all { VerifyMode::Full } else { VerifyMode::Sample };
        let all = if is_all { "all" } else { "all that was not overwritten" };
        self.evidence.push(saw(
            format!("{} by its copy engine, and the file by host memory", planned.memory.name),
            format!("{all} that was moved, {bytes} bytes, is the same"),
        ));
        Ok(Verification { mode, bytes: Bytes(bytes), mismatches })
    }

    /// Compares a part of the range in memory with the file.
    fn differ(
        &mut self,
        planned: &PlannedFlow,
        place: u64,
        range: Range<u64>,
        tools: &FlowTools<'_>,
    ) -> Result<Differ> {
        let need = range.end - range.start;
        let time = (tools.clock, tools.deadline);
        self.side
            .desk
            .copy(CopyDirection::ToHost, (&self.side.memory, place), need, time)
            .map_err(|stopped| Self::stopped(planned, stopped, tools.deadline))?;
        let offset = planned.flow.offset.0 + range.start;
        let from = FilePlace { file: self.file, offset, block: self.block };
        let place = MemoryPlace::host(self.host, 0);
        let request = Request::new(Role::Source, Action::Read, from, place, need);
        carry_out(&mut self.ring, &mut [request], tools.clock, tools.deadline)?;
        let size = usize::try_from(need).unwrap_or(usize::MAX);
        let file = self.ring.host_bytes(self.host).and_then(|bytes| bytes.get(..size));
        let memory = self.side.desk.bytes().get(..size);
        let block = usize::try_from(planned.flow.block.0).unwrap_or(size).clamp(1, size.max(1));
        Ok(Differ::between(memory.unwrap_or_default(), file.unwrap_or_default(), block))
    }

    /// Reads back the slots' writes to the file.
    pub(super) fn read_back(
        &mut self,
        planned: &PlannedFlow,
        slots: &Slots,
        tools: &FlowTools<'_>,
    ) -> Result<Verification> {
        let back = content::Back { file: self.file, host: self.host, block: self.block };
        content::read_back(&mut self.ring, planned, slots, &back, tools)
    }

    /// Overwrites the memory with zeroes, before its next user can have it.
    pub(super) fn clear(&mut self, planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<()> {
        let length = self
            .side
            .clear(tools.clock, tools.deadline)
            .map_err(|stopped| Self::stopped(planned, stopped, tools.deadline))?
            .0;
        let showed = format!("{length} bytes were overwritten with zeroes by the copy engine");
        self.evidence
            .push(saw(format!("{} after the check of the content", planned.memory.name), showed));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_by_blocks_and_placed_by_bytes() {
        let (one, mut other) = (vec![7u8; 1000], vec![7u8; 1000]);
        assert_eq!(Differ::between(&one, &other, 256), Differ::default());
        (other[300], other[301], other[999]) = (0, 0, 0);
        assert_eq!(Differ::between(&one, &other, 256), Differ { blocks: 2, first: Some(300) });
        let short = Differ::between(&one, &other[..100], 256);
        assert_eq!(short, Differ { blocks: 4, first: Some(100) });
    }
}
