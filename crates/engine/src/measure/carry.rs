//! Carries a flow out: ready, together with the others, moved, flushed, checked.

use hdrhistogram::Histogram;
use peerlane_results::{BytesByRoute, Path as Way, Route, RouteEvidence, Verification, Warning};
use peerlane_units::{Bytes, Nanos};

use super::blocks::{Account, Blocks, Cut, Ended};
use super::content::{Filled, Slots};
use super::planned::PlannedFlow;
use super::ready::Ready;
use super::stream::{Log, OneWay, Place, stream};
use super::{FlowOutcome, FlowTools, MeasureError, Moved, cached, mapped, processor, serial};
use crate::plan::rules_evidence;
use crate::ranges::RangeSet;
use crate::relay::{Pace, Transfer, latencies, relay_work};
use crate::ring::Action;

/// What moving showed, before the content was checked.
pub(super) struct Run {
    pub(super) bytes: u64,
    pub(super) start: Nanos,
    pub(super) first_done: Option<Nanos>,
    pub(super) end: Nanos,
    pub(super) read: Histogram<u64>,
    pub(super) write: Histogram<u64>,
    pub(super) block: Histogram<u64>,
    pub(super) interrupted: bool,
    pub(super) pace: Vec<(Nanos, Bytes)>,
}

impl Run {
    /// What the others of the case are told of it; nothing where it failed.
    pub(super) fn moved<T>(run: Option<&(Self, T)>, ready: &Ready) -> Moved {
        let bytes = Bytes(run.map_or(0, |(run, _)| run.bytes));
        Moved { bytes, requested: ready.ring.counted(bytes) }
    }
}

impl PlannedFlow {
    /// Carries the flow out once.
    ///
    /// # Errors
    /// [`MeasureError`]; where it failed before it moved, others of the case must be told through their
    /// gate by the caller.
    pub fn carry(&self, tools: &mut FlowTools<'_>) -> Result<FlowOutcome, MeasureError> {
        if let Some(gpu) = &self.gpu {
            return self.carry_gpu(gpu, tools);
        }
        let is_copy = self.source.storage().is_some() && self.target.storage().is_some();
        match self.flow.path {
            Way::HostSerial | Way::HostPageCache if is_copy => serial::carry(self, tools),
            Way::HostMapped if is_copy => mapped::carry(self, tools),
            _ if is_copy => self.carry_copy(tools),
            _ if self.is_processors() => processor::carry(self, tools),
            Way::HostPageCache | Way::HostMapped => cached::carry(self, tools),
            _ => self.carry_one_way(tools),
        }
    }

    fn carry_copy(&self, tools: &mut FlowTools<'_>) -> Result<FlowOutcome, MeasureError> {
        let mut ready = self.open(tools)?;
        let transfer = ready.transfer(self, tools.deadline).ok_or(MeasureError::WithOthers)?;
        ready.prove(&transfer, tools)?;
        self.wait(tools)?;
        ready.begin_count();
        let moved = self.relay(&mut ready, &transfer, tools);
        tools.gate.end(Run::moved(moved.as_ref().ok(), &ready));
        let (run, written) = moved?;
        let mut warnings = Vec::new();
        let verification = ready.compare(self, &written, tools)?;
        ready.scrub(self, tools, &mut warnings)?;
        Ok(self.outcome(run, Some(verification), ready.evidence, warnings))
    }

    fn relay(
        &self,
        ready: &mut Ready,
        transfer: &Transfer,
        tools: &mut FlowTools<'_>,
    ) -> Result<(Run, RangeSet), MeasureError> {
        let clock = tools.clock;
        let start = clock.now();
        let mut blocks = self.blocks(start, Account::OfBlocks, tools);
        let ring = &mut ready.ring;
        let moved = relay_work(ring, transfer, &mut blocks, None, clock, tools.watch)?;
        ready.flush(tools)?;
        let end = clock.now();
        let Ended { latency: block, first_done, pace } = blocks.end();
        let run = Run {
            bytes: moved.bytes,
            start,
            first_done,
            end,
            read: moved.read_latency,
            write: moved.write_latency,
            block,
            interrupted: moved.interrupted,
            pace,
        };
        Ok((run, moved.written))
    }

    fn carry_one_way(&self, tools: &mut FlowTools<'_>) -> Result<FlowOutcome, MeasureError> {
        let mut ready = self.open(tools)?;
        let filled = ready.fill_slots(self, tools)?;
        let mut slots = filled.as_ref().map(|_| Slots::new(self));
        self.wait(tools)?;
        ready.begin_count();
        let moved = self.stream(&mut ready, slots.as_mut(), tools);
        tools.gate.end(Run::moved(moved.as_ref().ok(), &ready));
        let (run, ()) = moved?;
        let mut warnings = Vec::new();
        let verification = match (filled, slots) {
            (Some(Filled { seed }), Some(slots)) => {
                Some(ready.read_back(self, &slots, seed, tools)?)
            }
            _ => None,
        };
        if self.is_device() && self.target.storage().is_none() {
            let memory = self.memory.name.clone();
            warnings.push(Warning::MemoryNotChecked { memory });
        }
        ready.scrub(self, tools, &mut warnings)?;
        Ok(self.outcome(run, verification, ready.evidence, warnings))
    }

    fn stream(
        &self,
        ready: &mut Ready,
        slots: Option<&mut Slots>,
        tools: &mut FlowTools<'_>,
    ) -> Result<(Run, ()), MeasureError> {
        let clock = tools.clock;
        let (action, file, offset, file_block) = match (ready.source, ready.target) {
            (Some(source), _) => (Action::Read, source, self.flow.offset, ready.blocks[0]),
            (_, Some(target)) => (Action::Write, target, self.flow.target_offset, ready.blocks[1]),
            _ => return Err(MeasureError::WithOthers),
        };
        let way = OneWay {
            action,
            file: file.payload,
            offset: offset.0,
            file_block,
            region: ready.region,
            memory: ready.kind,
            slots: ready.slots,
            place: Place::Slot(ready.stride),
            deadline: tools.deadline,
        };
        let start = clock.now();
        let account = self.account();
        let mut blocks = self.blocks(start, account, tools);
        let mut nobody = ();
        let log: &mut dyn Log = match slots {
            Some(slots) => slots,
            None => &mut nobody,
        };
        let moved = stream(&mut ready.ring, &way, &mut blocks, log, clock, tools.watch)?;
        ready.flush(tools)?;
        let end = clock.now();
        let Ended { latency: block, first_done, pace } = blocks.end();
        let block = if account == Account::OfRequests { moved.latency.clone() } else { block };
        let (read, write) = match action {
            Action::Read => (moved.latency, latencies()),
            _ => (latencies(), moved.latency),
        };
        let (bytes, interrupted) = (moved.bytes, moved.interrupted);
        Ok((Run { bytes, start, first_done, end, read, write, block, interrupted, pace }, ()))
    }

    /// A request that is a whole block needs no account of blocks, whose cost shows at small ones.
    pub(super) fn account(&self) -> Account {
        if self.flow.block.0 <= self.request { Account::OfRequests } else { Account::OfBlocks }
    }

    pub(super) fn blocks<'a>(
        &self,
        start: Nanos,
        account: Account,
        tools: &FlowTools<'a>,
    ) -> Blocks<'a> {
        let flow = &self.flow;
        let cut = Cut {
            length: flow.bytes.0,
            block: flow.block.0,
            request: self.request,
            order: flow.order,
            seed: tools.seed,
        };
        let until = tools.time.map(|time| start.after(time));
        Blocks::new(tools.clock, &cut, account, until, flow.limit.map(Pace::new))
    }

    pub(super) fn wait(&self, tools: &FlowTools<'_>) -> Result<(), MeasureError> {
        if tools.gate.begin() { Ok(()) } else { Err(MeasureError::WithOthers) }
    }

    pub(super) fn outcome(
        &self,
        run: Run,
        verification: Option<Verification>,
        evidence: Vec<RouteEvidence>,
        warnings: Vec<Warning>,
    ) -> FlowOutcome {
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
            pace: run.pace,
            verification,
            evidence: rules.into_iter().chain(evidence).collect(),
            warnings,
            interrupted: run.interrupted,
        }
    }
}
