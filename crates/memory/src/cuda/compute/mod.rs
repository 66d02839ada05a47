//! Kernels, and the queue that a GPU runs them from.
//!
//! A queue holds the memory, the pinned memory and the code of its work until all of it is over
//! ([`Queue::is_over`]). Work that does not end soon after its queue was dropped is leaked with all
//! that it uses, and nothing is freed under the GPU.

#[allow(unsafe_code)]
mod ffi;

use std::sync::Arc;

use super::{DeviceMemory, PeerAccess};
pub use ffi::{CudaKernel, GpuModule, KernelQueue};

/// Threads of a launch: blocks in three directions, and threads of each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchGrid {
    /// Blocks; none may be 0, and only the first may be more than 65535.
    pub blocks: [u32; 3],
    /// Threads of a block, 1024 at most.
    pub threads: u32,
}

/// An argument of a kernel. Their number and sizes must match the kernel's parameters.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// The address of memory of the GPU.
    Memory(&'a Arc<DeviceMemory>),
    /// The address of a range of memory of the GPU.
    Range {
        /// The memory.
        memory: &'a Arc<DeviceMemory>,
        /// Its first byte.
        offset: u64,
        /// Its length in bytes, which the kernel gets by another argument.
        length: u64,
    },
    /// The address of memory of another GPU, which the queue's GPU may use.
    Peer {
        /// The memory.
        memory: &'a Arc<DeviceMemory>,
        /// The permission, from the queue's GPU to that of the memory.
        access: &'a Arc<PeerAccess>,
    },
    /// A whole number of 64 bits.
    Whole(u64),
    /// A signed one.
    Signed(i64),
}
