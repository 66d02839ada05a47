//! Memory of NVIDIA GPUs by CUDA's driver API, opened when the program runs.
//!
//! The interface, from the outside in:
//!
//! - [`Cuda::load`] opens `libcuda.so.1` and initialises it; a missing library, device or permission is a
//!   [`CudaError`] with a hint. [`Cuda::gpus`] lists the GPUs by PCI address, as `nvidia-smi` numbers them.
//! - [`Cuda::open`] gives a [`Gpu`]: its primary context, retained until the last user is gone.
//! - [`Gpu::allocate`] gives [`DeviceMemory`], which is never seen as bytes; [`Gpu::pin`] gives
//!   [`Pinned`] host memory that the GPU's copy engine reaches; [`Gpu::copy_queue`] gives a
//!   [`CopyQueue`], which copies between the two.
//! - [`Gpu::module`] loads code from [`crate::nvrtc`], and [`Gpu::queue`] gives a [`KernelQueue`],
//!   which runs its kernels and copies in one order and times them.
//! - [`ChunkKernel::compile`] compiles a kernel that a user wrote, and [`ChunkKernel::start`] runs it on a chunk of a
//!   copy, in place. [`DigestKernel`] computes the digest of a chunk.
//! - A lane keeps both ends of a copy until its event has come: neither can be freed or unregistered under it.
//! - [`Pinned::region`] is that host memory for a ring. Its bytes are visible only to a sole owner,
//!   when no ring and no lane has it ([`Pinned::bytes_mut`]).
//!
//! - [`Gpu::slot`] gives a [`PinnedSlot`], which files are read into; [`Gpu::register`] lets the copy engine read the page
//!   cache of a mapped file itself.
//! - [`Gpu::access`] lets the kernels of one GPU store to memory of another ([`Argument::Peer`]);
//!   [`KernelQueue::copy_between`] copies between two.
//! - [`Cuda::foreign`] gives [`Foreign`] memory, which another library of the process has on a GPU.
//!   [`CopyQueue::send`] fills it, after the owner's work that [`Foreign::mark`] marks;
//!   [`Foreign::take`] fills it from memory of our own.
//!
//! - [`DeviceMemory::load`] and [`DeviceMemory::store`] copy as programs do that pin nothing: the driver moves
//!   the bytes by the CPU through memory of its own. Papers compare with these two.
//!
//! Nothing else here waits, except [`Foreign::take`]: [`CopyQueue::finished`] asks whether the
//! oldest copy is over, and callers have deadlines.

mod chunk;
mod compute;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod foreign;
mod peer;
mod slot;
mod stream;
mod transfer;

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use peerlane_fabric::Bdf;
use peerlane_units::Bytes;

pub use chunk::{ChunkKernel, ChunkKernelError, DigestKernel};
pub use compute::{Argument, CudaKernel, GpuModule, KernelQueue, LaunchGrid};
pub use error::CudaError;
use ffi::{Context, CudaDevice, Driver};
pub use foreign::{Foreign, KeptContext, OwnersWork};
pub use peer::PeerAccess;
pub use slot::PinnedSlot;
pub use stream::StreamMark;
use transfer::within;
pub use transfer::{Copy, CopyDirection, CopyQueue, DeviceMemory, GpuTarget, Pinned};

use crate::Region;
use crate::nvrtc::Image;

/// The user part of NVIDIA's driver.
const LIBRARY: &str = "libcuda.so.1";
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
const COMPUTE: [i32; 2] = [75, 76];
/// `CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE` in kHz, `GLOBAL_MEMORY_BUS_WIDTH` in bits, `CLOCK_RATE` in kHz and
/// `MULTIPROCESSOR_COUNT`.
const SPEED: [i32; 4] = [36, 37, 13, 16];

/// CUDA's driver API, initialised.
#[derive(Clone)]
pub struct Cuda {
    driver: Arc<Driver>,
}

/// Facts that the driver reports of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuFacts {
    /// Its place in the order of PCI addresses: the N of `gpu:N`, as `nvidia-smi` counts.
    pub index: u32,
    /// Its PCI address.
    pub address: Bdf,
    /// Its model, by the driver.
    pub model: String,
    /// Memory that it has.
    pub memory: Bytes,
    /// Compute capability, major and minor; 8 is Ampere.
    pub compute: (i32, i32),
    device: CudaDevice,
}

/// Peak rates of a GPU, by the attributes that the driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second between the GPU and its own memory; 0 where the driver does not say.
    pub memory_rate: u64,
    /// Additions or multiplications a second in single precision, none of them fused; 0 where the driver does not say.
    pub operation_rate: u64,
}

/// A GPU whose primary context is retained.
pub struct Gpu {
    context: Context,
    facts: GpuFacts,
}

impl Cuda {
    /// Opens the driver library of this machine and initialises it.
    ///
    /// # Errors
    /// [`CudaError`], by the missing part.
    pub fn load() -> Result<Self, CudaError> {
        Self::open_library(OsStr::new(LIBRARY))
    }

    /// The same with a library that stands for it.
    ///
    /// # Errors
    /// As [`Cuda::load`].
    pub fn load_from(library: &Path) -> Result<Self, CudaError> {
        Self::open_library(library.as_os_str())
    }

    fn open_library(name: &OsStr) -> Result<Self, CudaError> {
        let driver = Driver::open(name)?;
        driver.init()?;
        Ok(Self { driver: Arc::new(driver) })
    }

    /// Version of the driver API, major and minor.
    ///
    /// # Errors
    /// The driver's error.
    pub fn version(&self) -> Result<(i32, i32), CudaError> {
        let version = self.driver.version()?;
        Ok((version / 1000, version % 1000 / 10))
    }

    /// Every GPU that the driver shows to this process, by PCI address.
    ///
    /// # Errors
    /// The driver's error.
    pub fn gpus(&self) -> Result<Vec<GpuFacts>, CudaError> {
        let driver = &self.driver;
        let facts = (0..driver.count()?).map(|ordinal| {
            let device = driver.device(ordinal)?;
            let text = driver.bus(device)?;
            let address = text.to_ascii_lowercase().parse();
            let attribute = |number| driver.attribute(device, number);
            Ok(GpuFacts {
                index: 0,
                address: address.map_err(|_| CudaError::Address { text })?,
                model: driver.device_name(device)?,
                memory: Bytes(driver.device_memory(device)? as u64),
                compute: (attribute(COMPUTE[0])?, attribute(COMPUTE[1])?),
                device,
            })
        });
        let mut facts = facts.collect::<Result<Vec<_>, CudaError>>()?;
        facts.sort_by_key(|one| one.address);
        for (index, one) in (0..).zip(&mut facts) {
            one.index = index;
        }
        Ok(facts)
    }

    /// Takes a GPU into use: its primary context, retained until the last user is gone.
    ///
    /// # Errors
    /// The driver's error.
    pub fn open(&self, facts: &GpuFacts) -> Result<Arc<Gpu>, CudaError> {
        let context = Context::retain(Arc::clone(&self.driver), facts.device)?;
        Ok(Arc::new(Gpu { context, facts: facts.clone() }))
    }
}

impl Gpu {
    /// Facts that the driver reports of it.
    pub fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    /// Whether another is the same GPU by the same driver library, which share one primary context.
    pub fn is_same(&self, other: &Self) -> bool {
        let library = |gpu: &Self| gpu.context.driver().name.clone();
        self.facts.device == other.facts.device && library(self) == library(other)
    }

    /// Memory that is free now.
    ///
    /// # Errors
    /// The driver's error.
    pub fn free(&self) -> Result<Bytes, CudaError> {
        Ok(Bytes(self.context.memory_info()?.0 as u64))
    }

    /// Takes memory of the GPU; its content is left from the last user.
    ///
    /// # Errors
    /// [`CudaError::Length`] for zero bytes; else the driver's error.
    pub fn allocate(self: &Arc<Self>, length: Bytes) -> Result<Arc<DeviceMemory>, CudaError> {
        DeviceMemory::allocate(self, length).map(Arc::new)
    }

    /// Takes host memory that the copy engine reaches by itself.
    ///
    /// # Errors
    /// When there is none, or the driver refuses to register it.
    pub fn pin(self: &Arc<Self>, length: Bytes) -> Result<Arc<Pinned>, CudaError> {
        Pinned::register(self, length).map(Arc::new)
    }

    /// Registers a range of a mapped file, which begins on a page, for the copy engine to read the page cache itself.
    ///
    /// # Errors
    /// [`CudaError::NotPlain`] for other memory, [`CudaError::Range`] beyond its end; else the driver's error, also where
    /// the file has become shorter.
    pub fn register(
        self: &Arc<Self>,
        mapped: &Arc<Region>,
        range: Range<u64>,
    ) -> Result<Arc<Pinned>, CudaError> {
        Pinned::of_file(self, mapped, range).map(Arc::new)
    }

    /// A slot of pinned host memory.
    ///
    /// # Errors
    /// As [`Gpu::pin`].
    pub fn slot(self: &Arc<Self>, length: Bytes) -> Result<PinnedSlot, CudaError> {
        self.pin(length).map(PinnedSlot::new)
    }

    /// A queue of copies, which are done in order.
    ///
    /// # Errors
    /// The driver's error.
    pub fn copy_queue(self: &Arc<Self>) -> Result<CopyQueue, CudaError> {
        CopyQueue::new(self)
    }

    /// Loads code that was compiled for it.
    ///
    /// # Errors
    /// The driver's error: the code is of a later CUDA, or for another GPU.
    pub fn module(self: &Arc<Self>, image: &Image) -> Result<Arc<GpuModule>, CudaError> {
        GpuModule::load(self, image).map(Arc::new)
    }

    /// A queue of kernels and copies, which are done in order.
    ///
    /// # Errors
    /// The driver's error.
    pub fn queue(self: &Arc<Self>) -> Result<KernelQueue, CudaError> {
        KernelQueue::new(self)
    }

    /// Its peak rates.
    ///
    /// # Errors
    /// The driver's error.
    pub fn limits(&self) -> Result<Limits, CudaError> {
        let (driver, device) = (self.context.driver(), self.facts.device);
        let mut values = [0; 4];
        for (value, number) in values.iter_mut().zip(SPEED) {
            *value = u64::try_from(driver.attribute(device, number)?).unwrap_or(0);
        }
        let [memory_khz, bus_bits, khz, processors] = values;
        // Two transfers a clock; units of single precision by the table "Throughput of Native Arithmetic
        // Instructions" of the CUDA C++ Programming Guide.
        let units = if matches!(self.facts.compute, (7, _) | (8, 0)) { 64 } else { 128 };
        Ok(Limits {
            memory_rate: memory_khz.saturating_mul(1000 * 2).saturating_mul(bus_bits / 8),
            operation_rate: khz.saturating_mul(1000 * units).saturating_mul(processors),
        })
    }

    /// Makes it the GPU of the calling thread.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn make_current(&self) -> Result<(), CudaError> {
        self.context.make_current()
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("library", &self.driver.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = &self.context.driver().name;
        f.debug_struct("Gpu").field("facts", &self.facts).field("library", library).finish()
    }
}
