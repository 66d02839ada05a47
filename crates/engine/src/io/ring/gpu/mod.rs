//! A ring between files and memory of a GPU: the ring of the kernel, with one of two ways behind it.
//!
//! - [`GpuRing::bounce`]: the kernel's ring reads into pinned host memory, piece by piece, and the GPU's copy
//!   engine takes each piece from there as soon as it has come, while the next are read; writes go the other
//!   way round. Payload rests in host memory on its way.
//! - [`GpuRing::cufile`]: requests go to cuFile, whose calls return when they are done, each by a thread.
//!
//! Its users see a ring like any other, so that what streams from a drive into the memory
//! of another drive streams into a GPU. Memory of a GPU is a region that has no bytes. Whoever
//! waits is woken by the drive; for copies it looks again after a pause of [`NAP`], so that the
//! latency of a request is at most that much too long.

mod bounce;
mod workers;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::Region;
use peerlane_memory::cuda::{CudaError, DeviceMemory, Gpu};
use peerlane_memory::cufile::{self, CuFileError, CuFileSession, Mode};
use peerlane_units::{Bytes, Nanos};

use super::{Completion, FileId, Operation, PushError, RegionId, Ring, Uring};
use bounce::Bounce;
use workers::Workers;

/// Pause between two looks at copies: about what 1 MiB takes over 16 lanes of PCIe 4.0.
const NAP: Nanos = Nanos(50_000);

/// Tries of a mode of cuFile that another user is in the way of, and the time between.
const MODE_TRIES: u32 = 200;
const MODE_NAP: Duration = Duration::from_millis(10);

/// Opens cuFile in a mode. Somebody else of this process may still be at the mode before: there is one for
/// all of them.
pub(crate) fn open_cufile(mode: Mode) -> Result<Arc<CuFileSession>, CuFileError> {
    for _ in 0..MODE_TRIES {
        match cufile::open(mode) {
            Err(CuFileError::OtherMode { .. }) => thread::sleep(MODE_NAP),
            tried => return tried,
        }
    }
    cufile::open(mode)
}

/// A ring between files and memory of a GPU.
pub struct GpuRing {
    ring: Uring,
    way: TransferWay,
    regions: Vec<RegionMemory>,
    tags: RingTags,
    ended: VecDeque<Completion>,
    failure: Option<String>,
}

/// Memory of a region.
enum RegionMemory {
    /// A region of the ring below.
    Ring(RegionId),
    /// Memory of a GPU.
    Gpu(Arc<DeviceMemory>),
    /// A region that was given back.
    Gone,
}

enum TransferWay {
    Bounce(Bounce),
    CuFile(Workers),
}

/// Tags of the ring below: operations of others, and pieces of ours.
#[derive(Default)]
struct RingTags {
    others: Vec<Option<u64>>,
    free: Vec<usize>,
}

/// A tag of the ring below, told apart.
enum Own {
    /// Somebody else's operation, by its tag.
    Other(u64),
    /// The piece in a slot.
    Slot(usize),
}

impl RingTags {
    fn other(&mut self, tag: u64) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.others.push(None);
            self.others.len() - 1
        });
        self.others[index] = Some(tag);
        2 * index as u64
    }

    fn slot(slot: usize) -> u64 {
        2 * slot as u64 + 1
    }

    fn take(&mut self, below: u64) -> Option<Own> {
        let index = usize::try_from(below / 2).ok()?;
        if below % 2 == 1 {
            return Some(Own::Slot(index));
        }
        let tag = self.others.get_mut(index)?.take()?;
        self.free.push(index);
        Some(Own::Other(tag))
    }
}

impl GpuRing {
    /// A ring by pinned host memory: `slots` pieces of at most `length` each.
    ///
    /// # Errors
    /// When there is no memory to pin, or the driver refuses.
    pub fn bounce(
        mut ring: Uring,
        gpu: &Arc<Gpu>,
        slots: u32,
        length: Bytes,
    ) -> Result<Self, CudaError> {
        let bounce = Bounce::new(&mut ring, gpu, slots, length)?;
        Ok(Self::new(ring, TransferWay::Bounce(bounce)))
    }

    /// A ring by cuFile, with `depth` requests at a time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn cufile(ring: Uring, session: &Arc<CuFileSession>, depth: u32) -> io::Result<Self> {
        Ok(Self::new(ring, TransferWay::CuFile(Workers::new(session, depth)?)))
    }

    fn new(ring: Uring, way: TransferWay) -> Self {
        let (regions, ended) = (Vec::new(), VecDeque::new());
        Self { ring, way, regions, tags: RingTags::default(), ended, failure: None }
    }

    /// Takes memory of a GPU; it is given back when the ring is dropped and nothing is in flight.
    ///
    /// # Errors
    /// When cuFile does not register it.
    pub fn attach_memory(&mut self, memory: Arc<DeviceMemory>) -> Result<RegionId, CuFileError> {
        if let TransferWay::CuFile(workers) = &mut self.way {
            workers.attach_memory(self.regions.len(), &memory)?;
        }
        Ok(self.place(RegionMemory::Gpu(memory)))
    }

    /// Takes a file; what cuFile says of it is kept.
    ///
    /// # Errors
    /// The system's answer, or cuFile's.
    pub fn attach(&mut self, file: File) -> Result<FileId, AttachError> {
        let below = self.ring.attach_file(file.try_clone()?)?;
        if let TransferWay::CuFile(workers) = &mut self.way {
            workers.attach_file(below, file)?;
        }
        Ok(below)
    }

    /// Gives a file back that nothing in flight is of.
    pub(crate) fn detach_file(&mut self, file: FileId) {
        if let TransferWay::CuFile(workers) = &mut self.way {
            workers.detach_file(file);
        }
        self.ring.detach_file(file);
    }

    /// Gives memory of a GPU back that nothing in flight is of.
    pub(crate) fn detach_memory(&mut self, region: RegionId) {
        let index = usize::try_from(region.0).unwrap_or(usize::MAX);
        if let TransferWay::CuFile(workers) = &mut self.way {
            workers.detach_memory(index);
        }
        if let Some(place @ RegionMemory::Gpu(_)) = self.regions.get_mut(index) {
            *place = RegionMemory::Gone;
        }
    }

    /// Words of the GPU or cuFile for the first operation that failed, beyond its errno.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Copies that the GPU has not finished.
    pub fn copies(&self) -> usize {
        match &self.way {
            TransferWay::Bounce(bounce) => bounce.copies(),
            TransferWay::CuFile(_) => 0,
        }
    }

    fn place(&mut self, place: RegionMemory) -> RegionId {
        self.regions.push(place);
        RegionId(u32::try_from(self.regions.len() - 1).unwrap_or(u32::MAX))
    }

    fn region(&self, region: RegionId) -> Option<&RegionMemory> {
        self.regions.get(usize::try_from(region.0).ok()?)
    }

    /// Queues an operation that touches no memory of a GPU.
    fn push_below(&mut self, operation: Operation, region: RegionId) -> Result<(), PushError> {
        let below = self.tags.other(operation.tag);
        let pushed = self.ring.push(Operation { region, tag: below, ..operation });
        if pushed.is_err() {
            self.tags.take(below);
        }
        pushed
    }

    /// Takes what ended, and lets pieces go on that wait for it.
    fn collect(&mut self) {
        while let Some(Completion { tag, result }) = self.ring.pop() {
            match (self.tags.take(tag), &mut self.way) {
                (Some(Own::Other(tag)), _) => self.ended.push_back(Completion { tag, result }),
                (Some(Own::Slot(slot)), TransferWay::Bounce(bounce)) => {
                    let failed = bounce.moved(slot, result, &mut self.ended);
                    self.failure = self.failure.take().or(failed);
                }
                _ => {}
            }
        }
        let failed = match &mut self.way {
            TransferWay::Bounce(bounce) => bounce.look(&mut self.ring, &mut self.ended),
            TransferWay::CuFile(workers) => workers.look(&mut self.ended),
        };
        self.failure = self.failure.take().or(failed);
    }

    /// Waits until the drive, or cuFile, has done something, or it is time to look at copies.
    fn nap(&mut self, left: Nanos) -> io::Result<()> {
        let nap = match &mut self.way {
            TransferWay::Bounce(bounce) if bounce.copies() == 0 => left,
            TransferWay::CuFile(workers) if workers.pending() == 0 => left,
            TransferWay::CuFile(workers) if self.ring.in_flight() == 0 => {
                let failed = workers.wait(left, &mut self.ended);
                self.failure = self.failure.take().or(failed);
                return Ok(());
            }
            _ => left.min(NAP),
        };
        self.ring.submit(1, nap)
    }
}

/// Reason why a file was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The system's answer.
    #[error(transparent)]
    System(#[from] io::Error),
    /// cuFile's.
    #[error(transparent)]
    CuFile(#[from] CuFileError),
}

impl Ring for GpuRing {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        self.attach(file).map_err(|error| match error {
            AttachError::System(error) => error,
            AttachError::CuFile(error) => io::Error::other(error),
        })
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        let below = self.ring.attach_region(region);
        self.place(RegionMemory::Ring(below))
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        match self.region(region)? {
            RegionMemory::Ring(below) => self.ring.region_length(*below),
            RegionMemory::Gpu(memory) => Some(memory.length().0),
            RegionMemory::Gone => None,
        }
    }

    fn space(&self) -> u32 {
        let own = match &self.way {
            TransferWay::Bounce(bounce) => bounce.space(),
            TransferWay::CuFile(workers) => workers.space(),
        };
        // A write goes to the ring below only when its copy is over.
        let below = self.ring.space().saturating_sub(match &self.way {
            TransferWay::Bounce(bounce) => bounce.writes_to_come(),
            TransferWay::CuFile(_) => 0,
        });
        own.min(below)
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        if !operation.action.has_memory() {
            return self.push_below(operation, RegionId(0));
        }
        let (region, length) = (operation.region, operation.length);
        let memory = match self.region(region) {
            None | Some(RegionMemory::Gone) => return Err(PushError::UnknownRegion { region }),
            Some(&RegionMemory::Ring(below)) => return self.push_below(operation, below),
            Some(RegionMemory::Gpu(memory)) => Arc::clone(memory),
        };
        let (offset, region_length) = (operation.region_offset, memory.length().0);
        if offset.checked_add(length.into()).is_none_or(|end| end > region_length) {
            return Err(PushError::OutOfRegion { offset, length, region_length });
        }
        if self.space() == 0 {
            return Err(PushError::Full { space: 0 });
        }
        let failed = match &mut self.way {
            TransferWay::Bounce(bounce) => {
                bounce.push(&mut self.ring, operation, memory, &mut self.ended)?
            }
            TransferWay::CuFile(workers) => workers.push(operation)?,
        };
        self.failure = self.failure.take().or(failed);
        Ok(())
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        let wait = usize::try_from(wait).unwrap_or(usize::MAX);
        // What the kernel does with a timeout, over several of its own waits.
        let start = Instant::now();
        self.ring.submit(0, Nanos(0))?;
        loop {
            self.collect();
            let left = timeout.since(start.elapsed().into());
            if self.ended.len() >= wait || left == Nanos(0) {
                return self.ring.submit(0, Nanos(0));
            }
            self.nap(left)?;
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn in_flight(&self) -> u32 {
        let own = match &self.way {
            TransferWay::Bounce(bounce) => bounce.copies(),
            TransferWay::CuFile(workers) => workers.pending(),
        };
        let own = u32::try_from(own + self.ended.len()).unwrap_or(u32::MAX);
        own.saturating_add(self.ring.in_flight())
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        match self.regions.get(usize::try_from(region.0).ok()?)? {
            RegionMemory::Ring(below) => self.ring.host_range(*below, range),
            RegionMemory::Gpu(_) | RegionMemory::Gone => None,
        }
    }
}
