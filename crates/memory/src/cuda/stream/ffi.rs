//! The calls on streams and their events.

use std::ffi::c_void;
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

/// Choice of events with or without the time at which they came.
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
            CopyDirection::ToDevice => {
                // SAFETY: a context is current; both ranges lie within their memories by `check`, and the caller
                // keeps those.
                let code = unsafe { (table.copy_to_device)(device, host, length, self.handle) };
                check("cuMemcpyHtoDAsync", code)
            }
            CopyDirection::ToHost => {
                // SAFETY: as above; no reference to the host bytes is given out while the caller has an `Arc`.
                let code = unsafe { (table.copy_to_host)(host, device, length, self.handle) };
                check("cuMemcpyDtoHAsync", code)
            }
        }
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
