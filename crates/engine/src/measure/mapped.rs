//! The baseline of programs that map their source: written from the map, one request at a time, so that
//! the kernel reads a page when the write asks for it.

use std::ops::Range;

use peerlane_memory::mapped;
use peerlane_results::MemoryKind;
use peerlane_units::Bytes;

use super::blocks::{Account, Ended};
use super::carry::Run;
use super::planned::PlannedFlow;
use super::ready::{Cache, Ready};
use super::serial::forget;
use super::stream::{Log, OneWay, Place, stream};
use super::{FlowOutcome, FlowTools, MeasureError};
use crate::ranges::RangeSet;
use crate::relay::latencies;
use crate::ring::{Action, RegionId, Ring};

impl Log for RangeSet {
    fn done(&mut self, _: u32, range: Range<u64>) {
        self.insert(range);
    }
}

/// Carries a flow from file to file out by a map of its source.
pub(super) fn carry(
    planned: &PlannedFlow,
    tools: &mut FlowTools<'_>,
) -> Result<FlowOutcome, MeasureError> {
    let flow = &planned.flow;
    let [source, _] = planned.open_ends(Cache::Through, tools.hold, tools.deadline)?;
    let Some(source) = source else { return Err(MeasureError::WithOthers) };
    forget(&source.file, flow.offset.0, flow.bytes);
    let mut ready = planned.open(tools)?;
    let end = Bytes(flow.offset.0.saturating_add(flow.bytes.0));
    let region = mapped::map(&source.file, end).map_err(|errno| MeasureError::File {
        action: "map",
        path: planned.source().map(|facts| facts.path.clone().into()).unwrap_or_default(),
        source: errno.into(),
    })?;
    let region = ready.ring.attach_region(region);
    planned.wait(tools)?;
    ready.begin_count();
    let moved = write(planned, &mut ready, region, tools);
    tools.gate.end(Run::moved(moved.as_ref().ok(), &ready));
    let (run, written) = moved?;
    let verification = ready.compare(planned, &written, tools)?;
    Ok(planned.outcome(run, Some(verification), ready.evidence, Vec::new()))
}

fn write(
    planned: &PlannedFlow,
    ready: &mut Ready,
    region: RegionId,
    tools: &mut FlowTools<'_>,
) -> Result<(Run, RangeSet), MeasureError> {
    let (flow, clock) = (&planned.flow, tools.clock);
    let Some(target) = ready.target else { return Err(MeasureError::WithOthers) };
    let way = OneWay {
        action: Action::Write,
        file: target.payload,
        offset: flow.target_offset.0,
        file_block: ready.blocks[1],
        region,
        memory: MemoryKind::Host,
        slots: 1,
        place: Place::Range(flow.offset.0),
        deadline: tools.deadline,
    };
    let start = clock.now();
    let (mut blocks, mut written) =
        (planned.blocks(start, Account::OfBlocks, tools), RangeSet::new());
    let moved = stream(&mut ready.ring, &way, &mut blocks, &mut written, clock, tools.watch)?;
    ready.flush(tools)?;
    let end = clock.now();
    let Ended { latency: block, first_done, pace } = blocks.end();
    let (bytes, interrupted) = (moved.bytes, moved.interrupted);
    let (read, write) = (latencies(), moved.latency);
    Ok((Run { bytes, start, first_done, end, read, write, block, interrupted, pace }, written))
}
