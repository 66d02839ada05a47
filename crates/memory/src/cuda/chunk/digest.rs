//! The XXH3 digest of a chunk, computed by the GPU that the chunk rests in.

use std::fmt;
use std::sync::Arc;

use peerlane_units::Bytes;

use super::pool::{QueuePool, QueueSlot};
use super::{BLOCK_THREADS, ChunkKernelError, check};
use crate::cuda::{
    Argument, Copy, CopyDirection, CudaError, CudaKernel, DeviceMemory, Gpu, LaunchGrid, Pinned,
};
use crate::nvrtc::Nvrtc;

/// Bytes of a digest.
const DIGEST_BYTES: u64 = 16;
/// The name of the source in the compiler's words.
const FILE: &str = "xxh128.cu";

/// Memory for the digest of a chunk in flight.
struct DigestMemory {
    memory: Arc<DeviceMemory>,
    pinned: Arc<Pinned>,
}

/// The kernel that computes digests, and its chunks in flight.
///
/// A chunk in flight holds its memory. Chunks in flight when this is dropped are waited for shortly, and leaked with
/// their memory where they do not end.
pub struct DigestKernel {
    gpu: Arc<Gpu>,
    kernel: CudaKernel,
    pool: QueuePool<DigestMemory>,
}

impl DigestKernel {
    /// The source of the kernel.
    pub const SOURCE: &str = include_str!("xxh128.cu");

    /// Compiles the kernel for a GPU.
    ///
    /// # Errors
    /// [`ChunkKernelError`], by the missing part.
    pub fn compile(gpu: &Arc<Gpu>, nvrtc: &Nvrtc) -> Result<Self, ChunkKernelError> {
        let image = nvrtc.compile(Self::SOURCE, FILE, gpu.facts().compute);
        let image =
            image.map_err(|source| ChunkKernelError::Compile { file: FILE.to_owned(), source })?;
        let kernel = gpu.module(&image)?.kernel(c"xxh128")?;
        Ok(Self { gpu: Arc::clone(gpu), kernel, pool: QueuePool::new() })
    }

    /// Starts on a range of memory, in a queue of its own; `tag` comes back from [`DigestKernel::finished`].
    ///
    /// # Errors
    /// As [`ChunkKernel::start`](super::ChunkKernel::start).
    pub fn start(
        &mut self,
        tag: u64,
        memory: &Arc<DeviceMemory>,
        memory_offset: u64,
        bytes: u64,
    ) -> Result<(), CudaError> {
        check(&self.gpu, memory, memory_offset, bytes)?;
        let (gpu, kernel) = (&self.gpu, &self.kernel);
        let make = || {
            let length = Bytes(DIGEST_BYTES);
            let result = DigestMemory { memory: gpu.allocate(length)?, pinned: gpu.pin(length)? };
            Ok(QueueSlot { queue: gpu.queue()?, result })
        };
        self.pool.start(tag, make, |slot| {
            let QueueSlot { queue, result: DigestMemory { memory: digest, pinned } } = slot;
            let chunk = Argument::Range { memory, offset: memory_offset, length: bytes };
            let arguments =
                [chunk, Argument::Whole(bytes), Argument::Whole(0), Argument::Memory(digest)];
            let grid = LaunchGrid { blocks: [1, 1, 1], threads: BLOCK_THREADS };
            queue.launch(kernel, grid, &arguments)?;
            queue.copy(&Copy {
                direction: CopyDirection::ToHost,
                pinned,
                pinned_offset: 0,
                memory: digest,
                memory_offset: 0,
                length: DIGEST_BYTES,
                tag,
            })?;
            // A digest reveals content: none of it stays in the GPU.
            queue.fill(digest, 0, DIGEST_BYTES, 0)
        })
    }

    /// The tag of a chunk that is over, and its digest in canonical form, as `xxh128sum` prints it; `None` where none is.
    /// Never blocks.
    ///
    /// After an error of the driver each chunk in flight ends once with that error.
    pub fn finished(&mut self) -> Option<(u64, Result<[u8; 16], CudaError>)> {
        self.pool.finished(|slot| {
            let bytes = Pinned::bytes_mut(&mut slot.result.pinned);
            let digest = bytes.and_then(|bytes| bytes.first_chunk::<16>().copied());
            // Only the queue held it, and has let go of it.
            digest.ok_or(CudaError::Call { call: "cuMemcpyDtoHAsync", code: UNKNOWN })
        })
    }

    /// Chunks that were started and are not known to be over.
    pub fn in_flight(&self) -> usize {
        self.pool.in_flight()
    }

    /// Waits shortly for the chunks in flight, which are no longer reported. False where the GPU
    /// may still work on one, or on an earlier one that ended in an error: their memory then stays
    /// registered.
    pub fn settle(&mut self) -> bool {
        self.pool.settle()
    }
}

/// `CUDA_ERROR_UNKNOWN`.
const UNKNOWN: i32 = 999;

impl fmt::Debug for DigestKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkDigest").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
