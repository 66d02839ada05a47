//! Kernels that work on one chunk of a copy, in place, while it rests in memory of a GPU.
//!
//! A user's kernel is declared as
//!
//! ```c
//! extern "C" __global__ void NAME(unsigned char *chunk, unsigned long long bytes, unsigned long long offset)
//! ```
//!
//! and runs once for each chunk: `chunk` is its first byte in memory of the GPU, `bytes` its
//! length, and `offset` its place in the copy. A launch has blocks of 256 threads, a thread for
//! each 16 bytes and 65535 blocks at most. A kernel therefore loops over the chunk with the stride
//! of its grid:
//!
//! ```c
//! unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
//! for (unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; at < bytes; at += stride)
//!     chunk[at] = ~chunk[at];
//! ```
//!
//! Chunks run at the same time and in any order. Operations are not fused (`--fmad=false`).
//!
//! Such a kernel is a program of the user and runs with the user's rights on the GPU. Nothing
//! confines it to its chunk. A wrong one corrupts memory of the context, which other chunks, other
//! kernels of this process and its pinned host memory are in. An error of a kernel ends the
//! context: all later calls fail.

mod digest;
mod error;
mod pool;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use super::{Argument, CudaError, CudaKernel, DeviceMemory, Gpu, LaunchGrid, within};
use crate::nvrtc::{Nvrtc, NvrtcError};
pub use digest::DigestKernel;
pub use error::ChunkKernelError;
use pool::{QueuePool, QueueSlot};

/// Threads of a block.
const BLOCK_THREADS: u32 = 256;
/// Bytes of a chunk for each thread, up to [`MAX_BLOCKS`].
const THREAD_BYTES: u64 = 16;
/// Blocks of a launch at most.
const MAX_BLOCKS: u32 = 65_535;

/// A kernel of a user, and its chunks in flight.
///
/// A chunk in flight holds its memory. Chunks in flight when this is dropped are waited for shortly, and leaked with
/// their memory where they do not end.
pub struct ChunkKernel {
    gpu: Arc<Gpu>,
    kernel: CudaKernel,
    pool: QueuePool<()>,
}

impl ChunkKernel {
    /// Compiles a source for a GPU and finds a kernel in it; the module says how the kernel is declared.
    ///
    /// # Errors
    /// [`ChunkKernelError`]: with the compiler's words for a source that does not compile.
    pub fn compile(
        gpu: &Arc<Gpu>,
        nvrtc: &Nvrtc,
        source: &str,
        file_name: &str,
        kernel: &str,
    ) -> Result<Self, ChunkKernelError> {
        let file = || file_name.to_owned();
        let no_kernel = || ChunkKernelError::NoKernel { file: file(), kernel: kernel.to_owned() };
        if !is_identifier(kernel) {
            return Err(no_kernel());
        }
        let name = CString::new(kernel).map_err(|_| no_kernel())?;
        let compute = gpu.facts().compute;
        let image = match nvrtc.compile(&with_declaration(source, kernel), file_name, compute) {
            Err(NvrtcError::Source { words }) => {
                // Where the source alone compiles, it is the declaration that does not fit.
                let alone = nvrtc.compile(source, file_name, compute);
                alone.map_err(|source| ChunkKernelError::Compile { file: file(), source })?;
                let kernel = kernel.to_owned();
                return Err(ChunkKernelError::Signature { file: file(), kernel, words });
            }
            other => other.map_err(|source| ChunkKernelError::Compile { file: file(), source })?,
        };
        let kernel = gpu.module(&image)?.kernel(&name).map_err(|error| match error {
            CudaError::Call { code: NOT_FOUND, .. } => no_kernel(),
            error => error.into(),
        })?;
        Ok(Self { gpu: Arc::clone(gpu), kernel, pool: QueuePool::new() })
    }

    /// Starts the kernel on a range of memory, in a queue of its own. `offset` is the chunk's place in the copy; `tag`
    /// comes back from [`ChunkKernel::finished`].
    ///
    /// # Errors
    /// [`CudaError::Range`] beyond the memory, [`CudaError::OtherGpu`], the error that an earlier chunk ended with;
    /// else the driver's answer. The chunk is not in flight then.
    pub fn start(
        &mut self,
        tag: u64,
        memory: &Arc<DeviceMemory>,
        memory_offset: u64,
        bytes: u64,
        offset: u64,
    ) -> Result<(), CudaError> {
        check(&self.gpu, memory, memory_offset, bytes)?;
        let (gpu, kernel) = (&self.gpu, &self.kernel);
        self.pool.start(
            tag,
            || Ok(QueueSlot { queue: gpu.queue()?, result: () }),
            |slot| {
                let chunk = Argument::Range { memory, offset: memory_offset, length: bytes };
                let arguments = [chunk, Argument::Whole(bytes), Argument::Whole(offset)];
                slot.queue.launch(kernel, grid(bytes), &arguments)
            },
        )
    }

    /// The tag of a chunk that is over, and how it ended; `None` where none is. Never blocks.
    ///
    /// After an error of the driver each chunk in flight ends once with that error. Its memory counts as in use until
    /// the process ends.
    pub fn finished(&mut self) -> Option<(u64, Result<(), CudaError>)> {
        self.pool.finished(|_| Ok(()))
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

/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: i32 = 500;

/// The source followed by a declaration of the kernel, to let the compiler refuse other parameters:
/// the driver would read as many arguments as the kernel has parameters.
fn with_declaration(source: &str, kernel: &str) -> String {
    // Two line ends: a backslash may take the first.
    format!(
        "{source}\n\nextern \"C\" __global__ void {kernel}(unsigned char *chunk, unsigned long long bytes, \
         unsigned long long offset);\n"
    )
}

/// True for a name that C has for functions.
fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_word) && !name.as_bytes()[0].is_ascii_digit()
}

/// Refuses a chunk beyond its memory, and memory of another GPU.
fn check(
    gpu: &Arc<Gpu>,
    memory: &Arc<DeviceMemory>,
    offset: u64,
    bytes: u64,
) -> Result<(), CudaError> {
    let (kernel, memory_gpu) = (gpu.facts().address, memory.gpu().facts().address);
    if kernel != memory_gpu {
        return Err(CudaError::OtherGpu { kernel, memory: memory_gpu });
    }
    within(offset, bytes, memory.length())
}

/// Threads for a chunk.
fn grid(bytes: u64) -> LaunchGrid {
    let blocks = bytes.div_ceil(u64::from(BLOCK_THREADS) * THREAD_BYTES);
    let blocks = u32::try_from(blocks).unwrap_or(MAX_BLOCKS).clamp(1, MAX_BLOCKS);
    LaunchGrid { blocks: [blocks, 1, 1], threads: BLOCK_THREADS }
}

impl fmt::Debug for ChunkKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = self.in_flight();
        f.debug_struct("ChunkKernel")
            .field("kernel", &self.kernel)
            .field("in_flight", &in_flight)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_covers_chunk_to_limit() {
        let blocks = |bytes| grid(bytes).blocks[0];
        assert_eq!([blocks(0), blocks(1), blocks(4096), blocks(4097)], [1, 1, 1, 2]);
        assert_eq!([blocks(1 << 20), blocks(u64::MAX)], [256, MAX_BLOCKS]);
    }

    #[test]
    fn kernel_names_are_identifiers() {
        assert!(["invert", "_x", "a9"].into_iter().all(is_identifier));
        assert!(["", "9a", "a b", "a(", "a\n", "ä"].into_iter().all(|name| !is_identifier(name)));
    }
}
