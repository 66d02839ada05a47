//! One block after the other, each by calls of the system, of a driver, or by the processor itself: no requests are
//! in flight, so there is no ring.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use peerlane_results::BytesByRoute;
use peerlane_units::{Bytes, Nanos};

use super::blocks::{BlockAccount, EndedBlocks};
use super::carry::{CarriedRun, Carrier, CheckResult};
use super::planned::PlannedFlow;
use super::{FlowTools, Result};
use crate::transfer::relay::{RelayWork as _, count, latencies};

/// Longest pause between two looks at the pace, the watch or a deadline.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Steps of a flow.
pub(super) trait SerialSteps {
    /// Called before the range begins again.
    ///
    /// # Errors
    /// When the system refuses a call that the blocks need.
    fn again(&mut self) -> Result<()> {
        Ok(())
    }

    /// Moves a block; offsets are in bytes from the start of the range.
    ///
    /// # Errors
    /// When the block was not moved.
    fn block(
        &mut self,
        range: Range<u64>,
        planned: &PlannedFlow,
        tools: &FlowTools<'_>,
    ) -> Result<Half>;

    /// Makes the writes durable.
    ///
    /// # Errors
    /// The system's answer.
    fn flush(&mut self, _tools: &FlowTools<'_>) -> Result<()> {
        Ok(())
    }

    /// Checks the content.
    ///
    /// # Errors
    /// When it differs, or cannot be compared.
    fn compare(
        &mut self,
        _planned: &PlannedFlow,
        _run: &CarriedRun,
        _tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        Ok(CheckResult::default())
    }
}

/// Without a ring, nothing counts requests, and memory of devices takes no part.
impl<S: SerialSteps> Carrier for S {
    fn run(&mut self, planned: &PlannedFlow, tools: &mut FlowTools<'_>) -> Result<CarriedRun> {
        run(planned, self, tools)
    }

    fn requested(&self, bytes: Bytes) -> BytesByRoute {
        BytesByRoute { p2p: Bytes::ZERO, host: bytes }
    }

    fn check(
        &mut self,
        planned: &PlannedFlow,
        run: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        self.compare(planned, run, tools)
    }
}

/// The part of a block's time that is a read or a write.
#[derive(Debug, Clone, Copy)]
pub(super) enum Half {
    /// All of it is a read.
    Read,
    /// All of it is a write.
    Write,
    /// A read until then, and a write from there on.
    Both(Nanos),
}

/// Moves all blocks and flushes.
///
/// # Errors
/// The first failure of a step.
pub(super) fn run(
    planned: &PlannedFlow,
    step: &mut dyn SerialSteps,
    tools: &mut FlowTools<'_>,
) -> Result<CarriedRun> {
    let clock = tools.clock;
    let start = clock.now();
    let mut blocks = planned.blocks(start, BlockAccount::OfRequests, tools);
    let (mut read, mut write, mut block) = (latencies(), latencies(), latencies());
    let (mut bytes, mut interrupted, mut half) = (0, false, Half::Read);
    loop {
        interrupted |= tools.watch.stop_requested();
        let pause = planned.flow.limit.map_or(Nanos(0), |_| blocks.pause(clock.now()));
        if pause > Nanos(0) && !interrupted {
            thread::sleep(Duration::from_nanos(pause.0).min(LOOK));
            continue;
        }
        let Some(range) = (if interrupted { None } else { blocks.next() }) else { break };
        if range.start == 0 && bytes > 0 {
            step.again()?;
        }
        let since = clock.now();
        blocks.begins(range.end - range.start, since);
        half = step.block(range.clone(), planned, tools)?;
        let now = clock.now();
        count(&mut block, now.since(since));
        if let Half::Both(between) = half {
            count(&mut read, between.since(since));
            count(&mut write, now.since(between));
        }
        bytes += range.end - range.start;
        blocks.done(range, now);
    }
    step.flush(tools)?;
    let end = clock.now();
    let EndedBlocks { first_done, pace, .. } = blocks.end();
    match half {
        Half::Read => read = block.clone(),
        Half::Write => write = block.clone(),
        Half::Both(_) => {}
    }
    let stage = None;
    Ok(CarriedRun { bytes, start, first_done, end, read, write, block, stage, interrupted, pace })
}
