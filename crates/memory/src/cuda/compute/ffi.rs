//! The calls that load and run code, each behind an owner of the memory and code in use.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;

use peerlane_units::Nanos;

use super::{Argument, LaunchGrid};
use crate::cuda::ffi::check;
use crate::cuda::stream::{CudaEvent, CudaStream, Timing, settles};
use crate::cuda::transfer::within;
use crate::cuda::{Copy, CudaError, DeviceMemory, Gpu, PeerAccess};
use crate::nvrtc::Image;

/// Code that is loaded; unloaded when dropped.
pub struct GpuModule {
    gpu: Arc<Gpu>,
    handle: *mut c_void,
}

// SAFETY: the driver API may be called from any thread; the handle is only handed back to it.
unsafe impl Send for GpuModule {}
// SAFETY: as above; looking up a function changes nothing.
unsafe impl Sync for GpuModule {}

impl GpuModule {
    pub(in crate::cuda) fn load(gpu: &Arc<Gpu>, image: &Image) -> Result<Self, CudaError> {
        gpu.make_current()?;
        let mut handle = ptr::null_mut();
        let load = gpu.context.table().module_load;
        // SAFETY: a context is current; an `Image` is what NVRTC made, whole and with a zero byte behind it, and is
        // read during the call; one handle is written to a local.
        let code = unsafe { load(&raw mut handle, image.bytes().as_ptr().cast()) };
        check("cuModuleLoadData", code)?;
        Ok(Self { gpu: Arc::clone(gpu), handle })
    }

    /// A kernel by its name.
    ///
    /// # Errors
    /// The driver's error: there is no kernel of that name.
    pub fn kernel(self: &Arc<Self>, name: &CStr) -> Result<CudaKernel, CudaError> {
        self.gpu.make_current()?;
        let mut function = ptr::null_mut();
        let find = self.gpu.context.table().module_function;
        // SAFETY: the module is loaded in the current context; the name ends with a zero byte; one handle is written
        // to a local.
        let code = unsafe { find(&raw mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        Ok(CudaKernel { function, module: Arc::clone(self) })
    }
}

impl Drop for GpuModule {
    fn drop(&mut self) {
        if self.gpu.make_current().is_ok() {
            // SAFETY: loaded by `load` and unloaded once, here; a launch under way holds an `Arc` of it.
            let _ = unsafe { (self.gpu.context.table().module_unload)(self.handle) };
        }
    }
}

/// A function of a module that a GPU runs.
#[derive(Clone)]
pub struct CudaKernel {
    function: *mut c_void,
    module: Arc<GpuModule>,
}

// SAFETY: as for its module, which it holds.
unsafe impl Send for CudaKernel {}
// SAFETY: as above.
unsafe impl Sync for CudaKernel {}

/// A queue of kernels and copies, done in the order of their calls.
pub struct KernelQueue {
    stream: CudaStream,
    /// The mark behind the last work; `None` unless the queue is closed.
    end: Option<CudaEvent>,
    stamps: Vec<CudaEvent>,
    /// Memory and modules that the GPU may still use.
    held: Vec<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the driver API may be called from any thread, and a queue is used by one at a time.
unsafe impl Send for KernelQueue {}

impl KernelQueue {
    pub(in crate::cuda) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        let (stamps, held) = (Vec::new(), Vec::new());
        Ok(Self { stream: CudaStream::new(gpu)?, end: None, stamps, held })
    }

    /// Asks for a copy; its tag is not used.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else the driver's error.
    pub fn copy(&mut self, copy: &Copy<'_>) -> Result<(), CudaError> {
        copy.check()?;
        self.begin()?;
        let (pinned, memory) = (Arc::clone(copy.pinned), Arc::clone(copy.memory));
        self.held.extend([pinned as Arc<dyn Any + Send + Sync>, memory]);
        // SAFETY: both memories are held until all is over, or for ever.
        unsafe { self.stream.copy(copy) }
    }

    /// Asks for a copy from memory of this queue's GPU to memory of another one: straight where the one has access to the
    /// other, else by the driver through host memory.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end, [`CudaError::OtherGpu`] for a source elsewhere; else the driver's error.
    pub fn copy_between(
        &mut self,
        from: &Arc<DeviceMemory>,
        to: &Arc<DeviceMemory>,
        length: u64,
    ) -> Result<(), CudaError> {
        within(0, length, from.length())?;
        within(0, length, to.length())?;
        if !from.gpu().is_same(self.gpu()) {
            let (kernel, memory) = (self.gpu().facts().address, from.gpu().facts().address);
            return Err(CudaError::OtherGpu { kernel, memory });
        }
        self.begin()?;
        self.held.extend([Arc::clone(from) as Arc<dyn Any + Send + Sync>, Arc::clone(to) as _]);
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let copy = self.gpu().context.table().copy_between;
        let contexts = [to.gpu().context.handle(), from.gpu().context.handle()];
        let (to, from) = (to.address(), from.address());
        // SAFETY: a context is current; both ranges lie within their memories, of the contexts named, and are held until
        // all is over.
        let code = unsafe { copy(to, contexts[0], from, contexts[1], bytes, self.stream.handle()) };
        check("cuMemcpyPeerAsync", code)
    }

    /// Asks for memory to be set to a byte.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond its end; else the driver's error.
    pub fn fill(
        &mut self,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        byte: u8,
    ) -> Result<(), CudaError> {
        within(offset, length, memory.length())?;
        self.begin()?;
        self.held.push(Arc::<DeviceMemory>::clone(memory));
        let (at, length) =
            (memory.address() + offset, usize::try_from(length).unwrap_or(usize::MAX));
        let (fill, stream) = (self.gpu().context.table().memory_fill, self.stream.handle());
        // SAFETY: a context is current; the range lies within the memory, which is held until all is over.
        let code = unsafe { fill(at, byte, length, stream) };
        check("cuMemsetD8Async", code)
    }

    /// Asks for a kernel to run.
    ///
    /// A kernel runs with the rights of this process on the GPU, and nothing confines it to its arguments. One of this
    /// program is trusted as any of its code is. One that a user names is a program that the user runs: a wrong one
    /// corrupts memory of the context, pinned host memory included.
    ///
    /// The caller gives as many arguments as the kernel has parameters, each of 64 bits. For kernels of this program
    /// their source shows it; for those of a user the compiler checks it ([`ChunkKernel::compile`]).
    ///
    /// # Errors
    /// [`CudaError::Range`] for a range beyond its memory; else the driver's error. A fault of the
    /// kernel itself shows in later calls.
    ///
    /// [`ChunkKernel::compile`]: crate::cuda::ChunkKernel::compile
    pub fn launch(
        &mut self,
        kernel: &CudaKernel,
        grid: LaunchGrid,
        arguments: &[Argument<'_>],
    ) -> Result<(), CudaError> {
        for argument in arguments {
            if let Argument::Range { memory, offset, length } = argument {
                within(*offset, *length, memory.length())?;
            }
            if let Argument::Peer { memory, access } = argument {
                access.check(self.gpu(), memory)?;
            }
        }
        self.begin()?;
        let mut words: Vec<u64> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            words.push(match argument {
                Argument::Memory(memory) => {
                    self.held.push(Arc::<DeviceMemory>::clone(memory));
                    memory.address()
                }
                Argument::Range { memory, offset, .. } => {
                    self.held.push(Arc::<DeviceMemory>::clone(memory));
                    memory.address() + offset
                }
                Argument::Peer { memory, access } => {
                    self.held.push(Arc::<PeerAccess>::clone(access));
                    self.held.push(Arc::<DeviceMemory>::clone(memory));
                    memory.address()
                }
                Argument::Whole(whole) => *whole,
                Argument::Signed(signed) => u64::from_ne_bytes(signed.to_ne_bytes()),
            });
        }
        self.held.push(Arc::<GpuModule>::clone(&kernel.module));
        let mut places: Vec<*mut c_void> =
            words.iter_mut().map(|word| ptr::from_mut(word).cast()).collect();
        let [x, y, z] = grid.blocks;
        let (launch, stream) = (self.gpu().context.table().launch, self.stream.handle());
        // SAFETY: a context is current; the function is of a module that is held; the driver reads as many words as the
        // function has parameters, all of 64 bits, during the call, and the caller gave as many. Addresses among them
        // are of memory of the GPU, ranges by the check above, and held until all is over. The kernel's own loads and
        // stores are its author's matter, as the documentation of this function says.
        let code = unsafe {
            launch(
                kernel.function,
                x,
                y,
                z,
                grid.threads,
                1,
                1,
                0,
                stream,
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", code)
    }

    /// Records the time at which all work so far is over, for [`KernelQueue::times`].
    ///
    /// # Errors
    /// The driver's error.
    pub fn stamp(&mut self) -> Result<(), CudaError> {
        self.begin()?;
        let stamp = self.stream.mark(Timing::On)?;
        self.stamps.push(stamp);
        Ok(())
    }

    /// Marks the end of all work so far, for [`KernelQueue::is_over`].
    ///
    /// # Errors
    /// The driver's error.
    pub fn close(&mut self) -> Result<(), CudaError> {
        self.begin()?;
        self.end = Some(self.stream.mark(Timing::Off)?);
        Ok(())
    }

    /// Returns whether all work asked for before [`KernelQueue::close`] is over, and then lets go of its
    /// memory.
    ///
    /// # Errors
    /// The driver's error; the queue and all that it holds then count as in use for ever.
    pub fn is_over(&mut self) -> Result<bool, CudaError> {
        let Some(end) = &self.end else { return Ok(self.held.is_empty()) };
        if !self.stream.has_come(end)? {
            return Ok(false);
        }
        self.forget_end();
        self.held.clear();
        Ok(true)
    }

    /// Time between each two stamps; call it when all work is over, and only once.
    ///
    /// # Errors
    /// The driver's error.
    pub fn times(&mut self) -> Result<Vec<Nanos>, CudaError> {
        let stamps = mem::take(&mut self.stamps);
        let pairs = stamps.windows(2).map(|pair| self.stream.between(&pair[0], &pair[1]));
        let times = pairs.collect::<Result<Vec<Nanos>, CudaError>>();
        stamps.into_iter().for_each(|stamp| self.stream.give_back(stamp));
        times
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.stream.gpu()
    }

    /// Prepares for new work: the mark of an earlier end does not cover it.
    fn begin(&mut self) -> Result<(), CudaError> {
        self.forget_end();
        self.gpu().make_current()
    }

    /// Returns whether no work is under way; marks the end first if the queue was not closed.
    pub(in crate::cuda) fn is_settled(&mut self) -> Result<bool, CudaError> {
        if self.end.is_none() && !self.held.is_empty() {
            self.close()?;
        }
        self.is_over()
    }

    /// Leaks the queue, without waiting, and all that the GPU may still work on.
    pub(in crate::cuda) fn leak(mut self) {
        self.end = None;
        self.stream.abandon(mem::take(&mut self.held));
    }

    fn forget_end(&mut self) {
        if let Some(end) = self.end.take() {
            self.stream.give_back(end);
        }
    }

    /// Returns whether the queue is idle, after a short wait for its end.
    fn settle(&mut self) -> bool {
        if self.held.is_empty() && self.end.is_none() {
            return true;
        }
        (self.end.is_some() || self.close().is_ok()) && settles(|| self.is_over())
    }
}

impl Drop for KernelQueue {
    fn drop(&mut self) {
        if !self.settle() {
            self.stream.abandon(mem::take(&mut self.held));
        }
        mem::take(&mut self.stamps).into_iter().for_each(|stamp| self.stream.give_back(stamp));
    }
}

impl fmt::Debug for GpuModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("gpu", &self.gpu.facts().address).finish_non_exhaustive()
    }
}

impl fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("module", &self.module).finish_non_exhaustive()
    }
}

impl fmt::Debug for KernelQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
