//! One memory tried: allocated, and attached with the ends to a ring of its own.

use std::fs::File;
use std::ops::Range;

use peerlane_memory::Region;
use peerlane_results::{
    EndpointFacts, Evidence, MemoryFacts, Plan, Route, RouteChoice, RouteEvidence, RouteVerdict,
    Shape, Tail, VerifyMode,
};
use peerlane_units::Bytes;

use super::files::OpenTarget;
use super::gone::drive_of;
use super::pieces::Holes;
use super::{CopyError, Tools};
use crate::endpoints::lane::{GpuSide, LaneError, RouteFault, Session, SlotShape, take_slots};
use crate::endpoints::machine::Machine;
use crate::endpoints::open::{Attached, Opened};
use crate::io::extents::{Extent, Grid, data_ranges, first_data};
use crate::io::failure::{Role, error_in_words};
use crate::io::request::{EndOfFile, Request, RequestProgress, carry_out};
use crate::io::ring::{Action, AnyRing, Around as _, FileId, RegionId, Ring, Staged};
use crate::io::stage::Stage;
use crate::io::trace::{NoteLog, Traced};
use crate::plan::{SLOT_ALIGNMENT, fitted, way_of};
use crate::transfer::relay::Transfer;
use crate::transfer::stages::{SlotMemory, StageRow};

/// Host memory next to the route, for proof, tail and a sample; and for comparing everything at full
/// speed.
const CHECK_ROOM: Bytes = Bytes::mib(1);
/// Zeroes that one write takes if a target cannot make them itself.
const ZEROES: Bytes = Bytes::mib(1);
const CHECK_ROOM_FULL: Bytes = Bytes::mib(16);

/// An attempt to take a memory and attach it, on the plan's terms for the first target. The others
/// join its ring.
pub(super) struct Attempt<'a> {
    pub(super) machine: &'a dyn Machine,
    pub(super) plan: &'a Plan,
    pub(super) source: &'a Opened,
    pub(super) target: &'a OpenTarget<'a>,
    pub(super) route: Route,
    pub(super) shape: &'a Shape,
    pub(super) holes: Holes,
    pub(super) memory: &'a MemoryFacts,
    /// Targets that the ring is to have room for.
    pub(super) targets: u32,
    /// Set when any end is a passthrough node.
    pub(super) has_nodes: bool,
    pub(super) stages: &'a StageRow,
}

/// Memory that is taken and attached to a ring with the ends.
#[derive(Debug)]
pub(super) struct AttachedMemory {
    pub(super) ring: Traced<Staged<AnyRing>>,
    /// The GPU side of the copy, next to the ring. Present if the memory is a GPU's.
    pub(super) gpu: Option<GpuSide>,
    pub(super) transfer: Transfer,
    /// Source and target as they are compared: another way than that of payload if there is one.
    pub(super) compared: [FileId; 2],
    /// Host memory for checks.
    pub(super) host: RegionId,
    /// Host memory full of zeroes, if holes are to be made at the target.
    pub(super) zeroes: Option<RegionId>,
    pub(super) shape: Shape,
    pub(super) memory: MemoryFacts,
    /// Evidence that was found when the memory was taken.
    pub(super) evidence: Vec<RouteEvidence>,
}

/// Reason against one memory; the next one may serve.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

/// Failure to make a memory ready.
#[derive(Debug)]
pub(super) enum NotReady {
    /// Another may serve.
    Rejected(Rejection),
    /// None would.
    Ended(CopyError),
}

impl From<Rejection> for NotReady {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<CopyError> for NotReady {
    fn from(error: CopyError) -> Self {
        Self::Ended(error)
    }
}

impl From<LaneError> for NotReady {
    fn from(error: LaneError) -> Self {
        let hint = error.hint();
        let reason = match error {
            LaneError::Ring(error) => return Self::Ended(error.into()),
            LaneError::Host(error) => return Self::Ended(error.into()),
            LaneError::File { action, path, source } => {
                return Self::Ended(CopyError::File { action, path, source });
            }
            LaneError::Device(refusal) => error_in_words(&refusal),
            LaneError::Gpu { source, .. } => source.to_string(),
            LaneError::CuFile { source, .. } => source.to_string(),
        };
        Self::Rejected(Rejection { reason, hint })
    }
}

impl Attempt<'_> {
    /// Takes the memory and attaches it with both ends to a ring, without proof.
    pub(super) fn open(&self, tools: &mut Tools<'_>) -> Result<AttachedMemory, NotReady> {
        if let Some(way) = way_of(self.memory) {
            let mut ready = self.open_gpu(way, tools)?;
            self.look_at_gpu(&mut ready, tools)?;
            return Ok(ready);
        }
        let (region, shape) = self.allocate()?;
        let pool = self.pool();
        let stages = self.open_stages(Some(&region), None)?;
        let ready = self.attach(region, shape, stages, tools)?;
        Ok(AttachedMemory { evidence: pool.into_iter().collect(), ..ready })
    }

    /// Takes as many slots as there is a free run for.
    fn allocate(&self) -> Result<(Region, Shape), LaneError> {
        let slots = SlotShape { slots: self.shape.slots, stride: stride(self.shape) };
        let image = self.stages.card_image();
        let (region, slots) = take_slots(self.machine, self.memory, image, slots)?;
        let is_reduced = slots.slots < self.shape.slots;
        let shape = is_reduced.then(|| fitted(self.shape, slots.memory()));
        Ok((region, shape.unwrap_or_else(|| self.shape.clone())))
    }

    /// Sets the stages up for the memory of the slots; a memory that one of them cannot work in
    /// does not serve.
    pub(super) fn open_stages(
        &self,
        region: Option<&Region>,
        gpu: Option<&GpuSide>,
    ) -> Result<Vec<Box<dyn Stage>>, Rejection> {
        let memory = SlotMemory { region, gpu, facts: self.memory };
        self.stages
            .open(memory)
            .map_err(|error| Rejection { reason: error_in_words(&error), hint: error.hint() })
    }

    /// Free bytes of the memory's p2pmem pool, as planned and while the copy holds its slots.
    fn pool(&self) -> Option<RouteEvidence> {
        let address = self.memory.address.as_ref()?;
        let file = format!("sys/bus/pci/devices/{address}/p2pmem/available");
        let system = self.machine.system();
        let held = system.line(&file)?;
        let before = self.memory.available?;
        let evidence = Evidence {
            showed: format!(
                "{} bytes free when planned, {} while the copy holds its slots",
                before.0, held
            ),
            looked_at: system.root().join(file).display().to_string(),
        };
        Some(evidence.says(RouteVerdict::Consistent))
    }

    fn attach(
        &self,
        region: Region,
        shape: Shape,
        stages: Vec<Box<dyn Stage>>,
        tools: &Tools<'_>,
    ) -> Result<AttachedMemory, LaneError> {
        let entries = entries(shape.slots, self.targets);
        let ends = [self.source, self.target.opened()];
        let mut session = Session::on(self.machine, entries, self.has_nodes, self.log(tools))?;
        let mut attach = |opened: &Opened, end: &EndpointFacts| {
            let attached = session.attach(opened, &drive_of(end));
            attached.map_err(LaneError::file("attach", &end.path))
        };
        let source = attach(ends[0], &self.plan.source)?;
        let target = attach(ends[1], &self.plan.target)?;
        let region = session.ring.attach_region(region);
        session.add_stages(self.stages.notations(), stages);
        self.ready(session, [source, target], region, shape, tools)
    }

    pub(super) fn log(&self, tools: &Tools<'_>) -> Option<NoteLog> {
        let name = || format!("{} to {}", self.plan.source.path, self.plan.target.path);
        tools.options.trace.as_ref().map(|tracer| tracer.log(name()))
    }

    /// Sets up host memory and the transfer, once both ends and the slots are attached.
    pub(super) fn ready(
        &self,
        mut session: Session<'_>,
        [source, target]: [Attached; 2],
        region: RegionId,
        shape: Shape,
        tools: &Tools<'_>,
    ) -> Result<AttachedMemory, LaneError> {
        // The last chunk of stages may be merged in host memory.
        let chunks = Bytes(4 * self.stages.chunk().unwrap_or(0));
        let chunks = chunks.round_up(SLOT_ALIGNMENT).unwrap_or(chunks);
        let host = session.host(check_room(self.plan, &shape).max(chunks))?;
        let zeroes = match self.holes {
            Holes::Zeroed => Some(session.host(ZEROES)?),
            Holes::Moved | Holes::Left => None,
        };
        let slots = SlotShape { slots: shape.slots, stride: stride(&shape) };
        session.name_slots(region, self.memory, slots);
        let asked = &self.plan.asked;
        let transfer = Transfer {
            source: source.payload,
            target: target.payload,
            region,
            memory: self.memory.kind,
            source_offset: asked.offset.0,
            target_offset: asked.target_offset.0,
            length: shape.length.0,
            request: shape.request.0,
            slots: shape.slots,
            slot_stride: slots.stride,
            source_block: block(self.source.is_direct, &self.plan.source),
            target_block: block(self.target.is_direct(), &self.plan.target),
            tail: tail(shape.tail, self.target),
            stages: self.stages.count(),
            deadline: tools.deadline,
        };
        let compared = [source.compared, target.compared];
        let memory = self.memory.clone();
        let evidence = Vec::new();
        Ok(AttachedMemory {
            ring: session.ring,
            gpu: None,
            transfer,
            compared,
            host,
            zeroes,
            shape,
            memory,
            evidence,
        })
    }
}

/// Memory of a GPU.
impl Attempt<'_> {
    /// Reads a block of data of either end into the GPU, and asks cuFile which way they came: nothing was written yet.
    /// Holes are left out: cuFile may read them through host memory, and no payload comes of them.
    fn look_at_gpu(
        &self,
        ready: &mut AttachedMemory,
        tools: &mut Tools<'_>,
    ) -> Result<(), Rejection> {
        if self.route != Route::P2p || ready.gpu.is_none() || ready.transfer.length == 0 {
            return Ok(());
        }
        self.refuse_holes(ready)?;
        let read = self.read_into_gpu(ready, tools);
        let Some(side) = &mut ready.gpu else { return Ok(()) };
        let hint = "`cufile.log` says why; `--route host` goes through host memory";
        let (reason, hint) = match read.map(|()| side.all_direct()) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(RouteFault::NotKnown(none))) => {
                let is_watched = tools.options.watch_dma;
                if is_watched || self.plan.asked.route == RouteChoice::Auto {
                    tools.watch.notice(&format!("the route is unknown: {none}"));
                    return Ok(());
                }
                (none.to_string(), none.hint())
            }
            Ok(Err(fault)) => (fault.to_string(), hint),
            Err(reason) => (reason, hint),
        };
        Err(Rejection { reason, hint: Some(hint.to_owned()) })
    }

    /// Refuses holes that are to be read by a library that reads them through host memory.
    fn refuse_holes(&self, ready: &AttachedMemory) -> Result<(), Rejection> {
        let offset = ready.transfer.source_offset;
        let range = offset..offset + ready.transfer.length;
        let Some(side) = &ready.gpu else { return Ok(()) };
        let meets_hole = match (self.holes, self.stages.chunk()) {
            (Holes::Moved, _) => side.meets_hole(&self.source.file, range),
            (_, Some(chunk)) => self.chunk_meets_hole(side, range, chunk),
            (_, None) => false,
        };
        if !meets_hole {
            return Ok(());
        }
        let path = &self.plan.source.path;
        let reason =
            format!("{path} has holes, which cuFile reads through host memory from 1.19 on");
        let hint = if self.stages.chunk().is_some() {
            format!(
                "stages work on whole chunks, holes included: `cp --sparse=never {path} FILE` makes a file without; `--route host` goes \
                 through host memory"
            )
        } else {
            "leave `--sparse never` out, and holes are not read".to_owned()
        };
        Err(Rejection { reason, hint: Some(hint) })
    }

    /// True when a chunk has a hole that cuFile would read. Only chunks with data and the last one
    /// are read.
    fn chunk_meets_hole(&self, side: &GpuSide, range: Range<u64>, chunk: u64) -> bool {
        let file = &self.source.file;
        let last = range.start + (range.end - range.start) / chunk * chunk..range.end;
        let grid = Grid { origin: range.start, block: chunk };
        // A file that does not tell has no holes that are left out.
        let Ok(extents) = data_ranges(file, range, grid) else { return false };
        let data = extents.filter_map(|extent| match extent {
            Ok(Extent::Data(range)) => Some(range),
            _ => None,
        });
        side.reads_holes_by_host()
            && data.chain([last]).any(|range| !range.is_empty() && side.meets_hole(file, range))
    }

    /// The first block of data of either end; if an end does not tell its holes, the first block.
    fn blocks_of_data(&self, transfer: &Transfer) -> Vec<(Role, u64)> {
        let first = |role, file: &File, origin: u64, block: u64| {
            let within = origin..origin + transfer.length;
            let found = first_data(file, within, Grid { origin, block });
            Some((role, found.unwrap_or(Some(origin))?))
        };
        let (source, target) = (&self.source.file, self.target.file());
        let ends = [
            first(Role::Source, source, transfer.source_offset, transfer.source_block),
            first(Role::Target, target, transfer.target_offset, transfer.target_block),
        ];
        ends.into_iter().flatten().collect()
    }

    fn read_into_gpu(&self, ready: &mut AttachedMemory, tools: &Tools<'_>) -> Result<(), String> {
        let transfer = ready.transfer;
        let read = |(role, file_offset)| {
            let (file, block) = match role {
                Role::Source => (transfer.source, transfer.source_block),
                Role::Target => (transfer.target, transfer.target_block),
            };
            Request {
                role,
                action: Action::Read,
                file,
                file_offset,
                region: transfer.region,
                region_offset: 0,
                memory: transfer.memory,
                need: block,
                ask: block,
                block,
                end: EndOfFile::IsFine,
                progress: RequestProgress::default(),
            }
        };
        let places = self.blocks_of_data(&transfer);
        let mut requests: Vec<Request> = places.into_iter().map(read).collect();
        let read = requests.iter_mut().try_for_each(|request| {
            let one = std::slice::from_mut(request);
            carry_out(&mut ready.ring, one, tools.clock, tools.deadline)
        });
        read.map_err(|error| {
            let said = ready.ring.inner().inner().said().map(|said| format!(" ({said})"));
            format!("{}{}", error_in_words(&error), said.unwrap_or_default())
        })
    }
}

/// Bytes from one slot to the next.
fn stride(shape: &Shape) -> u64 {
    shape.memory.0 / u64::from(shape.slots.max(1))
}

/// Room for each slot's requests twice, for flushes and checks.
pub(super) fn entries(slots: u32, targets: u32) -> u32 {
    slots.saturating_mul(2).saturating_mul(targets.saturating_add(1)).clamp(16, 4096)
}

/// Returns the way the end is written; through host memory a merge is one wherever it happens.
pub(super) fn tail(planned: Tail, target: &OpenTarget<'_>) -> Tail {
    match (planned, target.is_direct()) {
        (Tail::RoundUpAndCut, false) => Tail::None,
        (tail, _) => tail,
    }
}

/// Block size of an open file; the page cache takes any length.
pub(super) fn block(is_direct: bool, end: &EndpointFacts) -> u64 {
    if is_direct { end.block.0 } else { 1 }
}

/// Host memory for checks: blocks above 128 KiB are not met with.
fn check_room(plan: &Plan, shape: &Shape) -> Bytes {
    match plan.asked.verify {
        VerifyMode::Full => {
            let both = Bytes(shape.length.0.saturating_mul(2));
            let whole = both.round_up(SLOT_ALIGNMENT).unwrap_or(CHECK_ROOM_FULL);
            whole.clamp(CHECK_ROOM, CHECK_ROOM_FULL)
        }
        VerifyMode::Sample | VerifyMode::None => CHECK_ROOM,
    }
}
