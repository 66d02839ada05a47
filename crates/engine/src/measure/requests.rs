//! Flows by requests of a ring: from drive to drive by the relay, and one drive against one memory.

use std::slice;

use peerlane_results::{BytesByRoute, Warning};
use peerlane_units::Bytes;

use super::blocks::{BlockAccount, EndedBlocks};
use super::carry::{CarriedRun, Carrier, CheckResult};
use super::content::Slots;
use super::planned::PlannedFlow;
use super::ready::ReadyFlow;
use super::stream::{RegionLocation, SlotLog, StreamSetup, stream};
use super::{FlowTools, MeasureError, Result};
use crate::io::ranges::RangeSet;
use crate::io::ring::{Action, Around as _, RegionId, Ring};
use crate::transfer::copy::check::flush_file;
use crate::transfer::relay::{Transfer, latencies, relay_to};

/// From drive to drive, as a copy goes.
pub(super) struct RelayedFlow {
    ready: ReadyFlow,
    transfer: Transfer,
    written: RangeSet,
}

impl RelayedFlow {
    pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let mut ready = planned.open(tools)?;
        let transfer = ready.transfer(planned, tools.deadline).ok_or(MeasureError::WithOthers)?;
        ready.prove(&transfer, tools)?;
        Ok(Self { ready, transfer, written: RangeSet::new() })
    }
}

impl Carrier for RelayedFlow {
    fn begin_count(&mut self) {
        self.ready.begin_count();
    }

    fn run(&mut self, planned: &PlannedFlow, tools: &mut FlowTools<'_>) -> Result<CarriedRun> {
        let clock = tools.clock;
        let start = clock.now();
        let mut blocks = planned.blocks(start, BlockAccount::OfBlocks, tools);
        let ring = &mut self.ready.ring;
        let transfers = slice::from_ref(&self.transfer);
        let mut relayed = relay_to(ring, transfers, &mut blocks, None, clock, tools.watch)?;
        let stage = relayed.stages.pop();
        let moved = relayed
            .into_one()
            .map_err(|error| planned.name_the_stage(error.into(), ring.inner().fault()))?;
        self.ready.flush(tools)?;
        let end = clock.now();
        let EndedBlocks { latency: block, first_done, pace } = blocks.end();
        self.written = moved.written;
        Ok(CarriedRun {
            bytes: moved.bytes,
            start,
            first_done,
            end,
            read: moved.read_latency,
            write: moved.write_latency,
            block,
            stage,
            interrupted: moved.interrupted,
            pace,
        })
    }

    fn requested(&self, bytes: Bytes) -> BytesByRoute {
        self.ready.ring.counted(bytes)
    }

    fn check(
        &mut self,
        planned: &PlannedFlow,
        _: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        let verification = match planned.is_comparable() {
            true => Some(self.ready.compare(planned, &self.written, tools)?),
            false => None,
        };
        self.ready.end(planned, verification, tools)
    }
}

/// By requests in one direction: one drive against one memory, or a map written to a drive.
pub(super) struct OneWayFlow {
    pub(super) ready: ReadyFlow,
    pub(super) way: StreamSetup,
    pub(super) content: CheckedContent,
}

/// Content that a check reads at the target.
pub(super) enum CheckedContent {
    /// The drive is only read.
    Nothing,
    /// Patterns out of slots.
    Slots(Slots),
    /// Ranges of the source.
    Ranges(RangeSet),
}

impl OneWayFlow {
    pub(super) fn open(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let mut ready = planned.open(tools)?;
        let content = ready
            .fill_slots(planned, tools)?
            .map_or(CheckedContent::Nothing, CheckedContent::Slots);
        let flow = &planned.flow;
        let (action, file, offset, file_block) = match (ready.source, ready.target) {
            (Some(source), _) => (Action::Read, source, flow.offset, ready.blocks[0]),
            (_, Some(target)) => (Action::Write, target, flow.target_offset, ready.blocks[1]),
            _ => return Err(MeasureError::WithOthers),
        };
        let way = StreamSetup {
            action,
            file: file.payload,
            offset: offset.0,
            file_block,
            region: ready.region,
            memory: ready.kind,
            slots: ready.shape.slots,
            place: RegionLocation::Slot(ready.shape.stride),
            has_stage: planned.stage.is_some(),
            deadline: tools.deadline,
        };
        Ok(Self { ready, way, content })
    }
}

impl Carrier for OneWayFlow {
    fn begin_count(&mut self) {
        self.ready.begin_count();
    }

    fn run(&mut self, planned: &PlannedFlow, tools: &mut FlowTools<'_>) -> Result<CarriedRun> {
        let mut nobody = ();
        let log: &mut dyn SlotLog = match &mut self.content {
            CheckedContent::Nothing => &mut nobody,
            CheckedContent::Slots(slots) => slots,
            CheckedContent::Ranges(ranges) => ranges,
        };
        let ring = &mut self.ready.ring;
        one_way(planned, (ring, self.ready.host), &self.way, log, tools)
            .map_err(|error| planned.name_the_stage(error, self.ready.ring.inner().fault()))
    }

    fn requested(&self, bytes: Bytes) -> BytesByRoute {
        self.ready.ring.counted(bytes)
    }

    fn check(
        &mut self,
        planned: &PlannedFlow,
        _: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        let verification = match &self.content {
            CheckedContent::Nothing => None,
            _ if !planned.is_comparable() => None,
            CheckedContent::Slots(slots) => Some(self.ready.read_back(planned, slots, tools)?),
            CheckedContent::Ranges(ranges) => Some(self.ready.compare(planned, ranges, tools)?),
        };
        let mut checked = self.ready.end(planned, verification, tools)?;
        let is_to_memory = planned.is_device() && planned.target.storage().is_none();
        if is_to_memory && planned.is_comparable() {
            let memory = planned.memory.name.clone();
            checked.warnings.insert(0, Warning::MemoryNotChecked { memory });
        }
        Ok(checked)
    }
}

/// Moves all blocks by requests in one direction, and flushes the writes; the flush names the
/// region.
pub(super) fn one_way<R: Ring>(
    planned: &PlannedFlow,
    (ring, named): (&mut R, RegionId),
    way: &StreamSetup,
    log: &mut dyn SlotLog,
    tools: &mut FlowTools<'_>,
) -> Result<CarriedRun> {
    let clock = tools.clock;
    let start = clock.now();
    // A request that is a whole block needs no account of blocks, whose cost shows at small ones. A stage
    // makes the block longer than its request.
    let is_whole = planned.flow.block.0 <= planned.request && !way.has_stage;
    let account = if is_whole { BlockAccount::OfRequests } else { BlockAccount::OfBlocks };
    let mut blocks = planned.blocks(start, account, tools);
    let moved = stream(ring, way, &mut blocks, log, clock, tools.watch)?;
    if way.action == Action::Write {
        flush_file(ring, way.file, named, tools.deadline, clock)?;
    }
    let end = clock.now();
    let EndedBlocks { latency, first_done, pace } = blocks.end();
    let block = if is_whole { moved.latency.clone() } else { latency };
    let (read, write) = match way.action {
        Action::Read => (moved.latency, latencies()),
        _ => (latencies(), moved.latency),
    };
    let (bytes, interrupted) = (moved.bytes, moved.interrupted);
    let stage = way.has_stage.then_some(moved.stage);
    Ok(CarriedRun { bytes, start, first_done, end, read, write, block, stage, interrupted, pace })
}
