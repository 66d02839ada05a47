//! A file or a drive against memory of a GPU.
//!
//! Five ways, each named in the record: cuFile direct by P2PDMA, cuFile direct by nvidia-fs (both `p2p`), cuFile
//! in compatibility mode (`host-cufile`), our own pieces through pinned host memory (`host`, `host-serial`, and
//! `host-page-cache` into a GPU), and ways that pin nothing (`host-mapped` into a GPU,
//! `host-page-cache` out of it: [`classical`]). `p2p` tries the first and then the second with
//! cuFile's fallback switched off. It is not possible if both refuse, or if cuFile has no counters
//! that would show the way. Bytes that cuFile counts afterwards as moved through host memory, or
//! does not count, make the run an error.
//!
//! For the check, the copy engine moves content into the GPU and out of it, never the route that is
//! measured.

mod check;
mod classical;
mod ready;

use peerlane_memory::LibraryError;
use peerlane_memory::cuda::{Cuda, CudaError, GpuFacts};
use peerlane_results::{
    BytesByRoute, Evidence, MemoryFacts, MemoryKind, Path as Way, Route, RouteEvidence,
    RouteVerdict, Warning,
};
use peerlane_units::Bytes;

use super::carry::{CarriedRun, Carrier, CheckResult};
use super::content::Slots;
use super::look::FlowLook;
use super::planned::PlannedFlow;
use super::requests::one_way;
use super::stream::SlotLog;
use super::{FlowTools, MeasureError, Result};
use crate::endpoints::{Endpoint, GpuName, LaneError, Notation, find_gpu};
use crate::io::failure::Role;
use crate::io::ring::Around as _;
use check::Landed;
use classical::is_classical;
use ready::ReadyGpuFlow;

/// Most bytes of a request by cuFile, which cuts it as the drive wants.
const CUFILE_REQUEST: Bytes = Bytes::mib(16);
/// Most bytes of a request that the driver moves by the CPU: a block is one.
const CLASSICAL_REQUEST: Bytes = Bytes::mib(1024);

/// The GPU of a flow.
#[derive(Debug, Clone)]
pub(super) struct GpuEnd {
    cuda: Cuda,
    facts: GpuFacts,
}

/// Parts of a flow with a GPU.
pub(super) struct GpuFlowParts {
    pub(super) gpu: GpuEnd,
    pub(super) memory: MemoryFacts,
    /// Most bytes of a request.
    pub(super) most: u64,
    pub(super) warnings: Vec<Warning>,
}

impl FlowLook<'_> {
    /// Works out memory and limits of a flow between a drive and a GPU, before anything is opened.
    pub(super) fn gpu(&self, name: GpuName, drive: &Endpoint, role: Role) -> Result<GpuFlowParts> {
        let typed = Notation::Gpu(name).to_string();
        if self.flow.path == Way::HostMapped && role == Role::Target {
            return Err(self.no_pair("out of a GPU there is no source to map"));
        }
        let live = drive.live.as_ref();
        if live.is_some_and(|live| live.passthrough.is_some()) {
            return Err(self.no_pair("a passthrough node reaches no GPU: name its block device"));
        }
        let is_direct = live.is_some_and(|live| live.is_direct);
        let by_cufile = matches!(self.flow.path, Way::P2p | Way::HostCufile);
        let mut warnings = Vec::new();
        if !is_direct && by_cufile {
            let reason = format!("{} takes no direct I/O, which cuFile needs", drive.facts.path);
            return Err(MeasureError::NotPossible { reason });
        }
        if !is_direct {
            warnings.push(Warning::PageCache { path: drive.facts.path.clone() });
        }
        let (cuda, facts) = find_gpu(name).map_err(|source| {
            let has_no_driver = matches!(source, CudaError::Library(LibraryError::NotThere { .. }));
            let gpu = typed.clone();
            if has_no_driver && self.fabric.find(&typed).is_none() {
                return MeasureError::NoGpu { machine: self.fabric.name.clone(), gpu };
            }
            LaneError::Gpu { gpu, source }.into()
        })?;
        let memory = MemoryFacts {
            name: typed,
            kind: MemoryKind::Gpu,
            address: Some(facts.address.to_string()),
            size: Some(facts.memory),
            available: None,
        };
        let most = if by_cufile {
            CUFILE_REQUEST
        } else if is_classical(self.flow.path, role) {
            CLASSICAL_REQUEST
        } else {
            drive.facts.request_host
        }
        .0;
        Ok(GpuFlowParts { gpu: GpuEnd { cuda, facts }, memory, most, warnings })
    }
}

impl PlannedFlow {
    /// The route of a flow with a GPU.
    pub(super) fn gpu_route(&self) -> Route {
        self.flow.path.route()
    }

    /// True when payload between a drive and a GPU goes by the way that pins nothing.
    pub(super) fn is_classical(&self) -> bool {
        let role = if self.source.storage().is_some() { Role::Source } else { Role::Target };
        is_classical(self.flow.path, role)
    }
}

/// Opens the way of a flow and closes it; nothing moves.
pub(super) fn try_open(planned: &PlannedFlow, gpu: &GpuEnd, tools: &FlowTools<'_>) -> Result<()> {
    ReadyGpuFlow::open(planned, gpu, tools).map(drop)
}

/// A flow between a drive and memory of a GPU.
pub(super) struct GpuFlow {
    ready: ReadyGpuFlow,
    content: GpuContent,
    /// True if requests of the ring move the payload.
    has_ring: bool,
}

/// Places of the payload that can be checked.
enum GpuContent {
    /// In the memory.
    Landed(Landed),
    /// In the file, out of slots.
    Slots(Slots),
}

impl GpuFlow {
    pub(super) fn open(planned: &PlannedFlow, gpu: &GpuEnd, tools: &FlowTools<'_>) -> Result<Self> {
        let mut ready = ReadyGpuFlow::open(planned, gpu, tools)?;
        let content = match ready.role {
            Role::Source => GpuContent::Landed(Landed::new(&ready)),
            Role::Target => GpuContent::Slots(ready.fill(planned, tools)?),
        };
        let has_ring = ready.hands.is_none();
        Ok(Self { ready, content, has_ring })
    }
}

impl Carrier for GpuFlow {
    fn begin_count(&mut self) {
        let ready = &mut self.ready;
        ready.ring.begin_count(ready.is_direct.then_some(ready.region));
        ready.side.mark();
    }

    fn run(&mut self, planned: &PlannedFlow, tools: &mut FlowTools<'_>) -> Result<CarriedRun> {
        let ready = &mut self.ready;
        let log: &mut dyn SlotLog = match &mut self.content {
            GpuContent::Landed(landed) => landed,
            GpuContent::Slots(slots) => slots,
        };
        let run = match ready.hands.take() {
            Some(hands) => classical::carry(planned, ready, hands, log, tools),
            None => {
                let way = ready.way(planned, tools);
                one_way(planned, (&mut ready.ring, ready.host), &way, log, tools)
            }
        };
        run.map_err(|error| planned.name_the_stage(error, ready.ring.inner().fault()))
            .map_err(|error| ready.explained(error, planned, tools.deadline))
    }

    fn requested(&self, bytes: Bytes) -> BytesByRoute {
        match self.has_ring {
            true => self.ready.ring.counted(bytes),
            false => BytesByRoute { p2p: Bytes::ZERO, host: bytes },
        }
    }

    fn check(
        &mut self,
        planned: &PlannedFlow,
        _: &CarriedRun,
        tools: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        let ready = &mut self.ready;
        ready.judge(planned)?;
        let verification = match &self.content {
            _ if !planned.is_comparable() => None,
            GpuContent::Landed(landed) => Some(ready.compare(planned, landed, tools)?),
            GpuContent::Slots(slots) => Some(ready.read_back(planned, slots, tools)?),
        };
        ready.clear(planned, tools)?;
        let evidence = std::mem::take(&mut ready.evidence);
        Ok(CheckResult { verification, evidence, ..CheckResult::default() })
    }
}

/// Evidence that fits the route, and would fit another.
fn saw(looked_at: impl Into<String>, showed: impl Into<String>) -> RouteEvidence {
    let evidence = Evidence { looked_at: looked_at.into(), showed: showed.into() };
    evidence.says(RouteVerdict::Consistent)
}
