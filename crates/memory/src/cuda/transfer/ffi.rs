//! The calls that take memory, each behind an owner of that memory.

use std::any::Any;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use peerlane_units::Bytes;

use super::{Copy, GpuTarget};
use crate::cuda::ffi::check;
use crate::cuda::stream::{CudaEvent, CudaStream, StreamMark, Timing, settles};
use crate::cuda::{CudaError, Gpu};
use crate::host;
use crate::region::{MapKeeper, Region, RegionKind};

/// `CU_MEMHOSTREGISTER_PORTABLE`: registered for every context.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_READ_ONLY`: the GPU only reads it, and this process may map it without a right to write.
const READ_ONLY: u32 = 8;

/// Memory of a GPU; freed when dropped. Only devices and the driver can use its address, so nothing
/// here makes a reference of it.
pub struct DeviceMemory {
    gpu: Arc<Gpu>,
    address: u64,
    length: Bytes,
}

impl DeviceMemory {
    pub(in crate::cuda) fn allocate(gpu: &Arc<Gpu>, length: Bytes) -> Result<Self, CudaError> {
        let bytes = usize::try_from(length.0).ok().filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(CudaError::Length { length })?;
        gpu.make_current()?;
        let mut address = 0;
        // SAFETY: a context is current, and one address is written to a local.
        let code = unsafe { (gpu.context.table().memory_allocate)(&raw mut address, bytes) };
        check("cuMemAlloc", code)?;
        Ok(Self { gpu: Arc::clone(gpu), address, length })
    }

    /// Size in bytes, as it was asked for.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// The GPU that it is of.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Takes bytes from plain host memory or a mapped file, which the driver reads by the CPU; when this
    /// returns, all are there. There is no deadline: the caller needs one.
    ///
    /// A mapped file that is truncated meanwhile ends the process (`SIGBUS`), as it ends any
    /// program that reads its map.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end, [`CudaError::NotPlain`] for other memory; else the
    /// driver's error.
    pub fn load(&self, offset: u64, host: (&Region, u64), length: u64) -> Result<(), CudaError> {
        let (region, region_offset) = host;
        let kinds = [RegionKind::Host, RegionKind::MappedFile];
        let (host, bytes) = plain(region, region_offset, length, &kinds)?;
        super::within(offset, length, self.length)?;
        self.gpu.make_current()?;
        let table = self.gpu.context.table();
        let device = self.address.wrapping_add(offset);
        // SAFETY: a context is current; both ranges lie within their memories by the checks above. The host's
        // is mapped readable until `region` is dropped, nobody holds it `&mut`, and pageable memory is not
        // read any more when this returns (CUDA Driver API, "API synchronization behavior").
        let code = unsafe { (table.copy_plain_to_device)(device, host, bytes) };
        check("cuMemcpyHtoD", code)?;
        // The last of what was read may still be on its way to the device.
        // SAFETY: a context is current, and no pointer is taken.
        check("cuCtxSynchronize", unsafe { (table.context_synchronise)() })
    }

    /// Gives bytes to plain host memory, which the driver writes by the CPU; when this returns, all are
    /// there. There is no deadline: the caller needs one.
    ///
    /// # Errors
    /// As [`DeviceMemory::load`].
    pub fn store(
        &self,
        offset: u64,
        host: (&mut Region, u64),
        length: u64,
    ) -> Result<(), CudaError> {
        let (region, region_offset) = host;
        let (host, bytes) = plain(region, region_offset, length, &[RegionKind::Host])?;
        super::within(offset, length, self.length)?;
        self.gpu.make_current()?;
        let table = self.gpu.context.table();
        let device = self.address.wrapping_add(offset);
        // SAFETY: a context is current; both ranges lie within their memories by the checks above. The host's
        // is mapped writable until `region` is dropped, `&mut` excludes any reference to it, and a copy to
        // pageable memory is over when this returns (CUDA Driver API, "API synchronization behavior").
        let code = unsafe { (table.copy_plain_to_host)(host, device, bytes) };
        check("cuMemcpyDtoH", code)
    }

    /// Its address for the driver, its kernels and cuFile.
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// The address of a part of host memory of one of these kinds, and its length.
fn plain(
    region: &Region,
    offset: u64,
    length: u64,
    kinds: &[RegionKind],
) -> Result<(*mut c_void, usize), CudaError> {
    let kind = region.kind();
    if !kinds.contains(&kind) {
        return Err(CudaError::NotPlain { kind });
    }
    super::within(offset, length, region.length())?;
    let unaddressable = |_| CudaError::Length { length: Bytes(length) };
    let start = usize::try_from(offset).map_err(unaddressable)?;
    let bytes = usize::try_from(length).map_err(unaddressable)?;
    Ok((region.address().as_ptr().wrapping_byte_add(start), bytes))
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.gpu.make_current().is_ok() {
            // SAFETY: allocated by `allocate` and freed once, here. A copy or a cuFile registration under
            // way holds an `Arc` of it, so that there is none now.
            let _ = unsafe { (self.gpu.context.table().memory_free)(self.address) };
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.gpu.facts().address;
        f.debug_struct("DeviceMemory").field("gpu", &address).field("length", &self.length).finish()
    }
}

/// Host memory that is registered with a GPU; unregistered and released when dropped.
pub struct Pinned {
    gpu: Arc<Gpu>,
    /// `None` only while it is dropped.
    memory: Option<RegisteredMemory>,
    length: Bytes,
}

/// The memory behind a registration.
enum RegisteredMemory {
    /// Our own.
    Own(Region),
    /// The page cache of a file from an offset on.
    File(Arc<Region>, usize),
}

// SAFETY: the memory is owned, and registering is not tied to a thread.
unsafe impl Send for Pinned {}
// SAFETY: `&Pinned` gives an address and a length; bytes are only seen through `&mut`.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(in crate::cuda) fn register(gpu: &Arc<Gpu>, length: Bytes) -> Result<Self, CudaError> {
        Self::new(gpu, RegisteredMemory::Own(host::allocate(length)?), length, PORTABLE)
    }

    pub(in crate::cuda) fn of_file(
        gpu: &Arc<Gpu>,
        mapped: &Arc<Region>,
        range: Range<u64>,
    ) -> Result<Self, CudaError> {
        let kind = mapped.kind();
        if kind != RegionKind::MappedFile {
            return Err(CudaError::NotPlain { kind });
        }
        let length = range.end.saturating_sub(range.start);
        super::within(range.start, length, mapped.length())?;
        let length = Bytes(length);
        let offset = usize::try_from(range.start).map_err(|_| CudaError::Length { length })?;
        let memory = RegisteredMemory::File(Arc::clone(mapped), offset);
        Self::new(gpu, memory, length, PORTABLE | READ_ONLY)
    }

    fn new(
        gpu: &Arc<Gpu>,
        memory: RegisteredMemory,
        length: Bytes,
        flags: u32,
    ) -> Result<Self, CudaError> {
        let bytes = usize::try_from(length.0).map_err(|_| CudaError::Length { length })?;
        gpu.make_current()?;
        let address = memory.address().as_ptr();
        // SAFETY: a context is current; the range is mapped, and stays so until it is unregistered: `drop`
        // does that first, and keeps the memory for ever where that fails. The driver pins the pages in the kernel, where
        // pages that a file has lost are an error and no signal (`get_user_pages`, Linux 6.18: `-EFAULT`).
        let code = unsafe { (gpu.context.table().host_register)(address, bytes, flags) };
        check("cuMemHostRegister", code)?;
        Ok(Self { gpu: Arc::clone(gpu), memory: Some(memory), length })
    }

    /// Size in bytes, as it was asked for.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// The memory for a ring, which never sees its bytes.
    pub fn region(self: &Arc<Self>) -> Region {
        Region::kept(Arc::clone(self) as Arc<dyn MapKeeper>, self.length, RegionKind::Pinned)
    }

    /// The bytes; `None` while another holds the memory: a ring, or a copy that is not known to be
    /// over.
    pub fn bytes_mut(this: &mut Arc<Self>) -> Option<&mut [u8]> {
        match Arc::get_mut(this)?.memory.as_mut()? {
            RegisteredMemory::Own(region) => region.host_bytes_mut(),
            RegisteredMemory::File(..) => None,
        }
    }

    pub(in crate::cuda) fn at(&self, offset: u64) -> *mut c_void {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.address().as_ptr().wrapping_byte_add(offset)
    }
}

impl MapKeeper for Pinned {
    fn address(&self) -> ptr::NonNull<c_void> {
        self.memory.as_ref().map_or(ptr::NonNull::dangling(), RegisteredMemory::address)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let address = self.address().as_ptr();
        // SAFETY: registered by `register` and unregistered once, here. A copy under way holds an `Arc`, so
        // that there is none now.
        let unregister = || unsafe { (self.gpu.context.table().host_unregister)(address) };
        if self.gpu.make_current().is_err() || unregister() != 0 {
            // The driver may still use it.
            mem::forget(self.memory.take());
        }
    }
}

impl RegisteredMemory {
    fn address(&self) -> ptr::NonNull<c_void> {
        match self {
            Self::Own(region) => region.address(),
            Self::File(region, offset) => {
                let address = region.address();
                ptr::NonNull::new(address.as_ptr().wrapping_byte_add(*offset)).unwrap_or(address)
            }
        }
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.gpu.facts().address;
        f.debug_struct("Pinned").field("gpu", &address).field("length", &self.length).finish()
    }
}

/// A queue of copies by the copy engine, done in the order of their calls.
pub struct CopyQueue {
    stream: CudaStream,
    in_flight: VecDeque<PendingCopy>,
}

/// A copy under way, and the memory that it holds.
struct PendingCopy {
    event: CudaEvent,
    tag: u64,
    _pinned: Arc<Pinned>,
    _memory: GpuTarget,
}

impl CopyQueue {
    pub(in crate::cuda) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        Ok(Self { stream: CudaStream::new(gpu)?, in_flight: VecDeque::new() })
    }

    /// Copies that were begun and are not known to be over.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Begins a copy; both ends are held until [`CopyQueue::finished`] has named its tag.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else the driver's error.
    pub fn begin(&mut self, copy: &Copy<'_>) -> Result<(), CudaError> {
        copy.check()?;
        let event = self.stream.event(Timing::Off)?;
        let memory = GpuTarget::Own(Arc::clone(copy.memory));
        // SAFETY: both memories are held until the event has come, or for ever.
        let asked = unsafe { self.stream.copy(copy) };
        self.keep(asked, event, copy.tag, (Arc::clone(copy.pinned), memory))
    }

    /// Begins a copy to memory of the GPU, whoever owns it; both ends are held until
    /// [`CopyQueue::finished`] has named the tag.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else the driver's error.
    pub fn send(
        &mut self,
        (pinned, pinned_offset): (&Arc<Pinned>, u64),
        (memory, memory_offset): (&GpuTarget, u64),
        length: u64,
        tag: u64,
    ) -> Result<(), CudaError> {
        super::within(pinned_offset, length, pinned.length())?;
        super::within(memory_offset, length, memory.length())?;
        let event = self.stream.event(Timing::Off)?;
        let (host, device) = (pinned.at(pinned_offset), memory.address() + memory_offset);
        // SAFETY: both ranges lie within their memories by the checks above, and both are held until the event has come,
        // or for ever.
        let asked = unsafe { self.stream.load((device, host), length) };
        self.keep(asked, event, tag, (Arc::clone(pinned), memory.clone()))
    }

    /// Lets copies begun from here on wait for a mark in another stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn wait_for(&self, mark: &StreamMark) -> Result<(), CudaError> {
        self.stream.wait_for(mark)
    }

    /// Keeps both ends of a copy until its event has come.
    fn keep(
        &mut self,
        asked: Result<(), CudaError>,
        event: CudaEvent,
        tag: u64,
        (_pinned, _memory): (Arc<Pinned>, GpuTarget),
    ) -> Result<(), CudaError> {
        if let Err(error) = asked {
            self.stream.give_back(event);
            return Err(error);
        }
        if let Err(error) = self.stream.record(&event) {
            // Its end can no longer be known.
            mem::forget((_pinned, _memory));
            return Err(error);
        }
        self.in_flight.push_back(PendingCopy { event, tag, _pinned, _memory });
        Ok(())
    }

    /// The tag of the oldest copy, once it is over; `None` otherwise.
    ///
    /// # Errors
    /// The copy's error; the copy and all that it holds then count as in use for ever.
    pub fn finished(&mut self) -> Result<Option<u64>, CudaError> {
        let Some(oldest) = self.in_flight.front() else { return Ok(None) };
        if !self.stream.has_come(&oldest.event)? {
            return Ok(None);
        }
        let done = self.in_flight.pop_front();
        Ok(done.map(|done| {
            self.stream.give_back(done.event);
            done.tag
        }))
    }
}

impl Drop for CopyQueue {
    fn drop(&mut self) {
        let all_finished = || {
            while self.finished()?.is_some() {}
            Ok(self.in_flight.is_empty())
        };
        if !settles(all_finished) {
            self.stream.abandon(mem::take(&mut self.in_flight));
        }
    }
}

impl fmt::Debug for CopyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}
