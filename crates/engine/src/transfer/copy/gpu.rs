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
use std::path::Path;
use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};
use peerlane_memory::cufile::{Counted, CounterMark, CuFileSession, FellBack, NoCounter};
use peerlane_results::{Evidence, MemoryFacts, Route, RouteEvidence, Shape};
use peerlane_units::{Bytes, Nanos};

use super::attempt::{NotReady, Rejection};
use crate::endpoints::lane::{GpuLane, GpuLaneSetup, GpuSlots, GpuWay, LaneError, fit};
use crate::endpoints::{GpuName, find_gpu};
use crate::io::clock::Clock;
use crate::io::cufile;
use crate::io::desk::{Desk, Stopped};
use crate::io::ring::{FileId, GpuRing, RegionId, Uring};
use crate::plan::fitted;
use crate::transfer::stages::SlotGpu;

/// Pinned host memory that zeroes come from.
const DESK_ROOM: Bytes = Bytes::mib(1);
/// Requests that are no payload, next to those of the slots.
const SPARE: u32 = 2;

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
pub(super) struct GpuCopySlots {
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

/// Opens a GPU with slots of `shape`, fewer where there is no room for all: the window of a GPU may be smaller than its
/// memory.
pub(super) fn open(
    way: GpuWay,
    facts: &MemoryFacts,
    shape: &Shape,
    entries: u32,
    ends: &GpuCopyEnds<'_>,
) -> Result<GpuCopySlots, NotReady> {
    let (gpu, driver) = open_gpu(facts)?;
    let no_gpu = |source| LaneError::Gpu { gpu: facts.name.clone(), source };
    let setup = GpuLaneSetup {
        gpu: &gpu,
        name: &facts.name,
        path: Path::new(ends.paths[0]),
        requests: shape.slots.saturating_add(SPARE),
        request: shape.request,
    };
    let ring = Uring::new(entries).map_err(LaneError::from)?;
    let mut lane = setup.open(ring, setup.session(way)?)?;
    let mut attach = |file: &File, path: &str| {
        let file = file.try_clone().map_err(LaneError::file("attach", path))?;
        lane.attach(file, Path::new(path))
    };
    let source = attach(ends.source, ends.paths[0])?;
    let target = attach(ends.target, ends.paths[1])?;
    let half = |shape: &Shape| fitted(shape, Bytes(shape.memory.0 / 2));
    let (slots, shape) = fit(
        shape.clone(),
        |shape| lane.take(shape.memory),
        |shape, _| (shape.slots > 1).then(|| half(shape)),
    )?;
    let desk = Desk::new(&gpu, DESK_ROOM).map_err(no_gpu)?;
    let before = lane.session.as_ref().map(|session| session.mark());
    let evidence = lane.evidence(|| {
        format!(
            "{} slots of pinned host memory, {} each, copied by the GPU's copy engine",
            shape.slots, shape.request
        )
    });
    let GpuLane { ring, session, .. } = lane;
    let GpuSlots { memory, region } = slots;
    let side = GpuSide { session, gpu, driver, memory, desk, before };
    Ok(GpuCopySlots { ring, source, target, region, shape, side, evidence })
}

/// The GPU that a plan names, by its address: a process may be shown fewer than there are.
fn open_gpu(facts: &MemoryFacts) -> Result<(Arc<Gpu>, (i32, i32)), NotReady> {
    let address = facts.address.as_deref().and_then(|address| address.parse().ok());
    let Some(address) = address else {
        let reason = format!("{} has no PCI address", facts.name);
        return Err(Rejection { reason, hint: None }.into());
    };
    let opened = find_gpu(GpuName::Address(address))
        .and_then(|(cuda, found)| Ok((cuda.open(&found)?, cuda.version()?)));
    Ok(opened.map_err(|source| LaneError::Gpu { gpu: facts.name.clone(), source })?)
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
