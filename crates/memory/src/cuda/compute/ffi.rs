//! The calls that load and run code, each behind an owner of what the GPU works on.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_units::{Bytes, Nanos};

use super::{Argument, Grid};
use crate::cuda::ffi::check;
use crate::cuda::transfer::ffi::{NO_TIMING, NON_BLOCKING, NOT_READY};
use crate::cuda::{Copy, CudaError, DeviceMemory, Direction, Gpu};
use crate::nvrtc::Image;

/// `CU_EVENT_DEFAULT`: events that can say when they came.
const TIMING: u32 = 0;
/// How long a dropped queue waits for the GPU before it leaks what that still works on.
const DROP_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks of a dropped queue.
const DROP_NAP: Duration = Duration::from_micros(100);

/// Code that is loaded; unloaded when dropped.
pub struct Module {
    gpu: Arc<Gpu>,
    handle: *mut c_void,
}

// SAFETY: the driver API may be called from any thread; the handle is only handed back to it.
unsafe impl Send for Module {}
// SAFETY: as above; looking up a function changes nothing.
unsafe impl Sync for Module {}

impl Module {
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
    /// What the driver answered: there is none of that name.
    pub fn kernel(self: &Arc<Self>, name: &CStr) -> Result<Kernel, CudaError> {
        self.gpu.make_current()?;
        let mut function = ptr::null_mut();
        let find = self.gpu.context.table().module_function;
        // SAFETY: the module is loaded in the current context; the name ends with a zero byte; one handle is written
        // to a local.
        let code = unsafe { find(&raw mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        Ok(Kernel { function, module: Arc::clone(self) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.gpu.make_current().is_ok() {
            // SAFETY: loaded by `load` and unloaded once, here; a launch under way holds an `Arc` of it.
            let _ = unsafe { (self.gpu.context.table().module_unload)(self.handle) };
        }
    }
}

/// A function of a module that a GPU runs.
#[derive(Clone)]
pub struct Kernel {
    function: *mut c_void,
    module: Arc<Module>,
}

// SAFETY: as for its module, which it holds.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// A queue of kernels and copies, done in the order in which they were asked for.
pub struct Queue {
    gpu: Arc<Gpu>,
    stream: *mut c_void,
    /// Comes when all that was asked for is over; `None` while nobody asked for that.
    end: Option<*mut c_void>,
    stamps: Vec<*mut c_void>,
    idle_ends: Vec<*mut c_void>,
    idle_stamps: Vec<*mut c_void>,
    /// What the GPU must not lose.
    held: Vec<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the driver API may be called from any thread, and a queue is used by one at a time.
unsafe impl Send for Queue {}

impl Queue {
    pub(in crate::cuda) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        gpu.make_current()?;
        let mut stream = ptr::null_mut();
        // SAFETY: a context is current, and one handle is written to a local.
        let code = unsafe { (gpu.context.table().stream_create)(&raw mut stream, NON_BLOCKING) };
        check("cuStreamCreate", code)?;
        Ok(Self {
            gpu: Arc::clone(gpu),
            stream,
            end: None,
            stamps: Vec::new(),
            idle_ends: Vec::new(),
            idle_stamps: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Asks for a copy; its tag is not used.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else what the driver answered.
    pub fn copy(&mut self, copy: &Copy<'_>) -> Result<(), CudaError> {
        copy.check()?;
        let length = usize::try_from(copy.length).unwrap_or(usize::MAX);
        self.begin()?;
        let host = copy.pinned.at(copy.pinned_offset);
        let device = copy.memory.address().wrapping_add(copy.memory_offset);
        let (table, stream) = (self.gpu.context.table(), self.stream);
        let (pinned, memory) = (Arc::clone(copy.pinned), Arc::clone(copy.memory));
        self.held.extend([pinned as Arc<dyn Any + Send + Sync>, memory]);
        match copy.direction {
            Direction::ToDevice => {
                // SAFETY: a context is current; both ranges lie within their memories by `check`, and those are held
                // until all is over, or for ever.
                let code = unsafe { (table.copy_to_device)(device, host, length, stream) };
                check("cuMemcpyHtoDAsync", code)
            }
            Direction::ToHost => {
                // SAFETY: as above; no reference to the host bytes is given out while an `Arc` is held here.
                let code = unsafe { (table.copy_to_host)(host, device, length, stream) };
                check("cuMemcpyDtoHAsync", code)
            }
        }
    }

    /// Asks for memory to be set to a byte.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond its end; else what the driver answered.
    pub fn fill(
        &mut self,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        byte: u8,
    ) -> Result<(), CudaError> {
        let size = memory.length();
        if offset.checked_add(length).is_none_or(|end| end > size.0) {
            return Err(CudaError::Range { offset: Bytes(offset), length: Bytes(length), size });
        }
        self.begin()?;
        self.held.push(Arc::<DeviceMemory>::clone(memory));
        let (at, length) =
            (memory.address() + offset, usize::try_from(length).unwrap_or(usize::MAX));
        // SAFETY: a context is current; the range lies within the memory, which is held until all is over.
        let code = unsafe { (self.gpu.context.table().memory_fill)(at, byte, length, self.stream) };
        check("cuMemsetD8Async", code)
    }

    /// Asks for a kernel to run.
    ///
    /// The source of a kernel is part of this program; that it stays within the memory that it is given is for its
    /// source to see to, as it is for any code.
    ///
    /// # Errors
    /// What the driver answered; what a kernel does wrong shows in later calls.
    pub fn launch(
        &mut self,
        kernel: &Kernel,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), CudaError> {
        self.begin()?;
        let mut words: Vec<u64> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            words.push(match argument {
                Argument::Memory(memory) => {
                    self.held.push(Arc::<DeviceMemory>::clone(memory));
                    memory.address()
                }
                Argument::Whole(whole) => *whole,
                Argument::Signed(signed) => u64::from_ne_bytes(signed.to_ne_bytes()),
            });
        }
        self.held.push(Arc::<Module>::clone(&kernel.module));
        let mut places: Vec<*mut c_void> =
            words.iter_mut().map(|word| ptr::from_mut(word).cast()).collect();
        let [x, y, z] = grid.blocks;
        let launch = self.gpu.context.table().launch;
        // SAFETY: a context is current; the function is of a module that is held; the driver reads as many words as the
        // function has parameters, all of 64 bits, during the call. What they point to is memory of the GPU, which is
        // held until all is over.
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
                self.stream,
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", code)
    }

    /// Notes the time when all that was asked for so far is over; [`Queue::times`] has it.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn stamp(&mut self) -> Result<(), CudaError> {
        self.begin()?;
        let event = match self.idle_stamps.pop() {
            Some(event) => event,
            None => self.event(TIMING)?,
        };
        self.stamps.push(event);
        self.record(event)
    }

    /// Asks for word of the end of all that was asked for so far.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn close(&mut self) -> Result<(), CudaError> {
        self.gpu.make_current()?;
        let event = match self.idle_ends.pop() {
            Some(event) => event,
            None => self.event(NO_TIMING)?,
        };
        self.idle_ends.push(event);
        self.record(event)?;
        self.end = self.idle_ends.pop();
        Ok(())
    }

    /// Whether all is over that was asked for before [`Queue::close`]; what it worked on is let go then.
    ///
    /// # Errors
    /// What went wrong; the queue then counts as at work for ever, as does what it holds.
    pub fn is_over(&mut self) -> Result<bool, CudaError> {
        let Some(end) = self.end else { return Ok(self.held.is_empty()) };
        self.gpu.make_current()?;
        // SAFETY: the event was made and recorded in the current context.
        let code = unsafe { (self.gpu.context.table().event_query)(end) };
        if code == NOT_READY {
            return Ok(false);
        }
        check("cuEventQuery", code)?;
        self.idle_ends.extend(self.end.take());
        self.held.clear();
        Ok(true)
    }

    /// Time between each two stamps; asked for when all is over, and only once.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn times(&mut self) -> Result<Vec<Nanos>, CudaError> {
        let stamps = mem::take(&mut self.stamps);
        let pairs = stamps.windows(2).map(|pair| self.between(pair[0], pair[1]));
        let times = pairs.collect::<Result<Vec<Nanos>, CudaError>>();
        self.idle_stamps.extend(stamps);
        times
    }

    fn between(&self, from: *mut c_void, to: *mut c_void) -> Result<Nanos, CudaError> {
        self.gpu.make_current()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: both events were made and recorded in the current context; one number is written to a local.
        let code =
            unsafe { (self.gpu.context.table().event_elapsed)(&raw mut milliseconds, from, to) };
        check("cuEventElapsedTime", code)?;
        Ok(Duration::try_from_secs_f32(milliseconds.max(0.0) / 1000.0).unwrap_or_default().into())
    }

    /// Before something new is asked for: word of an earlier end would not be of it.
    fn begin(&mut self) -> Result<(), CudaError> {
        self.idle_ends.extend(self.end.take());
        self.gpu.make_current()
    }

    fn event(&self, flags: u32) -> Result<*mut c_void, CudaError> {
        let mut event = ptr::null_mut();
        // SAFETY: a context is current, and one handle is written to a local.
        let code = unsafe { (self.gpu.context.table().event_create)(&raw mut event, flags) };
        check("cuEventCreate", code)?;
        Ok(event)
    }

    fn record(&self, event: *mut c_void) -> Result<(), CudaError> {
        // SAFETY: event and stream were made in the current context and live as long as the queue.
        let code = unsafe { (self.gpu.context.table().event_record)(event, self.stream) };
        check("cuEventRecord", code)
    }

    /// Waits a little for what is under way; whether nothing is.
    fn settle(&mut self) -> bool {
        if self.held.is_empty() && self.end.is_none() {
            return true;
        }
        if self.end.is_none() && self.close().is_err() {
            return false;
        }
        let until = Instant::now() + DROP_WAIT;
        while Instant::now() < until {
            match self.is_over() {
                Ok(true) => return true,
                Ok(false) => thread::sleep(DROP_NAP),
                Err(_) => return false,
            }
        }
        false
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.settle() || self.gpu.make_current().is_err() {
            mem::forget((mem::take(&mut self.held), Arc::clone(&self.gpu)));
            return;
        }
        let table = self.gpu.context.table();
        for &event in self.stamps.iter().chain(&self.idle_stamps).chain(&self.idle_ends) {
            // SAFETY: made by `event`, destroyed once, here; nothing waits for it.
            let _ = unsafe { (table.event_destroy)(event) };
        }
        // SAFETY: made by `new`, destroyed once, here; nothing is under way in it.
        let _ = unsafe { (table.stream_destroy)(self.stream) };
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("gpu", &self.gpu.facts().address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("module", &self.module).finish_non_exhaustive()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
