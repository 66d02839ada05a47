//! The memory of a GPU between the ends of a copy: opened by the way that its plan names, asked which way was
//! really taken, and cleared.
//!
//! The one thing to know: cuFile may go through host memory though it was told not to. Before anything is
//! written it reads a block of data of either end, and its counters are looked at; they are looked at again when all
//! has moved. They are the library's word and no proof; that bytes arrive is proved as for any memory. Without
//! counters the route is unknown: `p2p` refuses, and `auto` says so.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory, Gpu};
use peerlane_memory::cufile::{
    Counted, CounterMark, CuFileError, CuFileSession, FellBack, NoCounter,
};
use peerlane_results::{Evidence, MemoryFacts, Route, RouteEvidence, Shape};
use peerlane_units::{Bytes, Nanos};

use super::CopyError;
use super::attempt::{NotReady, Rejection};
use crate::endpoints::{GpuName, find_gpu};
use crate::io::clock::Clock;
use crate::io::cufile;
use crate::io::desk::{Desk, Stopped};
use crate::io::ring::{AttachError, FileId, GpuRing, RegionId, Uring, open_cufile};
use crate::plan::{GpuWay, fitted};
use crate::transfer::stages::SlotGpu;

/// Pinned host memory that zeroes come from.
const DESK_ROOM: Bytes = Bytes::mib(1);
/// Requests that are no payload, next to those of the slots.
const SPARE: u32 = 2;

impl From<CudaError> for Rejection {
    fn from(error: CudaError) -> Self {
        Self { reason: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<CuFileError> for Rejection {
    fn from(error: CuFileError) -> Self {
        Self { reason: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

/// The GPU resources of a copy, next to its ring.
pub(super) struct GpuSide {
    session: Option<Arc<CuFileSession>>,
    gpu: Arc<Gpu>,
    /// CUDA version of its driver.
    driver: (i32, i32),
    memory: Arc<DeviceMemory>,
    desk: Desk,
    /// cuFile's counters before payload.
    before: Option<CounterMark>,
}

/// Reason why payload is not shown to have gone directly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum RouteFault {
    #[error(transparent)]
    FellBack(#[from] FellBack),
    #[error(transparent)]
    NotKnown(#[from] NoCounter),
}

/// A ring with both ends and slots in memory of a GPU.
pub(super) struct GpuSlots {
    pub(super) ring: GpuRing,
    pub(super) source: FileId,
    pub(super) target: FileId,
    pub(super) region: RegionId,
    pub(super) shape: Shape,
    pub(super) side: GpuSide,
    pub(super) evidence: Evidence,
}

/// Both ends of a copy that is to go by a GPU.
pub(super) struct GpuCopyEnds<'a> {
    pub(super) source: &'a File,
    pub(super) target: &'a File,
    pub(super) paths: [&'a str; 2],
}

/// Opens a GPU with slots of `shape`, or as many as there is room for.
pub(super) fn open(
    way: GpuWay,
    facts: &MemoryFacts,
    shape: &Shape,
    entries: u32,
    ends: &GpuCopyEnds<'_>,
) -> Result<GpuSlots, NotReady> {
    let (gpu, driver) = open_gpu(facts)?;
    let ring = Uring::new(entries)?;
    let requests = shape.slots.saturating_add(SPARE);
    let (ring, session) = match way {
        GpuWay::Pinned => {
            let ring = GpuRing::bounce(ring, &gpu, requests, shape.request);
            (ring.map_err(Rejection::from)?, None)
        }
        GpuWay::CuFile(mode) => {
            let session = open_cufile(mode).map_err(Rejection::from)?;
            let ring = GpuRing::cufile(ring, &session, requests).map_err(|source| {
                let path = ends.paths[0].into();
                CopyError::File { action: "begin threads for", path, source }
            })?;
            (ring, Some(session))
        }
    };
    attach(ring, session, (&gpu, driver), (way, facts), shape, ends)
}

/// The GPU that a plan names, by its address: a process may be shown fewer than there are.
fn open_gpu(facts: &MemoryFacts) -> Result<(Arc<Gpu>, (i32, i32)), Rejection> {
    let address = facts.address.as_deref().and_then(|address| address.parse().ok());
    let Some(address) = address else {
        let reason = format!("{} has no PCI address", facts.name);
        return Err(Rejection { reason, hint: None });
    };
    let (cuda, found) = find_gpu(GpuName::Address(address))?;
    Ok((cuda.open(&found)?, cuda.version()?))
}

fn attach(
    mut ring: GpuRing,
    session: Option<Arc<CuFileSession>>,
    (gpu, driver): (&Arc<Gpu>, (i32, i32)),
    (way, facts): (GpuWay, &MemoryFacts),
    shape: &Shape,
    ends: &GpuCopyEnds<'_>,
) -> Result<GpuSlots, NotReady> {
    let mut files = [None; 2];
    for (number, file) in [ends.source, ends.target].into_iter().enumerate() {
        let failed =
            |source| CopyError::File { action: "attach", path: ends.paths[number].into(), source };
        match ring.attach(file.try_clone().map_err(failed)?) {
            Ok(id) => files[number] = Some(id),
            Err(AttachError::System(source)) => return Err(failed(source).into()),
            Err(AttachError::CuFile(error)) => return Err(Rejection::from(error).into()),
        }
    }
    let [Some(source), Some(target)] = files else { return Err(no_room(facts).into()) };
    let (memory, region, shape) = take_memory(&mut ring, gpu, shape)?;
    let desk = Desk::new(gpu, DESK_ROOM).map_err(Rejection::from)?;
    let before = session.as_ref().map(|session| session.mark());
    let found = gpu.facts();
    let evidence = Evidence {
        looked_at: format!("the path to {} ({}, {})", facts.name, found.model, found.address),
        showed: match way {
            GpuWay::CuFile(mode) => mode.to_string(),
            GpuWay::Pinned => format!(
                "{} slots of pinned host memory, {} each, copied by the GPU's copy engine",
                shape.slots, shape.request
            ),
        },
    };
    let gpu = Arc::clone(gpu);
    let side = GpuSide { session, gpu, driver, memory, desk, before };
    Ok(GpuSlots { ring, source, target, region, shape, side, evidence })
}

fn no_room(facts: &MemoryFacts) -> Rejection {
    Rejection { reason: format!("{} takes no two files", facts.name), hint: None }
}

/// Takes slots, fewer where there is no room for all: the window of a GPU may be smaller than its memory.
fn take_memory(
    ring: &mut GpuRing,
    gpu: &Arc<Gpu>,
    shape: &Shape,
) -> Result<(Arc<DeviceMemory>, RegionId, Shape), Rejection> {
    let mut shape = shape.clone();
    loop {
        let taken = gpu.allocate(shape.memory).map_err(Rejection::from);
        let attached = taken.and_then(|memory| {
            let region = ring.attach_memory(Arc::clone(&memory))?;
            Ok((memory, region))
        });
        match attached {
            Ok((memory, region)) => return Ok((memory, region, shape)),
            Err(_) if shape.slots > 1 => shape = fitted(&shape, Bytes(shape.memory.0 / 2)),
            Err(refusal) => return Err(refusal),
        }
    }
}

impl GpuSide {
    /// The GPU with its slots, as stages get at them.
    pub(super) fn slots(&self) -> SlotGpu<'_> {
        SlotGpu { gpu: &self.gpu, memory: &self.memory, driver: self.driver }
    }

    /// Counts of cuFile since the mark; `None` where it takes no part.
    fn counted(&self) -> Option<Counted> {
        Some(self.session.as_ref()?.since(self.before.as_ref()?))
    }

    /// Judges requests that were all to go directly.
    pub(super) fn all_direct(&self) -> Result<(), RouteFault> {
        match self.counted() {
            None => Ok(()),
            Some(counted) => Ok(counted?.all_direct()?),
        }
    }

    /// Counts payload from here on. A proof reads blocks that were never written, which is no payload.
    pub(super) fn mark(&mut self) {
        self.before = self.session.as_ref().map(|session| session.mark());
    }

    /// True when cuFile reads holes through host memory.
    pub(super) fn reads_holes_by_host(&self) -> bool {
        self.session.as_deref().is_some_and(cufile::reads_holes_by_host)
    }

    /// True when cuFile reads a range of a file through host memory for its holes. False where the
    /// file does not tell.
    pub(super) fn meets_hole(&self, file: &File, within: Range<u64>) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| cufile::meets_hole(session, file, within).unwrap_or(false))
    }

    /// Evidence from cuFile: its P2P flags, and counters of the ways that its requests took. Empty
    /// where it takes no part.
    pub(super) fn evidence(&self, route: Route) -> Vec<RouteEvidence> {
        let flags = self.session.as_deref().and_then(cufile::flags);
        let counters = self.counted().map(|counted| cufile::counters(&counted, route));
        flags.into_iter().chain(counters).collect()
    }

    /// Overwrites the memory with zeroes; nothing may be in flight.
    pub(super) fn clear(&mut self, clock: &dyn Clock, deadline: Nanos) -> Result<Bytes, Stopped> {
        self.desk.clear(&self.memory, (clock, deadline))
    }
}

impl fmt::Debug for GpuSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuSide").field("memory", &self.memory.length()).finish_non_exhaustive()
    }
}
