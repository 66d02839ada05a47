//! Kernels of a card that work on one chunk of a copy, in place, in the card's memory.
//!
//! A kernel of an image has three arguments, as in `void NAME(unsigned char *chunk, uint64_t bytes, uint64_t offset)`:
//! the chunk by an AXI master port, and two scalars of 64 bits. It runs once for each chunk. One run object serves each
//! chunk in flight; XRT spreads runs over the compute units of that name.
//!
//! Argument 0 is connected to one memory group, and nothing of XRT's C interface compares it with
//! the buffer's. A kernel that is started on another group uses addresses that its port may not
//! reach, and hangs or writes elsewhere. So the group is compared when the kernel is opened for a
//! buffer ([`CardBuffer::kernel`]) and at each start, and [`Card::allocate_for`] takes memory of
//! the kernel's own group.
//!
//! A kernel that is linked to several groups is known by the last of them (`xrtKernelArgGroupId`). Its other groups are
//! refused here, too, though it reaches them.
//!
//! A run cannot be cancelled: the C interface has no call for it. Runs that do not end are left open with their memory.
//! XRT may then end the process by `abort` when it exits.
//!
//! None of this has run on a card: `docs/fpga.md`.

mod error;
#[allow(unsafe_code)]
pub(super) mod ffi;

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_units::Bytes;

use super::ffi::{Buffer, XrtDevice};
use super::{Card, XrtRefusal};
use crate::region::Region;
pub use error::CardKernelError;
use ffi::{FailedCall, KernelRun, OpenKernel, SubBuffer};

/// Parts of buffers that are kept for later chunks; more than a copy has slots.
const MAX_PARTS: usize = 1024;
/// Longest wait of a dropped kernel for its chunks in flight.
const DROP_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks of a dropped kernel.
const DROP_NAP: Duration = Duration::from_micros(100);
/// Bits of a group number that name the bank; those above name a slot of the image (`xrt_mem.h`).
const BANK_MASK: u32 = 0xffff;

/// A hold on a card's buffer, whose map a [`Region`] is.
#[derive(Debug, Clone)]
pub struct CardBuffer {
    buffer: Arc<Buffer>,
    length: Bytes,
}

impl Region {
    /// A hold on the buffer of a card, for its kernels; `None` for other memory. The buffer is freed when the region and
    /// all holds are gone.
    pub fn card_buffer(&self) -> Option<CardBuffer> {
        self.keeper().map(|buffer| CardBuffer { buffer, length: self.length() })
    }
}

impl CardBuffer {
    /// Size in bytes, as the region has it.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// The memory group that it was allocated in.
    pub fn group(&self) -> u32 {
        self.buffer.group() & BANK_MASK
    }

    /// Opens a kernel of the image that is on the buffer's card.
    ///
    /// # Errors
    /// As [`Card::kernel`]; [`CardKernelError::OtherGroup`] for a kernel that works on another memory group.
    pub fn kernel(&self, name: &str) -> Result<CardKernel, XrtRefusal> {
        let kernel = CardKernel::open(self.buffer.device(), name)?;
        kernel.check(self)?;
        Ok(kernel)
    }
}

/// A kernel of a card, and its chunks in flight.
///
/// A chunk in flight holds its buffer. Chunks in flight when this is dropped are waited for shortly, and left to the card
/// with their buffer where they do not end.
#[derive(Debug)]
pub struct CardKernel {
    /// Oldest first.
    in_flight: VecDeque<(u64, KernelRun)>,
    idle: Vec<KernelRun>,
    /// Runs without a known end.
    stuck: Vec<KernelRun>,
    /// Oldest first.
    parts: VecDeque<Arc<SubBuffer>>,
    kernel: Arc<OpenKernel>,
    group: u32,
    name: String,
}

impl Card {
    /// Opens a kernel of the image that is on the card, for shared use with other programs. The name is XRT's: `NAME`,
    /// or `NAME:{INSTANCE,...}`.
    ///
    /// # Errors
    /// [`XrtRefusal::Function`] for a library without kernels, [`XrtRefusal::Kernel`] by the failed
    /// condition.
    pub fn kernel(&self, name: &str) -> Result<CardKernel, XrtRefusal> {
        CardKernel::open(&self.device, name)
    }

    /// Allocates memory of the card that a kernel reaches: in the memory group of its argument 0.
    ///
    /// # Errors
    /// As [`Card::allocate`].
    pub fn allocate_for(&self, kernel: &CardKernel, length: Bytes) -> Result<Region, XrtRefusal> {
        if let Some((path, groups)) = &self.image {
            let is_small = |group: &super::MemoryBank| group.size < length;
            if groups.iter().find(|group| group.index == kernel.group()).is_some_and(is_small) {
                return Err(XrtRefusal::NoGroup { path: path.clone(), length });
            }
        }
        self.allocate_in(kernel.group, length)
    }
}

/// The state of a run, as far as it matters here.
enum RunState {
    AtWork,
    Completed,
    Failed,
    /// An error after which the kernel may still be at work.
    Lost,
}

impl RunState {
    /// Sorts `enum ert_cmd_state` (`ert.h`).
    fn from_ert(state: u32) -> Self {
        match state {
            // NEW, QUEUED, RUNNING and SUBMITTED.
            1 | 2 | 3 | 7 => Self::AtWork,
            4 => Self::Completed,
            // ERROR, TIMEOUT, SKERROR and SKCRASHED.
            5 | 8 | 10 | 11 => Self::Failed,
            // ABORT, by which XRT also answers where it cannot tell, and NORESPONSE.
            _ => Self::Lost,
        }
    }
}

impl CardKernel {
    fn open(device: &Arc<XrtDevice>, name: &str) -> Result<Self, XrtRefusal> {
        let table = device.kernels()?;
        let (kernel, address) = (|| name.to_owned(), || device.address().to_owned());
        let failed =
            |source| CardKernelError::Open { kernel: kernel(), address: address(), source };
        let image = OpenKernel::image_id(device, table).map_err(failed)?;
        if image == [0; 16] {
            let (kernel, address) = (kernel(), address());
            return Err(CardKernelError::NoImage { kernel, address }.into());
        }
        let text = CString::new(name).map_err(|error| failed(error.into()))?;
        let opened = OpenKernel::open(device, table, &image, &text).map_err(failed)?;
        let group = opened.group(0).map_err(failed)?;
        if group & BANK_MASK == BANK_MASK {
            return Err(CardKernelError::NoMemory { kernel: kernel() }.into());
        }
        Ok(Self {
            in_flight: VecDeque::new(),
            idle: Vec::new(),
            stuck: Vec::new(),
            parts: VecDeque::new(),
            kernel: Arc::new(opened),
            group,
            name: kernel(),
        })
    }

    /// The memory group that argument 0 is connected to.
    pub fn group(&self) -> u32 {
        self.group & BANK_MASK
    }

    /// Refuses a buffer that the kernel does not reach.
    ///
    /// # Errors
    /// [`CardKernelError::OtherCard`] and [`CardKernelError::OtherGroup`].
    pub fn check(&self, memory: &CardBuffer) -> Result<(), CardKernelError> {
        let (own, other) = (self.kernel.device(), memory.buffer.device());
        let kernel = || self.name.clone();
        if !Arc::ptr_eq(own, other) {
            let (address, buffer_address) = (own.address().to_owned(), other.address().to_owned());
            return Err(CardKernelError::OtherCard { kernel: kernel(), address, buffer_address });
        }
        let (kernel_group, buffer_group) = (self.group(), memory.group());
        if kernel_group != buffer_group {
            return Err(CardKernelError::OtherGroup {
                kernel: kernel(),
                kernel_group,
                buffer_group,
            });
        }
        Ok(())
    }

    /// Starts the kernel on a range of a buffer, by a run of its own. `offset` is the chunk's place in the copy; `tag`
    /// comes back from [`CardKernel::finished`].
    ///
    /// # Errors
    /// [`CardKernelError::Range`] for an empty chunk and beyond the buffer, and as [`CardKernel::check`]; else the call
    /// that failed. The chunk is not in flight then.
    pub fn start(
        &mut self,
        tag: u64,
        memory: &CardBuffer,
        memory_offset: u64,
        bytes: u64,
        offset: u64,
    ) -> Result<(), CardKernelError> {
        self.check(memory)?;
        let part = self.part(memory, memory_offset, bytes)?;
        let mut run = match self.idle.pop() {
            Some(run) => run,
            None => KernelRun::open(&self.kernel).map_err(|failed| self.failed(failed))?,
        };
        run.start(&part, bytes, offset).map_err(|failed| self.failed(failed))?;
        self.in_flight.push_back((tag, run));
        Ok(())
    }

    /// The tag of a chunk that is over, and how it ended; `None` where none is. Never blocks.
    pub fn finished(&mut self) -> Option<(u64, Result<(), CardKernelError>)> {
        for at in 0..self.in_flight.len() {
            let state = self.in_flight[at].1.state();
            let sorted = RunState::from_ert(state);
            if matches!(sorted, RunState::AtWork) {
                continue;
            }
            let (tag, mut run) = self.in_flight.remove(at)?;
            if matches!(sorted, RunState::Lost) {
                self.stuck.push(run);
            } else {
                run.ended();
                self.idle.push(run);
            }
            let ended = || CardKernelError::Ended { kernel: self.name.clone(), state };
            let is_good = matches!(sorted, RunState::Completed);
            return Some((tag, if is_good { Ok(()) } else { Err(ended()) }));
        }
        None
    }

    /// Chunks that were started and are not known to be over.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn failed(&self, failed: FailedCall) -> CardKernelError {
        let FailedCall { call, source } = failed;
        CardKernelError::Call { kernel: self.name.clone(), call, source }
    }

    /// A part of the buffer that begins there: a kept one, or a new one.
    fn part(
        &mut self,
        memory: &CardBuffer,
        offset: u64,
        bytes: u64,
    ) -> Result<Arc<SubBuffer>, CardKernelError> {
        let size = memory.length;
        let no_range =
            || CardKernelError::Range { offset: Bytes(offset), length: Bytes(bytes), size };
        if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > size.0) {
            return Err(no_range());
        }
        let (Ok(start), Ok(length)) = (usize::try_from(offset), usize::try_from(bytes)) else {
            return Err(no_range());
        };
        let buffer = &memory.buffer;
        if let Some(part) = self.parts.iter().find(|part| part.serves(buffer, start, length)) {
            return Ok(Arc::clone(part));
        }
        // A shorter one at the same place is no longer of use.
        self.parts.retain(|part| !part.begins_at(buffer, start));
        let no_part = |source: io::Error| self.failed(FailedCall { call: "xrtBOSubAlloc", source });
        let table = self.kernel.device().kernels().map_err(|_| no_range())?;
        let part = Arc::new(SubBuffer::allocate(table, buffer, start, length).map_err(no_part)?);
        if self.parts.len() >= MAX_PARTS {
            self.parts.pop_front();
        }
        self.parts.push_back(Arc::clone(&part));
        Ok(part)
    }
}

impl Drop for CardKernel {
    fn drop(&mut self) {
        let until = Instant::now() + DROP_WAIT;
        while !self.in_flight.is_empty() {
            if self.finished().is_some() {
                continue;
            }
            if Instant::now() >= until {
                break;
            }
            thread::sleep(DROP_NAP);
        }
    }
}
