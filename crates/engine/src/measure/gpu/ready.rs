//! A flow with its file, its GPU and its way open.

use std::fs::File;
use std::path::PathBuf;

use peerlane_memory::cufile::Mode;
use peerlane_results::{MemoryKind, Path as Way, Route, RouteEvidence, RouteVerdict};
use peerlane_units::{Bytes, Nanos};

use super::super::planned::PlannedFlow;
use super::super::ready::CacheMode;
use super::super::serial::forget;
use super::super::stream::{self, RegionLocation};
use super::super::{FlowTools, MeasureError, Result};
use super::classical::{Hands, is_classical};
use super::{GpuEnd, saw};
use crate::endpoints::lane::{
    GpuLane, GpuSide, GpuSlots, GpuWay, LaneError, LaneRequests, OpenGpu, RouteFault, Session,
    SlotShape, fit,
};
use crate::endpoints::machine;
use crate::endpoints::open::Opened;
use crate::io::desk::Desk;
use crate::io::failure::{RequestError, Role};
use crate::io::ring::{Action, AnyRing, Around as _, FileId, RegionId, Staged, Uring};
use crate::io::trace::Traced;
use crate::plan::SLOT_ALIGNMENT;
use crate::transfer::copy::check::flush_file;
use crate::transfer::stages::SlotMemory;

/// Host memory that content is compared in.
const CHECK_ROOM: Bytes = Bytes::mib(16);

/// A flow between a drive and a GPU that can move.
pub(super) struct ReadyGpuFlow {
    pub(super) ring: Traced<Staged<AnyRing>>,
    pub(super) side: GpuSide,
    /// The memory of the GPU as the ring knows it.
    pub(super) region: RegionId,
    pub(super) file: FileId,
    /// Host memory that the file is read into for the check.
    pub(super) host: RegionId,
    /// Role of the drive.
    pub(super) role: Role,
    /// Block size of the file.
    pub(super) block: u64,
    pub(super) place: RegionLocation,
    /// The thread that moves bytes instead of the ring.
    pub(super) hands: Option<Hands>,
    pub(super) stride: u64,
    /// True if payload goes by peer-to-peer requests.
    pub(super) is_direct: bool,
    pub(super) evidence: Vec<RouteEvidence>,
}

/// Parts that every way needs.
struct CommonParts<'a> {
    planned: &'a PlannedFlow,
    gpu: OpenGpu,
    file: Opened,
    path: PathBuf,
    role: Role,
    stride: u64,
}

/// A way that is open.
struct OpenRoute<'a> {
    lane: GpuLane<'a>,
    slots: GpuSlots,
    file: FileId,
    place: RegionLocation,
    hands: Option<Hands>,
}

impl ReadyGpuFlow {
    pub(super) fn open(planned: &PlannedFlow, end: &GpuEnd, tools: &FlowTools<'_>) -> Result<Self> {
        let is_cached = matches!(planned.flow.path, Way::HostPageCache | Way::HostMapped);
        let cache = if is_cached { CacheMode::Through } else { CacheMode::Around };
        let [source, target] = planned.open_ends(cache, tools)?;
        let role = if source.is_some() { Role::Source } else { Role::Target };
        let Some(opened) = source.or(target) else { return Err(MeasureError::WithOthers) };
        if is_cached && role == Role::Source {
            forget(&opened.file, planned.flow.offset.0, planned.flow.bytes);
        }
        let request = Bytes(planned.request);
        let stride = request.round_up(SLOT_ALIGNMENT).unwrap_or(request).0;
        let gpu = OpenGpu::new(&end.cuda, &end.facts, &planned.memory.name)?;
        let desk = Desk::new(&gpu.gpu, CHECK_ROOM).map_err(|source| planned.no_gpu(source))?;
        let takes_direct = opened.is_direct;
        let path = planned.path();
        let parts = CommonParts { planned, gpu, file: opened, path, role, stride };
        let mut evidence = Vec::new();
        let open = match planned.flow.path {
            Way::P2p => parts.direct(&mut evidence)?,
            Way::HostCufile => parts.ring_by(GpuWay::CuFile(Mode::Compatible))?,
            path if is_classical(path, role) => parts.classical()?,
            _ => parts.ring_by(GpuWay::Pinned)?,
        };
        evidence.push(parts.named(&open));
        let OpenRoute { lane, slots: GpuSlots { memory, region }, file, place, hands } = open;
        let (ring, side) = lane.into_parts(memory, desk);
        let row = planned.stage_row()?;
        let memory = SlotMemory { region: None, gpu: Some(&side), facts: &planned.memory };
        let stages = row.open(memory)?;
        let mut open = Session::with(machine::host(), ring, planned.trace_log(tools));
        open.add_stages(row.notations(), stages);
        let facts = planned.source().or(planned.target());
        open.ring.name_file(file, facts.map_or("", |facts| &facts.path));
        open.name_slots(region, &planned.memory, SlotShape { slots: planned.slots, stride });
        let host = open.host(CHECK_ROOM)?;
        let block = facts.filter(|_| takes_direct).map_or(1, |facts| facts.block.0);
        Ok(Self {
            ring: open.ring,
            side,
            region,
            file,
            host,
            role,
            block,
            place,
            hands,
            stride,
            is_direct: planned.gpu_route() == Route::P2p,
            evidence,
        })
    }

    /// Payload by requests of the ring.
    pub(super) fn way(&self, planned: &PlannedFlow, tools: &FlowTools<'_>) -> stream::StreamSetup {
        let (action, offset) = match self.role {
            Role::Source => (Action::Read, planned.flow.offset),
            Role::Target => (Action::Write, planned.flow.target_offset),
        };
        stream::StreamSetup {
            action,
            file: self.file,
            offset: offset.0,
            file_block: self.block,
            region: self.region,
            // The meaning of an errno depends on who is between: the drive meets host memory on the other ways.
            memory: if self.is_direct { MemoryKind::Gpu } else { MemoryKind::Host },
            slots: planned.slots,
            place: self.place,
            has_stage: planned.stage.is_some(),
            deadline: tools.deadline,
        }
    }

    /// Judges the route by cuFile's own counts of its requests.
    ///
    /// # Errors
    /// When a direct route was asked for, and some went through host memory, or nothing shows the
    /// way.
    pub(super) fn judge(&mut self, planned: &PlannedFlow) -> Result<()> {
        if self.is_direct {
            let memory = planned.memory.name.clone();
            self.side.all_direct().map_err(|fault| match fault {
                RouteFault::NotKnown(source) => MeasureError::CuFileNotCounted { memory, source },
                RouteFault::FellBack(source) => MeasureError::CuFileFellBack { memory, source },
            })?;
        }
        self.evidence.extend(self.side.evidence(planned.gpu_route()));
        Ok(())
    }

    /// A failure with the words of GPU or cuFile about it.
    pub(super) fn explained(
        &mut self,
        error: MeasureError,
        planned: &PlannedFlow,
        deadline: Nanos,
    ) -> MeasureError {
        let ring = self.ring.inner().inner();
        let said = ring.said().map(str::to_owned);
        match (error, said) {
            (MeasureError::Request(RequestError::Stuck(_)), None) if ring.copies() > 0 => {
                MeasureError::CopyEngine { gpu: planned.memory.name.clone(), deadline }
            }
            (MeasureError::Request(source), Some(said)) => MeasureError::Said { said, source },
            (error, _) => error,
        }
    }

    /// Makes the writes durable: cuFile leaves that to its users.
    pub(super) fn flush(&mut self, tools: &FlowTools<'_>) -> Result<()> {
        Ok(flush_file(&mut self.ring, self.file, self.host, tools.deadline, tools.clock)?)
    }
}

impl CommonParts<'_> {
    /// cuFile by P2PDMA, else by nvidia-fs, with its fallback switched off; refusals are in the
    /// evidence.
    fn direct(&self, evidence: &mut Vec<RouteEvidence>) -> Result<OpenRoute<'_>> {
        let mut reasons = Vec::new();
        for mode in [Mode::P2pdma, Mode::NvidiaFs] {
            match self.counted(mode) {
                Ok(open) => {
                    evidence.extend(reasons.into_iter().map(|one| saw("cuFile", one)));
                    return Ok(open);
                }
                Err(MeasureError::Lane(LaneError::CuFile { source, .. })) => {
                    reasons.push(format!("{mode}: {source}"));
                }
                Err(other) => return Err(other),
            }
        }
        Err(MeasureError::NotPossible { reason: reasons.join("; ") })
    }

    /// A mode whose counters are going to show the way.
    fn counted(&self, mode: Mode) -> Result<OpenRoute<'_>> {
        let open = self.ring_by(GpuWay::CuFile(mode))?;
        let shown = open.lane.session.as_ref().map_or(Ok(()), |session| session.mark().check());
        let refused = LaneError::cufile(&self.planned.memory.name);
        shown.map_err(|none| refused(none.into()))?;
        Ok(open)
    }

    /// The way by requests of the ring.
    fn ring_by(&self, way: GpuWay) -> Result<OpenRoute<'_>> {
        self.open(way, (self.planned.slots, Bytes(self.planned.request)))
    }

    /// Opens the way that pins nothing; the ring is for the check alone.
    fn classical(&self) -> Result<OpenRoute<'_>> {
        let open = self.open(GpuWay::Pinned, (1, Bytes::kib(4)))?;
        let memory = &open.slots.memory;
        let hands = Hands::new(self.planned, self.copy_of_file()?, self.role, memory)?;
        Ok(OpenRoute { hands: Some(hands), ..open })
    }

    fn open(&self, way: GpuWay, (count, length): (u32, Bytes)) -> Result<OpenRoute<'_>> {
        let requests = LaneRequests { path: &self.path, count, length };
        let session = self.gpu.session(way)?;
        let mut lane = self.gpu.lane(Uring::new(self.entries())?, session, requests)?;
        let file = lane.attach(self.copy_of_file()?, &self.path)?;
        let places = self.places()?;
        let (slots, left) = fit(
            places.as_slice(),
            |left| lane.take(left[0].1),
            |left, refusal| match (refusal, left) {
                (LaneError::CuFile { .. }, [_, left @ ..]) if !left.is_empty() => Some(left),
                _ => None,
            },
        )?;
        Ok(OpenRoute { lane, slots, file, place: left[0].0, hands: None })
    }

    /// Returns the places that payload may take in the memory, with their sizes. With enough room
    /// every byte read has a place of its own, so all of it can be compared.
    fn places(&self) -> Result<Vec<(RegionLocation, Bytes)>> {
        let slots = self.stride.saturating_mul(u64::from(self.planned.slots));
        let by_slot = (RegionLocation::Slot(self.stride), Bytes(slots));
        let free = self.gpu.gpu.free().map_err(|source| self.planned.no_gpu(source))?;
        let range = self.planned.flow.bytes;
        let has_room = range.0 <= free.0 - free.0 / 8;
        if self.role == Role::Source && has_room {
            return Ok(vec![(RegionLocation::Range(0), range), by_slot]);
        }
        Ok(vec![by_slot])
    }

    fn entries(&self) -> u32 {
        self.planned.slots.saturating_mul(2).clamp(64, 4096)
    }

    fn copy_of_file(&self) -> Result<File> {
        self.file.file.try_clone().map_err(MeasureError::file("open", &self.path))
    }

    /// The way in words.
    fn named(&self, open: &OpenRoute<'_>) -> RouteEvidence {
        let evidence = open.lane.evidence(|| match (open.hands.is_some(), self.role) {
            (true, Role::Source) => {
                "out of a map of the file, copied by the driver from pageable memory".to_owned()
            }
            (true, Role::Target) => {
                "through a buffer of pageable memory, allocated for each block, and the page cache"
                    .to_owned()
            }
            (false, _) => format!(
                "through {} slots of pinned host memory, {} each, copied by the GPU's copy engine",
                self.planned.slots,
                Bytes(self.stride)
            ),
        });
        evidence.says(RouteVerdict::Consistent)
    }
}
