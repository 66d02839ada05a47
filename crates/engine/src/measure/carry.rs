//! Carries a flow out: open, moved together with the others, flushed, checked, cleared.

use hdrhistogram::Histogram;
use peerlane_results::{BytesByRoute, Path as Way, Route, RouteEvidence, Verification, Warning};
use peerlane_units::{Bytes, Nanos};

use super::blocks::{BlockAccount, BlockLayout, Blocks};
use super::planned::PlannedFlow;
use super::requests::{OneWayFlow, RelayedFlow};
use super::{
    FlowMoved, FlowOutcome, FlowTools, Made, MeasureError, Result, cached, gpu, mapped, processor,
    serial,
};
use crate::plan::rules_evidence;
use crate::transfer::relay::{Pace, StageTally};

/// One way to carry a flow out, with everything open that it needs.
pub(super) trait Carrier {
    /// Begins to count which memory requests name.
    fn begin_count(&mut self) {}

    /// Moves the payload and makes it durable.
    ///
    /// # Errors
    /// When a block was not moved.
    fn run(&mut self, planned: &PlannedFlow, tools: &mut FlowTools<'_>) -> Result<CarriedRun>;

    /// Payload by the memory that requests named.
    fn requested(&self, bytes: Bytes) -> BytesByRoute;

    /// Checks the content, then clears memory of a device.
    ///
    /// # Errors
    /// When the content differs, or cannot be compared.
    fn check(
        &mut self,
        planned: &PlannedFlow,
        run: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult>;
}

/// Payload and times of a run, before the content was checked.
pub(super) struct CarriedRun {
    pub(super) bytes: u64,
    pub(super) start: Nanos,
    pub(super) first_done: Option<Nanos>,
    pub(super) end: Nanos,
    pub(super) read: Histogram<u64>,
    pub(super) write: Histogram<u64>,
    pub(super) block: Histogram<u64>,
    /// Account of the stage; `None` without one.
    pub(super) stage: Option<StageTally>,
    pub(super) interrupted: bool,
    pub(super) pace: Vec<(Nanos, Bytes)>,
}

/// Findings of a check.
#[derive(Default)]
pub(super) struct CheckResult {
    pub(super) verification: Option<Verification>,
    pub(super) evidence: Vec<RouteEvidence>,
    pub(super) warnings: Vec<Warning>,
}

impl PlannedFlow {
    /// Carries the flow out once.
    ///
    /// # Errors
    /// [`MeasureError`]; if it failed before it moved, others of the case must be told through
    /// their gate by the caller.
    pub fn carry(&self, tools: &mut FlowTools<'_>) -> Result<FlowOutcome> {
        let mut carrier = self.carrier(tools)?;
        if !tools.gate.begin() {
            return Err(MeasureError::WithOthers);
        }
        carrier.begin_count();
        let run = carrier.run(self, tools);
        let bytes = Bytes(run.as_ref().map_or(0, |run| run.bytes));
        tools.gate.end(FlowMoved { bytes, requested: carrier.requested(bytes) });
        let run = run?;
        let checked = carrier.check(self, &run, tools)?;
        Ok(self.outcome(run, checked))
    }

    /// Opens the way to a GPU once and closes it, which shows whether cuFile takes the file and the memory. A target
    /// that is not there is made and removed again; other flows open nothing.
    ///
    /// # Errors
    /// As [`PlannedFlow::carry`], before anything has moved.
    pub fn try_gpu(&self, tools: &FlowTools<'_>) -> Result<()> {
        let Some(end) = &self.gpu else { return Ok(()) };
        let _made = Made::targets([self])?;
        gpu::try_open(self, end, tools)
    }

    /// Opens the carrier of the flow.
    fn carrier(&self, tools: &mut FlowTools<'_>) -> Result<Box<dyn Carrier>> {
        if let Some(end) = &self.gpu {
            return Ok(Box::new(gpu::GpuFlow::open(self, end, tools)?));
        }
        let drives = [&self.source, &self.target].map(|end| end.storage().is_some());
        Ok(match (self.flow.path, drives) {
            (Way::HostSerial | Way::HostPageCache, [true, true]) => {
                Box::new(serial::BufferCopy::open(self, tools)?)
            }
            (Way::HostMapped, [true, true]) => Box::new(mapped::open(self, tools)?),
            (_, [true, true]) => Box::new(RelayedFlow::open(self, tools)?),
            (Way::HostMapped, [false, false]) => Box::new(cached::MapReader::in_memory(self)?),
            (_, [false, false]) => Box::new(processor::CoreCopy::new(self, tools)?),
            (Way::HostMapped, _) => Box::new(cached::MapReader::open(self, tools)?),
            (Way::HostPageCache, _) => Box::new(cached::CacheReader::open(self, tools)?),
            _ => Box::new(OneWayFlow::open(self, tools)?),
        })
    }

    pub(super) fn blocks<'a>(
        &self,
        start: Nanos,
        account: BlockAccount,
        tools: &FlowTools<'a>,
    ) -> Blocks<'a> {
        let flow = &self.flow;
        let cut = BlockLayout {
            length: flow.bytes.0,
            block: flow.block.0,
            request: self.request,
            order: flow.order,
            seed: tools.seed,
        };
        let until = tools.time.map(|time| start.after(time));
        Blocks::new(tools.clock, &cut, account, until, flow.limit.map(Pace::new))
    }

    fn outcome(&self, run: CarriedRun, checked: CheckResult) -> FlowOutcome {
        let bytes = Bytes(run.bytes);
        let bytes_by_route = match self.route() {
            Route::P2p => BytesByRoute { p2p: bytes, host: Bytes::ZERO },
            Route::Host => BytesByRoute { p2p: Bytes::ZERO, host: bytes },
        };
        let rules = rules_evidence(&self.memory.name, &self.facts);
        FlowOutcome {
            bytes,
            start: run.start,
            first_done: run.first_done.unwrap_or(run.end),
            end: run.end,
            memory: self.memory.name.clone(),
            bytes_by_route,
            read: run.read,
            write: run.write,
            block: run.block,
            stage: run.stage.and_then(|tally| self.stage_record(&tally)),
            pace: run.pace,
            verification: checked.verification,
            evidence: rules.into_iter().chain(checked.evidence).collect(),
            warnings: self.not_comparable().into_iter().chain(checked.warnings).collect(),
            interrupted: run.interrupted,
        }
    }
}
