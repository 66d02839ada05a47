//! A file or a drive against memory of a GPU.
//!
//! Five ways, each named in the record: cuFile direct by P2PDMA, cuFile direct by nvidia-fs (both `p2p`), cuFile
//! in compatibility mode (`host-cufile`), our own pieces through pinned host memory (`host`, `host-serial`, and
//! `host-page-cache` into a GPU), and what pins nothing (`host-mapped` into a GPU, `host-page-cache` out of it:
//! [`classical`]). `p2p` tries the first and then the second with cuFile's fallback switched off, and is not
//! possible where both refuse, or where cuFile has no counters that would show the way; what it counts afterwards as
//! moved through host memory, or does not count, makes the run an error.
//!
//! Content goes into the GPU and out of it for the check by the copy engine, never by the route that is measured.

mod check;
mod classical;
mod ready;

use peerlane_memory::cuda::{Cuda, CudaError, GpuFacts};
use peerlane_results::{
    BytesByRoute, Evidence, MemoryFacts, MemoryKind, Path as Way, Route, RouteEvidence,
    RouteVerdict, Warning,
};
use peerlane_units::Bytes;

use super::blocks::Ended;
use super::carry::Run;
use super::content::{Filled, Slots};
use super::look::Look;
use super::planned::PlannedFlow;
use super::stream::{Log, OneWay, stream};
use super::{FlowOutcome, FlowTools, MeasureError};
use crate::endpoint::{Endpoint, GpuName, Notation};
use crate::failure::Role;
use crate::relay::latencies;
use crate::ring::Action;
use check::Landed;
use classical::is_classical;
use ready::Ready;

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

/// What a flow with a GPU is of.
pub(super) struct Found {
    pub(super) gpu: GpuEnd,
    pub(super) memory: MemoryFacts,
    /// Most bytes of a request.
    pub(super) most: u64,
    pub(super) warnings: Vec<Warning>,
}

/// Finds a GPU by its name.
///
/// # Errors
/// What CUDA lacks.
pub fn find(name: GpuName) -> Result<(Cuda, GpuFacts), CudaError> {
    let cuda = Cuda::load()?;
    let gpus = cuda.gpus()?;
    let is_it = |one: &&GpuFacts| match name {
        GpuName::Index(index) => one.index == index,
        GpuName::Address(address) => one.address == address,
    };
    match gpus.iter().find(is_it) {
        Some(facts) => Ok((cuda, facts.clone())),
        None => {
            let asked = format!("gpu:{name}");
            let shown = gpus.iter().map(|one| one.address.to_string()).collect();
            Err(CudaError::NoSuchGpu { asked, shown })
        }
    }
}

impl Look<'_> {
    /// What a drive and a GPU are to each other, before anything is opened.
    pub(super) fn gpu(
        &self,
        name: GpuName,
        drive: &Endpoint,
        role: Role,
    ) -> Result<Found, MeasureError> {
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
            let reason = format!("{} takes no direct I/O, which cuFile wants", drive.facts.path);
            return Err(MeasureError::NotPossible { reason });
        }
        if !is_direct {
            warnings.push(Warning::PageCache { path: drive.facts.path.clone() });
        }
        let (cuda, facts) =
            find(name).map_err(|source| MeasureError::Gpu { gpu: typed.clone(), source })?;
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
        Ok(Found { gpu: GpuEnd { cuda, facts }, memory, most, warnings })
    }
}

impl PlannedFlow {
    /// The route of a flow with a GPU.
    pub(super) fn gpu_route(&self) -> Route {
        self.flow.path.route()
    }

    /// Carries a flow between a drive and a GPU out.
    pub(super) fn carry_gpu(
        &self,
        gpu: &GpuEnd,
        tools: &mut FlowTools<'_>,
    ) -> Result<FlowOutcome, MeasureError> {
        let mut ready = Ready::open(self, gpu, tools)?;
        match ready.role {
            Role::Source => self.read_in(&mut ready, tools),
            Role::Target => self.write_out(&mut ready, tools),
        }
    }

    fn read_in(
        &self,
        ready: &mut Ready,
        tools: &mut FlowTools<'_>,
    ) -> Result<FlowOutcome, MeasureError> {
        let mut landed = Landed::new(ready);
        let run = self.move_gpu(ready, &mut landed, tools)?;
        let verification = ready.compare(self, &landed, tools)?;
        ready.clear(self, tools)?;
        let evidence = std::mem::take(&mut ready.evidence);
        Ok(self.outcome(run, Some(verification), evidence, Vec::new()))
    }

    fn write_out(
        &self,
        ready: &mut Ready,
        tools: &mut FlowTools<'_>,
    ) -> Result<FlowOutcome, MeasureError> {
        let Filled { seed } = ready.fill(self, tools)?;
        let mut slots = Slots::new(self);
        let run = self.move_gpu(ready, &mut slots, tools)?;
        let verification = ready.read_back(self, &slots, seed, tools)?;
        ready.clear(self, tools)?;
        let evidence = std::mem::take(&mut ready.evidence);
        Ok(self.outcome(run, Some(verification), evidence, Vec::new()))
    }

    /// Waits for the others of the case, moves, and says what was moved by which route.
    fn move_gpu(
        &self,
        ready: &mut Ready,
        log: &mut dyn Log,
        tools: &mut FlowTools<'_>,
    ) -> Result<Run, MeasureError> {
        self.wait(tools)?;
        let is_direct = self.gpu_route() == Route::P2p;
        ready.ring.begin_count(is_direct.then_some(ready.region));
        let before = ready.mark();
        let hands = ready.hands.take();
        let has_ring = hands.is_none();
        let moved = match hands {
            Some(hands) => classical::carry(self, ready, hands, log, tools),
            None => self.stream_gpu(ready, log, tools),
        };
        let bytes = Bytes(moved.as_ref().map_or(0, |run| run.bytes));
        let requested = if has_ring {
            ready.ring.counted(bytes)
        } else {
            BytesByRoute { p2p: Bytes::ZERO, host: bytes }
        };
        tools.gate.end(super::Moved { bytes, requested });
        let run = moved.map_err(|error| ready.explained(error, self, tools.deadline))?;
        ready.judge(self, before)?;
        Ok(run)
    }

    fn stream_gpu(
        &self,
        ready: &mut Ready,
        log: &mut dyn Log,
        tools: &mut FlowTools<'_>,
    ) -> Result<Run, MeasureError> {
        let clock = tools.clock;
        let (action, offset) = match ready.role {
            Role::Source => (Action::Read, self.flow.offset),
            Role::Target => (Action::Write, self.flow.target_offset),
        };
        let way = OneWay {
            action,
            file: ready.file,
            offset: offset.0,
            file_block: ready.block,
            region: ready.region,
            // What an errno means is a matter of who is between: the drive meets host memory on the other ways.
            memory: if self.gpu_route() == Route::P2p { MemoryKind::Gpu } else { MemoryKind::Host },
            slots: self.slots,
            place: ready.place,
            deadline: tools.deadline,
        };
        let start = clock.now();
        let account = self.account();
        let mut blocks = self.blocks(start, account, tools);
        let moved = stream(&mut ready.ring, &way, &mut blocks, log, clock, tools.watch)?;
        if action == Action::Write {
            ready.flush(tools)?;
        }
        let end = clock.now();
        let Ended { latency: block, first_done, pace } = blocks.end();
        let block = match account {
            super::blocks::Account::OfRequests => moved.latency.clone(),
            super::blocks::Account::OfBlocks => block,
        };
        let (read, write) = match action {
            Action::Read => (moved.latency, latencies()),
            _ => (latencies(), moved.latency),
        };
        let (bytes, interrupted) = (moved.bytes, moved.interrupted);
        Ok(Run { bytes, start, first_done, end, read, write, block, interrupted, pace })
    }
}

/// Evidence that fits the route, and would fit another.
fn saw(looked_at: impl Into<String>, showed: impl Into<String>) -> RouteEvidence {
    let evidence = Evidence { looked_at: looked_at.into(), showed: showed.into() };
    evidence.says(RouteVerdict::Consistent)
}
