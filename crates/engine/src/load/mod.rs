//! Ranges of files into memory of a GPU, one after the other, each by the way that is asked for.
//!
//! A [`Loader`] belongs to one thread, and several have one set of [`LoadRings`] together: what cuFile said of a file
//! system, and by which of its modes it is open, which is the whole process's. By [`RouteChoice::P2p`] every range goes
//! by cuFile, direct by P2PDMA or else by nvidia-fs, or is refused; by [`RouteChoice::Host`] through pinned host memory;
//! by [`RouteChoice::Auto`] directly where nothing refuses, else through host memory, with the reason.
//!
//! [`fill`] does the same into memory of somebody else on a GPU, in parts through memory of our own.
//!
//! The one thing to know: [`LoadRings::judge`] has the last word. What cuFile counted as moved through host memory although
//! it was to go directly is an error. Without counters [`RouteChoice::P2p`] is refused, and by [`RouteChoice::Auto`]
//! the route of what cuFile moved is unknown.

mod error;
mod fill;
mod ways;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};
use peerlane_memory::cufile::CuFileSession;
use peerlane_results::{MemoryKind, Route, RouteChoice};
use peerlane_units::{Bytes, Nanos};
use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

pub use error::LoadError;
pub use fill::{Filled, fill};
pub use ways::LoadRings;

pub use crate::endpoint::find_gpu;

use crate::Clock;
use crate::cufile::meets_hole;
use crate::failure::Role;
use crate::request::{Request, carry_out};
use crate::ring::{Action, AttachError, FileId, GpuRing, RegionId, Ring, Uring};

/// Unit of offsets and lengths of requests: no drive or file system in use asks for more.
const BLOCK: u64 = 4096;
/// Room of a ring.
const ENTRIES: u32 = 64;
/// Pieces through pinned host memory: how many at a time, and how long.
const PINNED: (u32, u64) = (8, 1 << 20);
/// The same by cuFile, each a thread.
const DIRECT: (u32, u64) = (4, 4 << 20);

/// Loads into memory of one GPU, for one thread.
pub struct Loader<'a> {
    gpu: Arc<Gpu>,
    ways: &'a LoadRings,
    clock: &'a dyn Clock,
    deadline: Nanos,
    host: Option<LoadRing>,
    direct: Option<LoadRing>,
}

/// A ring of one way, and the memory that it has now.
struct LoadRing {
    ring: GpuRing,
    memory: Option<(RegionId, Arc<DeviceMemory>)>,
    /// Bytes of a request at most.
    piece: u64,
}

/// Result of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Offset in the memory at which the range begins.
    pub begin: u64,
    /// Bytes that moved: the range, and what makes it whole blocks.
    pub bytes: Bytes,
    /// The route that they took.
    pub route: Route,
    /// Set when they came out of the page cache, where the file takes no direct I/O.
    pub page_cache: bool,
    /// Reason why they did not go directly, where that was not ruled out.
    pub reason: Option<Arc<str>>,
}

/// Bytes of memory that a range takes with what makes it whole blocks.
pub fn room(range: &Range<u64>) -> Bytes {
    let all = whole_blocks(range);
    Bytes(all.end - all.start)
}

fn whole_blocks(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(BLOCK).unwrap_or(range.end);
    range.start / BLOCK * BLOCK..end
}

impl<'a> Loader<'a> {
    /// A loader; nothing is opened before it is needed.
    pub fn new(gpu: &Arc<Gpu>, ways: &'a LoadRings, clock: &'a dyn Clock, deadline: Nanos) -> Self {
        Self { gpu: Arc::clone(gpu), ways, clock, deadline, host: None, direct: None }
    }

    /// Loads a range of a file, which must not end before, to the beginning of the memory, which must have
    /// [`room`] for it. The file is left open for direct I/O where it takes that.
    ///
    /// # Errors
    /// [`LoadError`]; what the memory holds is not said then.
    pub fn load(
        &mut self,
        file: &File,
        range: &Range<u64>,
        memory: &Arc<DeviceMemory>,
    ) -> Result<Loaded, LoadError> {
        let is_direct = set_direct(file).map_err(LoadError::file("switch direct I/O on for"))?;
        let reason = match self.ways.choice() {
            RouteChoice::Host => None,
            choice => match self.by_cufile(file, is_direct, range, memory) {
                Err(LoadError::NotDirect { reason }) if choice == RouteChoice::Auto => Some(reason),
                done => return done,
            },
        };
        let mut way = match self.host.take() {
            Some(way) => way,
            None => self.open_host()?,
        };
        let moved = self.carry(&mut way, file, range, memory);
        self.host = Some(way);
        let page_cache = !is_direct;
        Ok(Loaded {
            begin: range.start % BLOCK,
            bytes: moved?,
            route: Route::Host,
            page_cache,
            reason,
        })
    }

    fn by_cufile(
        &mut self,
        file: &File,
        is_direct: bool,
        range: &Range<u64>,
        memory: &Arc<DeviceMemory>,
    ) -> Result<Loaded, LoadError> {
        if !is_direct {
            return Err(LoadError::not_direct("the file takes no direct I/O"));
        }
        let session = self.ways.session(file)?;
        let is_sparse = meets_hole(&session, file, range.clone());
        if is_sparse.map_err(LoadError::file("look for holes of"))? {
            return Err(LoadError::not_direct(
                "the file has holes there, which cuFile reads through host memory from 1.19 on",
            ));
        }
        let mut way = match self.direct.take() {
            Some(way) => way,
            None => Self::open_direct(&session)?,
        };
        let moved = self.carry(&mut way, file, range, memory);
        self.direct = Some(way);
        let (begin, route) = (range.start % BLOCK, Route::P2p);
        Ok(Loaded { begin, bytes: moved?, route, page_cache: false, reason: None })
    }

    fn open_host(&self) -> Result<LoadRing, LoadError> {
        let (slots, piece) = PINNED;
        let ring = GpuRing::bounce(Uring::new(ENTRIES)?, &self.gpu, slots, Bytes(piece))?;
        Ok(LoadRing { ring, memory: None, piece })
    }

    fn open_direct(session: &Arc<CuFileSession>) -> Result<LoadRing, LoadError> {
        let (depth, piece) = DIRECT;
        let ring = GpuRing::cufile(Uring::new(ENTRIES)?, session, depth)
            .map_err(LoadError::file("begin threads for"))?;
        Ok(LoadRing { ring, memory: None, piece })
    }

    /// Moves a range by one way; the bytes.
    fn carry(
        &self,
        way: &mut LoadRing,
        file: &File,
        range: &Range<u64>,
        memory: &Arc<DeviceMemory>,
    ) -> Result<Bytes, LoadError> {
        let all = whole_blocks(range);
        if memory.length().0 < all.end - all.start {
            return Err(LoadError::Room { needed: room(range), size: memory.length() });
        }
        let region = way.region(memory)?;
        let copy = file.try_clone().map_err(LoadError::file("open"))?;
        let file = way.ring.attach(copy).map_err(|error| match error {
            AttachError::System(source) => LoadError::File { action: "attach", source },
            AttachError::CuFile(error) => LoadError::not_direct(&error.to_string()),
        })?;
        let mut requests = requests(&all, range.end, way.piece, file, region);
        let carried = carry_out(&mut way.ring, &mut requests, self.clock, self.deadline);
        // What is stuck stays attached, and goes with the ring.
        if way.ring.in_flight() == 0 {
            way.ring.detach_file(file);
        }
        carried.map_err(|source| LoadError::Request {
            said: way.ring.failure().map(str::to_owned),
            source,
        })?;
        Ok(Bytes(requests.iter().map(Request::moved).sum()))
    }
}

impl LoadRing {
    /// The memory as the ring knows it; another one before is given back.
    fn region(&mut self, memory: &Arc<DeviceMemory>) -> Result<RegionId, LoadError> {
        if let Some((region, own)) = &self.memory {
            if Arc::ptr_eq(own, memory) {
                return Ok(*region);
            }
            self.ring.detach_memory(*region);
            self.memory = None;
        }
        let attached = self.ring.attach_memory(Arc::clone(memory));
        let region = attached.map_err(|error| LoadError::not_direct(&error.to_string()))?;
        self.memory = Some((region, Arc::clone(memory)));
        Ok(region)
    }

    /// Lets go of the memory.
    fn release(&mut self) {
        if let Some((region, _)) = self.memory.take() {
            self.ring.detach_memory(region);
        }
    }
}

impl Loader<'_> {
    /// Lets go of the memory that was loaded into last, so that its owner can free it.
    pub fn release(&mut self) {
        for way in [&mut self.host, &mut self.direct].into_iter().flatten() {
            way.release();
        }
    }
}

/// The requests for whole blocks, of which those before `end` are needed.
fn requests(
    all: &Range<u64>,
    end: u64,
    piece: u64,
    file: FileId,
    region: RegionId,
) -> Vec<Request> {
    let starts = std::iter::successors(Some(all.start), |start| start.checked_add(piece));
    let request = |start: u64| {
        let place = (region, start - all.start, MemoryKind::Gpu);
        Request::new(
            (Role::Source, Action::Read),
            (file, start),
            place,
            piece.min(end - start),
            BLOCK,
        )
    };
    starts.take_while(|start| *start < end).map(request).collect()
}

/// Switches direct I/O on where the file has it in truth.
fn set_direct(file: &File) -> std::io::Result<bool> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags)?;
    let is_told = told.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let align = u64::from(told.stx_dio_offset_align);
    if is_told && (align == 0 || BLOCK % align != 0) {
        return Ok(false);
    }
    match fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_just_hold_range() {
        let (file, region) = (FileId(0), RegionId(0));
        for (range, piece, expected) in [
            (15..10_015, 8192, vec![(0, 8192, 8192), (8192, 1823, 4096)]),
            (0..4096, 4096, vec![(0, 4096, 4096)]),
            (5000..5001, 1 << 20, vec![(4096, 905, 4096)]),
        ] {
            let all = whole_blocks(&range);
            let got: Vec<(u64, u64, u64)> = requests(&all, range.end, piece, file, region)
                .iter()
                .map(|one| (one.file_offset, one.need, one.ask))
                .collect();
            assert_eq!(got, expected, "{range:?}");
            assert_eq!(room(&range).0, got.iter().map(|one| one.2).sum::<u64>());
        }
    }
}
