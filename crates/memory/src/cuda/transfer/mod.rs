//! Memory of a GPU, host memory that its copy engine reaches, and copies between the two.
//!
//! A copy holds both its ends until its event has come. A copy that does not end soon after its
//! lane was dropped is leaked with its memory, never freed under the copy engine.

#[allow(unsafe_code)]
pub(super) mod ffi;

use std::sync::Arc;

use peerlane_units::Bytes;

use super::{CudaError, Foreign, Gpu};
pub use ffi::{CopyQueue, DeviceMemory, Pinned};

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyDirection {
    /// From pinned host memory to the GPU.
    ToDevice,
    /// From the GPU to pinned host memory.
    ToHost,
}

/// A copy that is asked for.
#[derive(Debug)]
pub struct Copy<'a> {
    /// The direction.
    pub direction: CopyDirection,
    /// Host memory.
    pub pinned: &'a Arc<Pinned>,
    /// Offset in the host memory, in bytes.
    pub pinned_offset: u64,
    /// Memory of the GPU.
    pub memory: &'a Arc<DeviceMemory>,
    /// Offset in the GPU's memory, in bytes.
    pub memory_offset: u64,
    /// Bytes.
    pub length: u64,
    /// Returned when the copy is done.
    pub tag: u64,
}

impl Copy<'_> {
    /// Refuses a copy that reaches beyond one of its ends.
    pub(super) fn check(&self) -> Result<(), CudaError> {
        let ends = [
            (self.pinned_offset, self.pinned.length()),
            (self.memory_offset, self.memory.length()),
        ];
        ends.into_iter().try_for_each(|(offset, size)| within(offset, self.length, size))
    }
}

/// Memory of a GPU that bytes may be sent to.
#[derive(Debug, Clone)]
pub enum GpuTarget {
    /// Our own.
    Own(Arc<DeviceMemory>),
    /// That of another library.
    Foreign(Arc<Foreign>),
}

impl GpuTarget {
    /// Size in bytes.
    pub fn length(&self) -> Bytes {
        match self {
            Self::Own(memory) => memory.length(),
            Self::Foreign(memory) => memory.length(),
        }
    }

    /// The GPU that it is of.
    pub fn gpu(&self) -> &Arc<Gpu> {
        match self {
            Self::Own(memory) => memory.gpu(),
            Self::Foreign(memory) => memory.gpu(),
        }
    }

    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Own(memory) => memory.address(),
            Self::Foreign(memory) => memory.address(),
        }
    }
}

/// Refuses a part that reaches beyond its memory.
pub(super) fn within(offset: u64, length: u64, size: Bytes) -> Result<(), CudaError> {
    if offset.checked_add(length).is_none_or(|end| end > size.0) {
        let (offset, length) = (Bytes(offset), Bytes(length));
        return Err(CudaError::Range { offset, length, size });
    }
    Ok(())
}
