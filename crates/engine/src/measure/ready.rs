//! A flow with everything open: files, memory, ring; a peer-to-peer route is proved.

use peerlane_memory::{Region, RegionKind};
use peerlane_results::{MemoryKind, RouteEvidence, RouteVerdict, Tail, Verification};
use peerlane_units::{Bytes, Nanos};

use super::carry::CheckResult;
use super::planned::{FlowEnd, PlannedFlow};
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::lane::{LaneError, Session, SlotShape, take_slots};
use crate::endpoints::open::{Attached, Opened, open_source};
use crate::endpoints::{Live, machine};
use crate::io::ring::{AnyRing, RegionId, Ring, Staged};
use crate::io::trace::{NoteLog, Traced};
use crate::plan::SLOT_ALIGNMENT;
use crate::transfer::copy::check::{self, NotProved};
use crate::transfer::copy::open_in_place;
use crate::transfer::prove::prove_route;
use crate::transfer::relay::Transfer;
use crate::transfer::stages::SlotMemory;

/// Host memory for proof and check: as much as [`crate::transfer::verify`] reads at full speed, twice.
const CHECK_ROOM: Bytes = Bytes::mib(16);

/// Use of the page cache on the way to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheMode {
    /// Round the page cache.
    Around,
    /// Through it.
    Through,
}

/// A flow that can move.
pub(super) struct ReadyFlow {
    pub(super) ring: Traced<Staged<AnyRing>>,
    pub(super) source: Option<Attached>,
    pub(super) target: Option<Attached>,
    /// The region that payload rests in.
    pub(super) region: RegionId,
    pub(super) kind: MemoryKind,
    /// Kind of region that was taken, whatever the plan says.
    taken: RegionKind,
    /// Host memory for proof and check.
    pub(super) host: RegionId,
    pub(super) shape: SlotShape,
    /// Block sizes of source and target, of the one end for both if there is only one.
    pub(super) blocks: [u64; 2],
    pub(super) evidence: Vec<RouteEvidence>,
}

fn live(end: &FlowEnd) -> Option<&Live> {
    end.storage().and_then(|end| end.live.as_ref())
}

fn block(end: &FlowEnd, opened: Option<&Opened>) -> Option<u64> {
    let facts = &end.storage()?.facts;
    Some(if opened?.is_direct { facts.block.0 } else { 1 })
}

impl PlannedFlow {
    /// Opens both ends as they are.
    pub(super) fn open_ends(
        &self,
        cache: CacheMode,
        tools: &FlowTools<'_>,
    ) -> Result<[Option<Opened>; 2]> {
        let [source, target] = [&self.source, &self.target].map(|end| {
            let live = live(end)?;
            Some(Live { is_direct: live.is_direct && cache == CacheMode::Around, ..live.clone() })
        });
        let source = source.as_ref().map(|live| {
            open_source(live, tools.deadline).map_err(MeasureError::file("open", &live.path))
        });
        let end = self.flow.target_offset.0.saturating_add(self.flow.bytes.0);
        let target = target.as_ref().map(|live| {
            open_in_place(live, end, tools.hold.claim(live), tools.deadline)
                .map_err(|error| MeasureError::Open(Box::new(error)))
        });
        Ok([source.transpose()?, target.transpose()?])
    }

    /// Opens the ends, takes the memory and attaches all to a ring.
    pub(super) fn open(&self, tools: &FlowTools<'_>) -> Result<ReadyFlow> {
        let [source, target] = self.open_ends(CacheMode::Around, tools)?;
        let opened = [source.as_ref(), target.as_ref()];
        for (end, opened) in [&self.source, &self.target].into_iter().zip(opened) {
            let is_direct = opened.is_none_or(|opened| opened.is_direct);
            if !is_direct && self.memory.kind != MemoryKind::Host {
                let path = end.storage().map(|end| end.facts.path.clone()).unwrap_or_default();
                let reason = format!("{path} takes no direct I/O");
                return Err(MeasureError::NotPossible { reason });
            }
        }
        let (region, shape) = self.allocate()?;
        let row = self.stage_row()?;
        let memory = SlotMemory { region: Some(&region), gpu: None, facts: &self.memory };
        let stages = row.open(memory)?;
        let taken = region.kind();
        let entries = shape.slots.saturating_mul(2).clamp(16, 4096);
        let mut session =
            Session::new(entries, opened.into_iter().flatten(), self.trace_log(tools))?;
        let mut attach = |end: &FlowEnd, opened: Option<&Opened>| {
            let Some((live, opened)) = live(end).zip(opened) else { return Ok(None) };
            let device = live.device.as_ref().map(|device| device.name.clone());
            let drive = device.unwrap_or_else(|| live.path.display().to_string());
            let attached = session.attach(opened, &drive).map(Some);
            attached.map_err(MeasureError::file("attach", &live.path))
        };
        let attached = [attach(&self.source, opened[0])?, attach(&self.target, opened[1])?];
        let host = session.host(CHECK_ROOM)?;
        session.add_stages(row.notations(), stages);
        let region = session.ring.attach_region(region);
        session.name_slots(region, &self.memory, shape);
        let own = [block(&self.source, opened[0]), block(&self.target, opened[1])];
        let either = own.into_iter().flatten().max().unwrap_or(1);
        Ok(ReadyFlow {
            ring: session.ring,
            source: attached[0],
            target: attached[1],
            region,
            kind: self.memory.kind,
            taken,
            host,
            shape,
            blocks: own.map(|block| block.unwrap_or(either)),
            evidence: Vec::new(),
        })
    }

    /// The log of its ring, if a trace was asked for.
    pub(super) fn trace_log(&self, tools: &FlowTools<'_>) -> Option<NoteLog> {
        let name = || format!("{} to {}", self.flow.source, self.flow.target);
        tools.trace.map(|tracer| tracer.log(name()))
    }

    /// Takes as many slots as there is a free run for.
    fn allocate(&self) -> Result<(Region, SlotShape), LaneError> {
        let request = Bytes(self.request);
        let stride = request.round_up(SLOT_ALIGNMENT).unwrap_or(request).0;
        let shape = SlotShape { slots: self.slots, stride };
        take_slots(machine::host(), &self.memory, self.card_image(), shape)
    }

    pub(super) fn is_device(&self) -> bool {
        self.memory.kind != MemoryKind::Host
    }
}

impl ReadyFlow {
    /// Returns the transfer for a relay from source to target; `None` if there is one drive
    /// only.
    pub(super) fn transfer(&self, planned: &PlannedFlow, deadline: Nanos) -> Option<Transfer> {
        let (source, target) = (self.source?, self.target?);
        let flow = &planned.flow;
        Some(Transfer {
            source: source.payload,
            target: target.payload,
            region: self.region,
            memory: self.kind,
            source_offset: flow.offset.0,
            target_offset: flow.target_offset.0,
            length: flow.bytes.0,
            request: planned.request,
            slots: self.shape.slots,
            slot_stride: self.shape.stride,
            source_block: self.blocks[0],
            target_block: self.blocks[1],
            tail: Tail::None,
            stages: u32::from(planned.stage.is_some()),
            deadline,
        })
    }

    /// Proves a peer-to-peer route from drive to drive; host memory needs no proof.
    pub(super) fn prove(&mut self, transfer: &Transfer, tools: &FlowTools<'_>) -> Result<()> {
        let rejected = |reason| MeasureError::NotPossible { reason };
        let setup = match check::setup(transfer, self.host, tools.seed) {
            Ok(Some(setup)) => setup,
            Ok(None) => return Ok(()),
            Err(NotProved::Rejected { reason, .. }) => return Err(rejected(reason)),
            Err(NotProved::Ended(source)) => return Err(MeasureError::Proof(source)),
        };
        let proof = prove_route(&mut self.ring, &setup, tools.clock).map_err(Box::new)?;
        let arrived = proof.evidence.into_iter();
        self.evidence.extend(arrived.map(|one| one.says(RouteVerdict::Consistent)));
        Ok(())
    }

    /// Counts requested bytes by memory from here on.
    pub(super) fn begin_count(&mut self) {
        let is_device = self.taken.is_device();
        self.ring.begin_count(is_device.then_some(self.region));
    }

    /// Clears memory of a device, and returns the evidence and warnings of the flow.
    pub(super) fn end(
        &mut self,
        planned: &PlannedFlow,
        verification: Option<Verification>,
        tools: &FlowTools<'_>,
    ) -> Result<CheckResult> {
        let warnings = self.scrub(planned, tools)?.into_iter().collect();
        let evidence = std::mem::take(&mut self.evidence);
        Ok(CheckResult { verification, evidence, warnings })
    }

    /// Makes the writes durable.
    pub(super) fn flush(&mut self, tools: &FlowTools<'_>) -> Result<()> {
        let Some(target) = self.target else { return Ok(()) };
        let (file, region) = (target.payload, self.region);
        Ok(check::flush_file(&mut self.ring, file, region, tools.deadline, tools.clock)?)
    }
}
