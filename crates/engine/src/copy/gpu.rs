//! The memory of a GPU between the ends of a copy: opened by the way that its plan names, asked which way was
//! really taken, and cleared.
//!
//! The one thing to know: cuFile may go through host memory though it was told not to. Before anything is
//! written it reads a block of either end, and its counters are looked at; they are looked at again when all
//! has moved. They are the library's word and no proof; that bytes arrive is proved as for any memory.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory, Gpu};
use peerlane_memory::cufile::{Counts, CuFileError, FellBack, Session};
use peerlane_results::{Evidence, MemoryFacts, Shape};
use peerlane_units::{Bytes, Nanos};

use super::CopyError;
use crate::Clock;
use crate::desk::{Desk, Stopped};
use crate::endpoint::GpuName;
use crate::measure::find_gpu;
use crate::plan::{GpuWay, fitted};
use crate::ring::{AttachError, FileId, GpuRing, RegionId, Uring, open_cufile};

/// Pinned host memory that zeroes come from.
const DESK_ROOM: Bytes = Bytes::mib(1);
/// Requests that are no payload, beside those of the slots.
const SPARE: u32 = 2;

/// Why a GPU does not serve; another way may.
#[derive(Debug)]
pub(super) struct GpuRefusal {
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

impl From<CudaError> for GpuRefusal {
    fn from(error: CudaError) -> Self {
        Self { reason: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<CuFileError> for GpuRefusal {
    fn from(error: CuFileError) -> Self {
        Self { reason: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

/// What a copy holds of a GPU beside its ring.
pub(super) struct GpuSide {
    session: Option<Arc<Session>>,
    memory: Arc<DeviceMemory>,
    desk: Desk,
    /// What cuFile had counted when it was opened.
    before: Option<Counts>,
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
pub(super) struct Ends<'a> {
    pub(super) source: &'a File,
    pub(super) target: &'a File,
    pub(super) paths: [&'a str; 2],
}

/// Opens a GPU with slots of `shape`, or as many as there is room for. The outer result is an end of the copy.
pub(super) fn open(
    way: GpuWay,
    facts: &MemoryFacts,
    shape: &Shape,
    entries: u32,
    ends: &Ends<'_>,
) -> Result<Result<GpuSlots, GpuRefusal>, CopyError> {
    let gpu = match open_gpu(facts) {
        Ok(gpu) => gpu,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let ring = Uring::new(entries)?;
    let requests = shape.slots.saturating_add(SPARE);
    let (ring, session) = match way {
        GpuWay::Pinned => match GpuRing::bounce(ring, &gpu, requests, shape.request) {
            Ok(ring) => (ring, None),
            Err(error) => return Ok(Err(error.into())),
        },
        GpuWay::CuFile(mode) => {
            let session = match open_cufile(mode) {
                Ok(session) => session,
                Err(error) => return Ok(Err(error.into())),
            };
            let ring = GpuRing::cufile(ring, &session, requests).map_err(|source| {
                let path = ends.paths[0].into();
                CopyError::File { action: "begin threads for", path, source }
            })?;
            (ring, Some(session))
        }
    };
    attach(ring, session, &gpu, (way, facts), shape, ends)
}

/// The GPU that a plan names, by its address: a process may be shown fewer than there are.
fn open_gpu(facts: &MemoryFacts) -> Result<Arc<Gpu>, GpuRefusal> {
    let address = facts.address.as_deref().and_then(|address| address.parse().ok());
    let Some(address) = address else {
        let reason = format!("{} has no PCI address", facts.name);
        return Err(GpuRefusal { reason, hint: None });
    };
    let (cuda, found) = find_gpu(GpuName::Address(address))?;
    Ok(cuda.open(&found)?)
}

fn attach(
    mut ring: GpuRing,
    session: Option<Arc<Session>>,
    gpu: &Arc<Gpu>,
    (way, facts): (GpuWay, &MemoryFacts),
    shape: &Shape,
    ends: &Ends<'_>,
) -> Result<Result<GpuSlots, GpuRefusal>, CopyError> {
    let mut files = [None; 2];
    for (number, file) in [ends.source, ends.target].into_iter().enumerate() {
        let failed =
            |source| CopyError::File { action: "attach", path: ends.paths[number].into(), source };
        match ring.attach(file.try_clone().map_err(failed)?) {
            Ok(id) => files[number] = Some(id),
            Err(AttachError::System(source)) => return Err(failed(source)),
            Err(AttachError::CuFile(error)) => return Ok(Err(error.into())),
        }
    }
    let [Some(source), Some(target)] = files else { return Ok(Err(no_room(facts))) };
    let taken = take_memory(&mut ring, gpu, shape);
    let desk = Desk::new(gpu, DESK_ROOM);
    let ((memory, region, shape), desk) = match (taken, desk) {
        (Ok(taken), Ok(desk)) => (taken, desk),
        (Err(refusal), _) => return Ok(Err(refusal)),
        (_, Err(error)) => return Ok(Err(error.into())),
    };
    let before = session.as_ref().and_then(|session| session.counts());
    let found = gpu.facts();
    let evidence = Evidence {
        looked_at: format!("the way to {} ({}, {})", facts.name, found.model, found.address),
        showed: match way {
            GpuWay::CuFile(mode) => mode.to_string(),
            GpuWay::Pinned => format!(
                "{} slots of pinned host memory, {} each, copied by the GPU's copy engine",
                shape.slots, shape.request
            ),
        },
    };
    let side = GpuSide { session, memory, desk, before };
    Ok(Ok(GpuSlots { ring, source, target, region, shape, side, evidence }))
}

fn no_room(facts: &MemoryFacts) -> GpuRefusal {
    GpuRefusal { reason: format!("{} takes no two files", facts.name), hint: None }
}

/// Takes slots, fewer where there is no room for all: the window of a GPU may be smaller than its memory.
fn take_memory(
    ring: &mut GpuRing,
    gpu: &Arc<Gpu>,
    shape: &Shape,
) -> Result<(Arc<DeviceMemory>, RegionId, Shape), GpuRefusal> {
    let mut shape = shape.clone();
    loop {
        let taken = gpu.allocate(shape.memory).map_err(GpuRefusal::from);
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
    /// What cuFile has counted since it was opened here.
    fn counted(&self) -> Option<Counts> {
        Some(self.session.as_ref()?.counts()?.since(&self.before?))
    }

    /// Judges requests that were all to go directly, as far as cuFile says.
    pub(super) fn all_direct(&self) -> Result<(), FellBack> {
        self.counted().map_or(Ok(()), Counts::all_direct)
    }

    /// Which way cuFile says that its requests took; `None` where cuFile took no part.
    pub(super) fn evidence(&self) -> Option<Evidence> {
        self.session.as_ref()?;
        let showed = match self.counted() {
            None => "not to be seen: this library has none".to_owned(),
            Some(counts) => format!("{counts}, which is the library's word"),
        };
        Some(Evidence { looked_at: "cuFile's counters of this process".to_owned(), showed })
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
