//! A part by cuFile, without host memory.
//!
//! cuFile wants memory that is registered with it and whole blocks. Memory of our own is loaded in
//! place, aligned with the blocks of the file. Lent memory is loaded in parts through memory of our
//! own, which is copied within the GPU: lent memory is never registered with a library. Ours is
//! overwritten with zeroes before it goes back.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory, Foreign, Gpu, GpuTarget};
use peerlane_memory::cufile::CuFileSession;
use peerlane_results::MemoryKind;
use peerlane_units::Bytes;

use super::{BLOCK, LoadError, LoadPart, LoadRoutes, Loaded, first_block};
use crate::endpoints::lane::fit;
use crate::io::cufile::meets_hole;
use crate::io::desk::{Stopped, wait_until};
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, AttachError, FileId, GpuRing, RegionId, Ring, Uring};
use crate::io::watch::ReadTools;

/// Room of a ring.
const ENTRIES: u32 = 64;
/// Concurrent requests, a thread each, and their size.
const DEPTH: u32 = 4;
const REQUEST_BYTES: u64 = 4 << 20;
/// Limit of our own GPU memory.
const MAX_STAGING_BYTES: u64 = 64 << 20;
/// Smallest allocation to try; other libraries may hold nearly all memory.
const MIN_STAGING_BYTES: u64 = 1 << 20;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const NO_ROOM: i32 = 2;

/// The ring of cuFile, opened for the first part.
#[derive(Debug, Default)]
pub(super) struct DirectLoader {
    ring: Option<CuFileRing>,
}

/// A ring and its attached memory.
struct CuFileRing {
    ring: GpuRing,
    memory: Option<(RegionId, Arc<DeviceMemory>)>,
}

impl std::fmt::Debug for CuFileRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuFileRing").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl DirectLoader {
    /// Loads a part that is not empty and fits its memory; [`LoadError::NotDirect`] has the reason against it.
    pub(super) fn load(
        &mut self,
        ways: &LoadRoutes,
        part: &LoadPart,
        tools: &mut ReadTools<'_>,
    ) -> Result<Loaded, LoadError> {
        let Some(file) = part.file.direct() else {
            return Err(LoadError::not_direct("the file takes no direct I/O"));
        };
        let session = ways.session(file)?;
        let is_sparse = meets_hole(&session, file, part.range.clone());
        if is_sparse.map_err(LoadError::file("look for holes of"))? {
            return Err(LoadError::not_direct(
                "the file has holes there, which cuFile reads through host memory from 1.19 on",
            ));
        }
        match &part.memory {
            GpuTarget::Own(memory) => {
                self.load_own(&session, file, &part.range, (memory, part.offset), tools)?;
            }
            GpuTarget::Foreign(memory) => self.load_others(&session, file, part, memory, tools)?,
        }
        let bytes = Bytes(part.range.end - part.range.start);
        Ok(Loaded { bytes, direct: bytes, ..Loaded::default() })
    }

    fn load_others(
        &mut self,
        session: &Arc<CuFileSession>,
        file: &File,
        part: &LoadPart,
        memory: &Foreign,
        tools: &mut ReadTools<'_>,
    ) -> Result<(), LoadError> {
        memory.settle()?;
        let own = allocate(memory.gpu(), room(&part.range).min(MAX_STAGING_BYTES))?;
        let moved = self.in_parts(session, file, part, (memory, &own), tools);
        if let Some(ring) = &mut self.ring {
            ring.release();
        }
        give_back(own, tools);
        moved
    }

    fn in_parts(
        &mut self,
        session: &Arc<CuFileSession>,
        file: &File,
        part: &LoadPart,
        (memory, own): (&Foreign, &Arc<DeviceMemory>),
        tools: &mut ReadTools<'_>,
    ) -> Result<(), LoadError> {
        let (mut at, LoadPart { range, .. }) = (part.range.start, part);
        while at < range.end {
            if tools.watch.stop_requested() {
                return Err(LoadError::Stopped { done: Bytes(at - range.start) });
            }
            // As much as whole blocks around it fit.
            let next = at..range.end.min(first_block(at).saturating_add(own.length().0));
            let begin = at - first_block(at);
            self.load_own(session, file, &next, (own, begin), tools)?;
            let place = part.offset + (at - range.start);
            memory.take(place, (own, begin), next.end - at)?;
            at = next.end;
            tools.watch.progress(Bytes(at - range.start), Bytes(range.end - range.start));
        }
        Ok(())
    }

    /// Loads a range into our own memory, with the rest of its first and last block around it.
    fn load_own(
        &mut self,
        session: &Arc<CuFileSession>,
        file: &File,
        range: &Range<u64>,
        (memory, offset): (&Arc<DeviceMemory>, u64),
        tools: &ReadTools<'_>,
    ) -> Result<(), LoadError> {
        let begin = range.start - first_block(range.start);
        let place = offset.checked_sub(begin).filter(|place| place % BLOCK == 0);
        let place = place.filter(|place| place + room(range) <= memory.length().0);
        let Some(place) = place else {
            return Err(LoadError::not_direct(
                "its blocks do not line up with those of the memory",
            ));
        };
        let mut ring = match self.ring.take() {
            Some(ring) => ring,
            None => CuFileRing::new(session)?,
        };
        let carried = ring.carry(file, range, (memory, place), tools);
        self.ring = Some(ring);
        carried
    }
}

impl CuFileRing {
    fn new(session: &Arc<CuFileSession>) -> Result<Self, LoadError> {
        let ring = GpuRing::cufile(Uring::new(ENTRIES)?, session, DEPTH)
            .map_err(LoadError::file("begin threads for"))?;
        Ok(Self { ring, memory: None })
    }

    fn carry(
        &mut self,
        file: &File,
        range: &Range<u64>,
        (memory, place): (&Arc<DeviceMemory>, u64),
        tools: &ReadTools<'_>,
    ) -> Result<(), LoadError> {
        let region = self.region(memory)?;
        let copy = file.try_clone().map_err(LoadError::file("open"))?;
        let file = self.ring.attach(copy).map_err(|error| match error {
            AttachError::System(source) => LoadError::File { action: "attach", source },
            AttachError::CuFile(error) => LoadError::not_direct(&error.to_string()),
        })?;
        let place = MemoryPlace { region, offset: place, kind: MemoryKind::Gpu };
        let mut requests = requests(range, file, place);
        let carried = carry_out(&mut self.ring, &mut requests, tools.clock, tools.deadline);
        // What is stuck stays attached, and goes with the ring.
        if self.ring.in_flight() == 0 {
            self.ring.detach_file(file);
        }
        carried.map_err(|source| LoadError::Request {
            said: self.ring.failure().map(str::to_owned),
            source,
        })
    }

    /// Attaches a memory instead of the last one.
    fn region(&mut self, memory: &Arc<DeviceMemory>) -> Result<RegionId, LoadError> {
        if let Some((region, own)) = &self.memory {
            if Arc::ptr_eq(own, memory) {
                return Ok(*region);
            }
            self.release();
        }
        let attached = self.ring.attach_memory(Arc::clone(memory));
        let region = attached.map_err(|error| LoadError::not_direct(&error.to_string()))?;
        self.memory = Some((region, Arc::clone(memory)));
        Ok(region)
    }

    /// Detaches the memory.
    fn release(&mut self) {
        if let Some((region, _)) = self.memory.take() {
            self.ring.detach_memory(region);
        }
    }
}

/// Bytes of all blocks of a range.
fn room(range: &Range<u64>) -> u64 {
    range.end.next_multiple_of(BLOCK) - first_block(range.start)
}

/// Requests for whole blocks; bytes beyond the end of the range are not needed.
fn requests(range: &Range<u64>, file: FileId, place: MemoryPlace) -> Vec<Request> {
    let first = first_block(range.start);
    let starts = std::iter::successors(Some(first), |start| start.checked_add(REQUEST_BYTES));
    let request = |start: u64| {
        let offset = place.offset + (start - first);
        let from = FilePlace { file, offset: start, block: BLOCK };
        let need = REQUEST_BYTES.min(range.end - start);
        Request::new(Role::Source, Action::Read, from, MemoryPlace { offset, ..place }, need)
    };
    starts.take_while(|start| *start < range.end).map(request).collect()
}

/// Allocates whole blocks, fewer than `most` if the GPU is nearly full.
fn allocate(gpu: &Arc<Gpu>, most: u64) -> Result<Arc<DeviceMemory>, CudaError> {
    let fitted = fit(
        most,
        |length| gpu.allocate(Bytes(*length)),
        |length, refusal| match refusal {
            CudaError::Call { code: NO_ROOM, .. } if *length > MIN_STAGING_BYTES => {
                Some((length / 2).next_multiple_of(BLOCK).max(MIN_STAGING_BYTES))
            }
            _ => None,
        },
    );
    fitted.map(|(memory, _)| memory)
}

/// Clears and frees our own memory, unless a hanging request still uses it.
fn give_back(own: Arc<DeviceMemory>, tools: &mut ReadTools<'_>) {
    let why = if Arc::strong_count(&own) > 1 {
        "a request on it is still under way".to_owned()
    } else {
        match clear(&own, tools) {
            Ok(()) => return,
            Err(stopped) => stopped.to_string(),
        }
    };
    tools.watch.caution(&format!("memory of the GPU was not overwritten: {why}"));
}

fn clear(own: &Arc<DeviceMemory>, tools: &ReadTools<'_>) -> Result<(), Stopped> {
    let mut queue = own.gpu().queue()?;
    queue.fill(own, 0, own.length().0, 0)?;
    queue.close()?;
    wait_until((tools.clock, tools.deadline), || queue.is_over())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_just_hold_range() {
        let (file, region) = (FileId(0), RegionId(0));
        for (range, expected) in [
            (15..10_015, vec![(0, 10_015, 12_288)]),
            (0..4096, vec![(0, 4096, 4096)]),
            (
                5000..REQUEST_BYTES + 5001,
                vec![(4096, REQUEST_BYTES, REQUEST_BYTES), (REQUEST_BYTES + 4096, 905, 4096)],
            ),
        ] {
            let place = MemoryPlace { region, offset: 0, kind: MemoryKind::Gpu };
            let got: Vec<(u64, u64, u64)> = requests(&range, file, place)
                .iter()
                .map(|one| (one.file_offset, one.need, one.ask))
                .collect();
            assert_eq!(got, expected, "{range:?}");
            assert_eq!(room(&range), got.iter().map(|one| one.2).sum::<u64>());
        }
    }
}
