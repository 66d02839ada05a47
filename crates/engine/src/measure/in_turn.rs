//! One block after the other, each by calls of the system or by the processor itself: what has no requests in flight
//! and so no ring.

use std::ops::Range;

use peerlane_results::BytesByRoute;
use peerlane_units::Bytes;

use super::blocks::{Account, Ended};
use super::carry::Run;
use super::planned::PlannedFlow;
use super::{FlowTools, MeasureError, Moved};
use crate::relay::latencies;

/// What is done with each block.
pub(super) trait Step {
    /// Called before the first block of the range, the first time before anything is timed.
    ///
    /// # Errors
    /// When the system refuses what the blocks need.
    fn begin(&mut self) -> Result<(), MeasureError>;

    /// Moves a block; offsets are in bytes from the start of the range.
    ///
    /// # Errors
    /// When the block was not moved.
    fn block(&mut self, range: Range<u64>) -> Result<(), MeasureError>;
}

/// Waits for the other flows of the case, moves all blocks, and tells the others.
pub(super) fn carry(
    planned: &PlannedFlow,
    step: &mut dyn Step,
    tools: &mut FlowTools<'_>,
) -> Result<Run, MeasureError> {
    step.begin()?;
    planned.wait(tools)?;
    let run = run(planned, step, tools);
    let bytes = Bytes(run.as_ref().map_or(0, |run| run.bytes));
    // It has no ring that counts, and names no memory but the host's.
    tools.gate.end(Moved { bytes, requested: BytesByRoute { p2p: Bytes::ZERO, host: bytes } });
    run
}

fn run(
    planned: &PlannedFlow,
    step: &mut dyn Step,
    tools: &mut FlowTools<'_>,
) -> Result<Run, MeasureError> {
    let clock = tools.clock;
    let start = clock.now();
    let mut blocks = planned.blocks(start, Account::OfRequests, tools);
    let (mut bytes, mut latency, mut interrupted) = (0, latencies(), false);
    loop {
        interrupted |= tools.watch.stop_requested();
        let Some(range) = (if interrupted { None } else { blocks.next() }) else { break };
        if range.start == 0 && bytes > 0 {
            step.begin()?;
        }
        let since = clock.now();
        step.block(range.clone())?;
        let now = clock.now();
        latency.saturating_record(now.since(since).0);
        bytes += range.end - range.start;
        blocks.done(range, now);
    }
    let end = clock.now();
    let Ended { first_done, pace, .. } = blocks.end();
    let (read, write) = (latency.clone(), latencies());
    let block = latency;
    Ok(Run { bytes, start, first_done, end, read, write, block, interrupted, pace })
}
