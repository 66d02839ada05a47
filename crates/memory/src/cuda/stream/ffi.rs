//! The calls on streams and their events.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_units::Nanos;

use crate::cuda::ffi::check;
use crate::cuda::{Copy, CopyDirection, CudaError, Gpu};

/// `CU_STREAM_NON_BLOCKING`: does not wait for the default stream.
const NON_BLOCKING: u32 = 1;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: i32 = 600;
/// Longest wait of a dropped lane or queue for the GPU, before it leaks memory still in use.
const DROP_WAIT: Duration = Duration::from_secs(1);
/// Pause between two polls of a dropped lane or queue.
const DROP_NAP: Duration = Duration::from_micros(100);

/// A stream of the GPU, which does its work in order. Destroyed with its events when dropped,
/// unless it was abandoned.
pub(in crate::cuda) struct CudaStream {
    gpu: Arc<Gpu>,
    handle: *mut c_void,
    idle: Vec<CudaEvent>,
    is_abandoned: bool,
}

/// A mark in a stream: comes when all work before it is over.
pub(in crate::cuda) struct CudaEvent {
    handle: *mut c_void,
    timing: Timing,
}

// SAFETY: the driver API may be called from any thread (CUDA C Programming Guide, "Context"); the handle is only ever
// handed back to it.
unsafe impl Send for CudaStream {}
// SAFETY: as above.
unsafe impl Send for CudaEvent {}

/// An event in another owner's stream: comes when the work asked of it so far is over.
pub struct StreamMark {
    gpu: Arc<Gpu>,
    event: CudaEvent,
}

// SAFETY: as above; nothing is changed through a shared mark.
unsafe impl Sync for StreamMark {}

impl StreamMark {
    /// Records an event in a stream by the driver's handle; 1 and 2 are its two default streams.
    ///
    /// # Safety
    /// The handle is that of a stream of the GPU's primary context, or 1 or 2.
    pub(in crate::cuda) unsafe fn record(gpu: &Arc<Gpu>, stream: u64) -> Result<Self, CudaError> {
        gpu.make_current()?;
        let table = gpu.context.table();
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and one handle is written to a local.
        let code = unsafe { (table.event_create)(&raw mut handle, Timing::Off as u32) };
        check("cuEventCreate", code)?;
        let event = CudaEvent { handle, timing: Timing::Off };
        let mark = Self { gpu: Arc::clone(gpu), event };
        let stream = usize::try_from(stream).unwrap_or(0);
        let stream = ptr::without_provenance_mut(stream);
        // SAFETY: the event was made in the current context; the stream is the caller's promise.
        check("cuEventRecord", unsafe { (table.event_record)(mark.event.handle, stream) })?;
        Ok(mark)
    }
}

impl Drop for StreamMark {
    fn drop(&mut self) {
        if self.gpu.make_current().is_ok() {
            // SAFETY: made by `record` and destroyed once, here; who waits for it goes on doing so (`cuEventDestroy`).
            let _ = unsafe { (self.gpu.context.table().event_destroy)(self.event.handle) };
        }
    }
}

impl fmt::Debug for StreamMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamMark").field("gpu", &self.gpu.facts().address).finish_non_exhaustive()
    }
}

/// Choice of events with or without their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) enum Timing {
    /// `CU_EVENT_DEFAULT`.
    On = 0,
    /// `CU_EVENT_DISABLE_TIMING`.
    Off = 2,
}

impl CudaStream {
    pub(in crate::cuda) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        gpu.make_current()?;
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and one handle is written to a local.
        let code = unsafe { (gpu.context.table().stream_create)(&raw mut handle, NON_BLOCKING) };
        check("cuStreamCreate", code)?;
        Ok(Self { gpu: Arc::clone(gpu), handle, idle: Vec::new(), is_abandoned: false })
    }

    pub(in crate::cuda) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The driver's handle of the stream.
    pub(in crate::cuda) fn handle(&self) -> *mut c_void {
        self.handle
    }

    /// Asks for a copy.
    ///
    /// # Safety
    /// Both memories of the copy are kept until it is known to be over, or for ever.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else the driver's error.
    pub(in crate::cuda) unsafe fn copy(&self, copy: &Copy<'_>) -> Result<(), CudaError> {
        copy.check()?;
        let length = usize::try_from(copy.length).unwrap_or(usize::MAX);
        self.gpu.make_current()?;
        let host = copy.pinned.at(copy.pinned_offset);
        let device = copy.memory.address().wrapping_add(copy.memory_offset);
        let table = self.gpu.context.table();
        match copy.direction {
            // SAFETY: both ranges lie within their memories by `check`, and the caller keeps those.
            CopyDirection::ToDevice => unsafe { self.load((device, host), copy.length) },
            CopyDirection::ToHost => {
                // SAFETY: as above; no reference to the host bytes is given out while the caller has an `Arc`.
                let code = unsafe { (table.copy_to_host)(host, device, length, self.handle) };
                check("cuMemcpyDtoHAsync", code)
            }
        }
    }

    /// Asks for a copy from registered host memory to an address of the GPU.
    ///
    /// # Safety
    /// As many bytes lie at both addresses, in memory that is kept until the copy is known to be over, or for ever.
    pub(in crate::cuda) unsafe fn load(
        &self,
        (device, host): (u64, *mut c_void),
        length: u64,
    ) -> Result<(), CudaError> {
        self.gpu.make_current()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let load = self.gpu.context.table().copy_to_device;
        // SAFETY: a context is current; the rest is the caller's promise.
        check("cuMemcpyHtoDAsync", unsafe { load(device, host, length, self.handle) })
    }

    /// Lets all work from here on wait for a mark.
    pub(in crate::cuda) fn wait_for(&self, mark: &StreamMark) -> Result<(), CudaError> {
        self.gpu.make_current()?;
        let wait = self.gpu.context.table().stream_wait;
        // SAFETY: a context is current; the mark's event was recorded and lives as long as the mark. The flags must
        // be zero.
        check("cuStreamWaitEvent", unsafe { wait(self.handle, mark.event.handle, 0) })
    }

    /// An event that records nothing: one that was given back, or a new one.
    pub(in crate::cuda) fn event(&mut self, timing: Timing) -> Result<CudaEvent, CudaError> {
        if let Some(at) = self.idle.iter().position(|event| event.timing == timing) {
            return Ok(self.idle.swap_remove(at));
        }
        self.gpu.make_current()?;
        let mut handle = ptr::null_mut();
        let create = self.gpu.context.table().event_create;
        // SAFETY: a context is current, and one handle is written to a local.
        let code = unsafe { create(&raw mut handle, timing as u32) };
        check("cuEventCreate", code)?;
        Ok(CudaEvent { handle, timing })
    }

    /// Takes back an event that is no longer needed.
    pub(in crate::cuda) fn give_back(&mut self, event: CudaEvent) {
        self.idle.push(event);
    }

    /// Records an event that comes when all work so far is over.
    pub(in crate::cuda) fn record(&self, event: &CudaEvent) -> Result<(), CudaError> {
        self.gpu.make_current()?;
        let record = self.gpu.context.table().event_record;
        // SAFETY: event and stream were made in the current context and live until the stream is dropped.
        check("cuEventRecord", unsafe { record(event.handle, self.handle) })
    }

    /// Takes an event and records it.
    pub(in crate::cuda) fn mark(&mut self, timing: Timing) -> Result<CudaEvent, CudaError> {
        let event = self.event(timing)?;
        match self.record(&event) {
            Ok(()) => Ok(event),
            Err(error) => {
                self.give_back(event);
                Err(error)
            }
        }
    }

    /// Returns whether a recorded event has come.
    pub(in crate::cuda) fn has_come(&self, event: &CudaEvent) -> Result<bool, CudaError> {
        self.gpu.make_current()?;
        // SAFETY: the event was made and recorded in the current context.
        let code = unsafe { (self.gpu.context.table().event_query)(event.handle) };
        if code == NOT_READY {
            return Ok(false);
        }
        check("cuEventQuery", code)?;
        Ok(true)
    }

    /// Time between two events that have come, both with [`Timing::On`].
    pub(in crate::cuda) fn between(
        &self,
        from: &CudaEvent,
        to: &CudaEvent,
    ) -> Result<Nanos, CudaError> {
        self.gpu.make_current()?;
        let mut milliseconds = 0.0_f32;
        let elapsed = self.gpu.context.table().event_elapsed;
        // SAFETY: both events were made and recorded in the current context; one number is written to a local.
        let code = unsafe { elapsed(&raw mut milliseconds, from.handle, to.handle) };
        check("cuEventElapsedTime", code)?;
        Ok(Duration::try_from_secs_f32(milliseconds.max(0.0) / 1000.0).unwrap_or_default().into())
    }

    /// Leaks the stream, its GPU, and the memory that its unfinished work may still touch.
    pub(in crate::cuda) fn abandon<T>(&mut self, held: T) {
        mem::forget(held);
        self.is_abandoned = true;
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.is_abandoned || self.gpu.make_current().is_err() {
            mem::forget(Arc::clone(&self.gpu));
            return;
        }
        let table = self.gpu.context.table();
        for event in &self.idle {
            // SAFETY: made by `event`, destroyed once, here; nothing waits for it.
            let _ = unsafe { (table.event_destroy)(event.handle) };
        }
        // SAFETY: made by `new`, destroyed once, here; nothing is under way in it.
        let _ = unsafe { (table.stream_destroy)(self.handle) };
    }
}

/// Waits shortly for the work of a stream that is about to be dropped; returns whether it ended.
pub(in crate::cuda) fn settles(mut is_over: impl FnMut() -> Result<bool, CudaError>) -> bool {
    let until = Instant::now() + DROP_WAIT;
    loop {
        match is_over() {
            Ok(true) => return true,
            Ok(false) if Instant::now() < until => thread::sleep(DROP_NAP),
            Ok(false) | Err(_) => return false,
        }
    }
}
