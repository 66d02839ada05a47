//! A flow with its file, its GPU and its way open.

use std::fs::File;
use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};
use peerlane_memory::cufile::{CounterMark, CuFileError, CuFileSession, Mode};
use peerlane_memory::host;
use peerlane_results::{MemoryKind, Path as Way, Route, RouteEvidence};
use peerlane_units::{Bytes, Nanos};

use super::super::planned::PlannedFlow;
use super::super::ready::CacheMode;
use super::super::serial::forget;
use super::super::stream::{self, RegionLocation};
use super::super::{FlowTools, MeasureError, Result};
use super::classical::{Hands, is_classical};
use super::{GpuEnd, saw};
use crate::endpoints::open::Opened;
use crate::io::cufile;
use crate::io::desk::Desk;
use crate::io::failure::{RequestError, Role};
use crate::io::ring::{
    Action, Around as _, AttachError, FileId, GpuRing, RegionId, Ring, Staged, Uring, open_cufile,
};
use crate::io::stage::StageName;
use crate::io::trace::Traced;
use crate::plan::SLOT_ALIGNMENT;
use crate::transfer::copy::check::flush_file;
use crate::transfer::stages::{SlotGpu, SlotMemory};

/// Host memory that content is compared in.
const CHECK_ROOM: Bytes = Bytes::mib(16);

/// A flow between a drive and a GPU that can move.
pub(super) struct ReadyGpuFlow {
    pub(super) ring: Traced<Staged<GpuRing>>,
    session: Option<Arc<CuFileSession>>,
    pub(super) memory: Arc<DeviceMemory>,
    /// The same as the ring knows it.
    pub(super) region: RegionId,
    pub(super) file: FileId,
    /// Host memory that the file is read into for the check.
    pub(super) host: RegionId,
    pub(super) desk: Desk,
    /// Role of the drive.
    pub(super) role: Role,
    /// Block size of the file.
    pub(super) block: u64,
    pub(super) place: RegionLocation,
    /// The thread that moves bytes in place of the ring.
    pub(super) hands: Option<Hands>,
    pub(super) stride: u64,
    /// True if payload goes by peer-to-peer requests.
    pub(super) is_direct: bool,
    pub(super) evidence: Vec<RouteEvidence>,
}

/// The ring with the stage of the flow, if there is one, and its name.
fn staged(
    planned: &PlannedFlow,
    end: &GpuEnd,
    gpu: &Arc<Gpu>,
    memory: &Arc<DeviceMemory>,
    ring: GpuRing,
) -> Result<(Staged<GpuRing>, Option<String>)> {
    let mut staged = Staged::new(ring);
    if planned.stage.is_none() {
        return Ok((staged, None));
    }
    let driver = end.cuda.version().map_err(|source| planned.no_gpu(source))?;
    let slots = SlotGpu { gpu, memory, driver };
    let memory = SlotMemory { region: None, gpu: Some(slots), facts: &planned.memory };
    planned.stage_row()?.open(memory)?.into_iter().for_each(|stage| staged.add(stage));
    Ok((staged, planned.stage.as_ref().map(StageName::to_string)))
}

/// Parts that every way needs.
struct CommonParts<'a> {
    planned: &'a PlannedFlow,
    gpu: Arc<Gpu>,
    file: Opened,
    role: Role,
    stride: u64,
}

/// A way that is open.
struct OpenRoute {
    ring: GpuRing,
    session: Option<Arc<CuFileSession>>,
    memory: Arc<DeviceMemory>,
    region: RegionId,
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
        let gpu = end.cuda.open(&end.facts).map_err(|source| planned.no_gpu(source))?;
        let desk = Desk::new(&gpu, CHECK_ROOM).map_err(|source| planned.no_gpu(source))?;
        let takes_direct = opened.is_direct;
        let parts = CommonParts { planned, gpu: Arc::clone(&gpu), file: opened, role, stride };
        let mut evidence = Vec::new();
        let open = match planned.flow.path {
            Way::P2p => parts.direct(&mut evidence)?,
            Way::HostCufile => parts.cufile(Mode::Compatible)?,
            path if is_classical(path, role) => parts.classical()?,
            _ => parts.bounce()?,
        };
        evidence.push(parts.named(&open));
        let (staged, names) = staged(planned, end, &gpu, &open.memory, open.ring)?;
        let mut ring = Traced::new(staged, planned.trace_log(tools));
        ring.name_stages(names.into_iter());
        let facts = planned.source().or(planned.target());
        ring.name_file(open.file, facts.map_or("", |facts| &facts.path));
        ring.name_region(open.region, &planned.memory.name, MemoryKind::Gpu);
        ring.slots(open.region, stride, planned.slots);
        let host = ring.attach_region(host::allocate(CHECK_ROOM)?);
        let block = facts.filter(|_| takes_direct).map_or(1, |facts| facts.block.0);
        let OpenRoute { session, memory, region, file, place, hands, .. } = open;
        Ok(Self {
            ring,
            session,
            memory,
            region,
            file,
            host,
            desk,
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

    /// cuFile's counters now.
    pub(super) fn mark(&self) -> Option<CounterMark> {
        self.session.as_ref().map(|session| session.mark())
    }

    /// Judges by which way cuFile says that its requests went.
    ///
    /// # Errors
    /// When it was direct that was asked for, and some went through host memory, or nothing shows the way.
    pub(super) fn judge(
        &mut self,
        planned: &PlannedFlow,
        before: Option<CounterMark>,
    ) -> Result<()> {
        let (Some(session), Some(before)) = (&self.session, before) else { return Ok(()) };
        let counted = session.since(&before);
        if self.is_direct {
            let memory = || planned.memory.name.clone();
            let counts = counted
                .map_err(|source| MeasureError::CuFileNotCounted { memory: memory(), source })?;
            counts
                .all_direct()
                .map_err(|source| MeasureError::CuFileFellBack { memory: memory(), source })?;
        }
        self.evidence.extend(cufile::flags(session));
        self.evidence.push(cufile::counters(&counted, planned.gpu_route()));
        Ok(())
    }

    /// A failure with what GPU or cuFile said of it.
    pub(super) fn explained(
        &mut self,
        error: MeasureError,
        planned: &PlannedFlow,
        deadline: Nanos,
    ) -> MeasureError {
        let ring = self.ring.inner().inner();
        let said = ring.failure().map(str::to_owned);
        match (error, said) {
            (MeasureError::Request(RequestError::Stuck(_)), None) if ring.copies() > 0 => {
                MeasureError::CopyEngine { gpu: planned.memory.name.clone(), deadline }
            }
            (MeasureError::Request(source), Some(said)) => MeasureError::Said { said, source },
            (error, _) => error,
        }
    }

    /// Makes what was written durable: cuFile leaves that to its users.
    pub(super) fn flush(&mut self, tools: &FlowTools<'_>) -> Result<()> {
        let named = (self.file, self.host);
        Ok(flush_file(&mut self.ring, named, tools.deadline, tools.clock)?)
    }
}

impl CommonParts<'_> {
    /// cuFile by P2PDMA, else by nvidia-fs, with its fallback switched off; what refused is in the evidence.
    fn direct(&self, evidence: &mut Vec<RouteEvidence>) -> Result<OpenRoute> {
        let mut reasons = Vec::new();
        for mode in [Mode::P2pdma, Mode::NvidiaFs] {
            match self.counted(mode) {
                Ok(open) => {
                    evidence.extend(reasons.into_iter().map(|one| saw("cuFile", one)));
                    return Ok(open);
                }
                Err(MeasureError::CuFile { source, .. }) => {
                    reasons.push(format!("{mode}: {source}"));
                }
                Err(other) => return Err(other),
            }
        }
        Err(MeasureError::NotPossible { reason: reasons.join("; ") })
    }

    /// A mode whose counters are going to show the way.
    fn counted(&self, mode: Mode) -> Result<OpenRoute> {
        let open = self.cufile(mode)?;
        let shown = open.session.as_ref().map_or(Ok(()), |session| session.mark().check());
        shown.map_err(|none| self.refused(none.into()))?;
        Ok(open)
    }

    fn refused(&self, source: CuFileError) -> MeasureError {
        MeasureError::CuFile { gpu: self.planned.memory.name.clone(), source }
    }

    fn cufile(&self, mode: Mode) -> Result<OpenRoute> {
        let refused = |source| self.refused(source);
        let session = open_cufile(mode).map_err(refused)?;
        let ring = Uring::new(self.entries())?;
        let mut ring = GpuRing::cufile(ring, &session, self.planned.slots)
            .map_err(|source| self.file_error("begin threads for", source))?;
        let file = match ring.attach(self.copy_of_file()?) {
            Ok(file) => file,
            Err(AttachError::CuFile(source)) => return Err(refused(source)),
            Err(AttachError::System(source)) => return Err(self.file_error("attach", source)),
        };
        // The window of a GPU may be smaller than its memory.
        let mut last = None;
        for (place, length) in self.places()? {
            let memory = self.gpu.allocate(length).map_err(|source| self.planned.no_gpu(source))?;
            match ring.attach_memory(Arc::clone(&memory)) {
                Ok(region) => {
                    let (session, hands) = (Some(session), None);
                    return Ok(OpenRoute { ring, session, memory, region, file, place, hands });
                }
                Err(source) => last = Some(source),
            }
        }
        Err(last.map_or(MeasureError::WithOthers, refused))
    }

    fn bounce(&self) -> Result<OpenRoute> {
        self.by_ring(self.planned.slots, Bytes(self.planned.request))
    }

    /// Opens the way that pins nothing; the ring is for the check alone.
    fn classical(&self) -> Result<OpenRoute> {
        let open = self.by_ring(1, Bytes::kib(4))?;
        let hands = Hands::new(self.planned, self.copy_of_file()?, self.role, &open.memory)?;
        Ok(OpenRoute { hands: Some(hands), ..open })
    }

    /// A ring with so many slots of pinned memory.
    fn by_ring(&self, slots: u32, length: Bytes) -> Result<OpenRoute> {
        let no_gpu = |source| self.planned.no_gpu(source);
        let ring = Uring::new(self.entries())?;
        let mut ring = GpuRing::bounce(ring, &self.gpu, slots, length).map_err(no_gpu)?;
        let file = ring
            .attach_file(self.copy_of_file()?)
            .map_err(|source| self.file_error("attach", source))?;
        let (place, length) = self.places()?[0];
        let memory = self.gpu.allocate(length).map_err(no_gpu)?;
        let region = ring.attach_memory(Arc::clone(&memory)).map_err(|source| {
            let gpu = self.planned.memory.name.clone();
            MeasureError::CuFile { gpu, source }
        })?;
        Ok(OpenRoute { ring, session: None, memory, region, file, place, hands: None })
    }

    /// Returns the places that payload may take in the memory, with their sizes. Where there is
    /// room, every byte read has a place of its own, so that all of it can be compared.
    fn places(&self) -> Result<Vec<(RegionLocation, Bytes)>> {
        let slots = self.stride.saturating_mul(u64::from(self.planned.slots));
        let by_slot = (RegionLocation::Slot(self.stride), Bytes(slots));
        let free = self.gpu.free().map_err(|source| self.planned.no_gpu(source))?;
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
        self.file.file.try_clone().map_err(|source| self.file_error("open", source))
    }

    fn file_error(&self, action: &'static str, source: std::io::Error) -> MeasureError {
        MeasureError::file(action, self.planned.path())(source)
    }

    /// The way in words.
    fn named(&self, open: &OpenRoute) -> RouteEvidence {
        let way = match &open.session {
            Some(session) => session.mode().to_string(),
            None if open.hands.is_some() => match self.role {
                Role::Source => "out of a map of the file, copied by the driver from pageable memory".to_owned(),
                Role::Target => "through a buffer of pageable memory, allocated for each block, and the page cache".to_owned(),
            },
            None => format!(
                "through {} slots of pinned host memory, {} each, copied by the GPU's copy engine",
                self.planned.slots,
                Bytes(self.stride)
            ),
        };
        let facts = self.gpu.facts();
        saw(
            format!(
                "the path to {} ({}, {})",
                self.planned.memory.name, facts.model, facts.address
            ),
            way,
        )
    }
}
