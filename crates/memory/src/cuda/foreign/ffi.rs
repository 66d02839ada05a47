//! The calls on memory that another library allocated.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use peerlane_units::Bytes;

use super::{OwnersWork, Told, judge};
use crate::cuda::ffi::{Driver, check};
use crate::cuda::stream::StreamMark;
use crate::cuda::{Cuda, CudaError, DeviceMemory, Gpu, within};

/// `CU_POINTER_ATTRIBUTE_CONTEXT`, `_MEMORY_TYPE`, `_DEVICE_ORDINAL`, `_RANGE_START_ADDR` and `_RANGE_SIZE`.
const CONTEXT: c_int = 1;
const MEMORY_TYPE: c_int = 2;
const ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_SIZE: c_int = 12;
/// `CUDA_ERROR_INVALID_VALUE`: an address that the driver does not know.
const INVALID_VALUE: i32 = 1;

/// Memory on a GPU that another library allocated, kept as long as this has its owner.
pub struct Foreign {
    gpu: Arc<Gpu>,
    address: u64,
    length: Bytes,
    work: OwnersWork,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Driver {
    /// Reads an attribute of an address; each has 64 bits at most.
    fn attribute_of(&self, address: u64, attribute: c_int) -> Result<u64, CudaError> {
        let mut value = 0_u64;
        // SAFETY: writes an unsigned int, an int, a pointer or a size to a local that has room for each of them
        // (`cuda.h`, `CUpointer_attribute`); the address is only looked up.
        let code = unsafe {
            (self.table.pointer_attribute)((&raw mut value).cast::<c_void>(), attribute, address)
        };
        check("cuPointerGetAttribute", code)?;
        Ok(value)
    }

    fn tell(&self, address: u64) -> Result<Told, CudaError> {
        // A short value lies in the first bytes of a word on every machine that CUDA runs on.
        let low = |word: u64| word & u64::from(u32::MAX);
        let kind = self.attribute_of(address, MEMORY_TYPE)?;
        Ok(Told {
            kind: low(kind),
            // -1 and the like are not devices.
            ordinal: i32::try_from(low(self.attribute_of(address, ORDINAL)?)).unwrap_or(-1),
            context: self.attribute_of(address, CONTEXT)?,
            start: self.attribute_of(address, RANGE_START)?,
            size: self.attribute_of(address, RANGE_SIZE)?,
        })
    }
}

impl Cuda {
    /// Takes memory that another library has on a GPU; `owner` keeps it.
    ///
    /// The primary context of that GPU is retained.
    ///
    /// # Errors
    /// [`CudaError::Length`] for zero bytes; [`CudaError::NotOfAGpu`] unless the driver says that
    /// all of it lies in one allocation of a GPU, and of that GPU's primary context; else the
    /// driver's error.
    pub fn foreign(
        &self,
        address: u64,
        length: Bytes,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Foreign, CudaError> {
        if length == Bytes::ZERO {
            return Err(CudaError::Length { length });
        }
        let refused = |why| CudaError::NotOfAGpu { address, length, why };
        let told = self.driver.tell(address).map_err(|error| match error {
            CudaError::Call { code: INVALID_VALUE, .. } => refused("the driver does not know it"),
            error => error,
        })?;
        judge(address, length, told)?;
        let device = self.driver.device(told.ordinal)?;
        let facts = self.gpus()?.into_iter().find(|one| one.device == device);
        let gpu = self.open(&facts.ok_or(refused("the driver does not show its GPU"))?)?;
        // Memory of a pool belongs to no context.
        if told.context != 0 && told.context != gpu.context.handle().addr() as u64 {
            return Err(refused("it is of another context than the primary one"));
        }
        Ok(Foreign { gpu, address, length, work: OwnersWork::All, _owner: owner })
    }
}

impl Gpu {
    /// Keeps the context that the calling thread has now: the CUDA runtime calls it its device.
    ///
    /// # Errors
    /// The driver's error.
    pub fn keep_context(&self) -> Result<KeptContext, CudaError> {
        let driver = self.context.shared_driver();
        let mut handle = ptr::null_mut();
        // SAFETY: writes one handle to a local.
        check("cuCtxGetCurrent", unsafe { (driver.table.context_get)(&raw mut handle) })?;
        Ok(KeptContext { driver, handle })
    }
}

impl Foreign {
    /// Size in bytes.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// The GPU that it is of.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(in crate::cuda) fn address(&self) -> u64 {
        self.address
    }

    /// States its owner's work on it that may not be over; [`OwnersWork::All`] until then.
    ///
    /// # Safety
    /// A stream of [`OwnersWork::Stream`] is one of the GPU's primary context, by the driver's handle, or 1 or 2, and is
    /// not destroyed before this.
    #[must_use]
    pub unsafe fn with_work(self, work: OwnersWork) -> Self {
        Self { work, ..self }
    }

    /// Its owner's work on it that may not be over.
    pub fn work(&self) -> OwnersWork {
        self.work
    }

    /// Marks the end of its owner's work so far, for those who write it after that; `None` if
    /// nothing is left to wait for. [`OwnersWork::All`] is waited for here, without a deadline:
    /// CUDA has none.
    ///
    /// # Errors
    /// The driver's error; an earlier failure shows here, too.
    pub fn mark(&self) -> Result<Option<StreamMark>, CudaError> {
        match self.work {
            OwnersWork::None => Ok(None),
            OwnersWork::Stream(handle) => {
                // SAFETY: the promise of `with_work`.
                unsafe { StreamMark::record(&self.gpu, handle) }.map(Some)
            }
            OwnersWork::All => self.settle().map(|()| None),
        }
    }

    /// Waits for everything that was asked of the GPU in its primary context, its owner's work among it. There is
    /// no deadline: CUDA has none.
    ///
    /// # Errors
    /// The driver's error; an earlier failure shows here, too.
    pub fn settle(&self) -> Result<(), CudaError> {
        self.gpu.make_current()?;
        // SAFETY: a context is current, and no pointer is taken.
        check("cuCtxSynchronize", unsafe { (self.gpu.context.table().context_synchronise)() })
    }

    /// Takes bytes from memory of our own on the same GPU; when this returns, all are there.
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond an end; else the driver's error.
    pub fn take(
        &self,
        offset: u64,
        (source, source_offset): (&DeviceMemory, u64),
        length: u64,
    ) -> Result<(), CudaError> {
        within(offset, length, self.length)?;
        within(source_offset, length, source.length())?;
        if length == 0 {
            return Ok(());
        }
        let bytes = usize::try_from(length);
        let bytes = bytes.map_err(|_| CudaError::Length { length: Bytes(length) })?;
        self.gpu.make_current()?;
        let (to, from) =
            (self.address.wrapping_add(offset), source.address().wrapping_add(source_offset));
        // SAFETY: a context is current; the source's range lies within memory that is ours until `source` is dropped,
        // the target's within an allocation that the driver knew and whose owner is kept here. Both are memory of a
        // GPU, of which Rust has no reference.
        let code = unsafe { (self.gpu.context.table().copy_within)(to, from, bytes) };
        check("cuMemcpyDtoD", code)?;
        // A copy between memories of GPUs is only queued by then.
        self.settle()
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.gpu.facts().address;
        f.debug_struct("Foreign")
            .field("gpu", &address)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// The context that a thread had, made current again when this is dropped. It stays on that thread.
pub struct KeptContext {
    driver: Arc<Driver>,
    /// Not to be sent to another thread, as no raw pointer is.
    handle: *mut c_void,
}

impl Drop for KeptContext {
    fn drop(&mut self) {
        // SAFETY: the handle is what the driver gave for this thread, null for none; a context that its owner destroyed
        // meanwhile is refused.
        let _ = unsafe { (self.driver.table.context_set)(self.handle) };
    }
}

impl fmt::Debug for KeptContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptContext").finish_non_exhaustive()
    }
}
