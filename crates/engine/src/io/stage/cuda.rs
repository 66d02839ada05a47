//! Stages on a GPU: a kernel of a user, and the digest of chunks that rest there.

use std::sync::Arc;

use peerlane_memory::cuda::{ChunkKernel, DeviceMemory, DigestKernel};

use super::{Chunk, Stage, StageFault};

/// Chunks that a GPU works on at a time: each has a stream of its own.
const ROOM: usize = 64;

/// A kernel of a user that works on chunks in memory of a GPU.
pub(crate) struct CudaStage {
    kernel: ChunkKernel,
    memory: Arc<DeviceMemory>,
}

impl CudaStage {
    /// A stage by a compiled kernel, on slots in this memory.
    pub(crate) fn new(kernel: ChunkKernel, memory: Arc<DeviceMemory>) -> Self {
        Self { kernel, memory }
    }
}

impl Stage for CudaStage {
    fn room(&self) -> usize {
        ROOM.saturating_sub(self.kernel.in_flight())
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        let Chunk { tag, offset, length, memory_offset, .. } = chunk;
        let started = self.kernel.start(tag, &self.memory, memory_offset, length, offset);
        started.map_err(|error| StageFault(error.to_string()))
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        let (tag, ended) = self.kernel.finished()?;
        Some((tag, ended.map_err(|error| StageFault(error.to_string()))))
    }

    fn cancel(&mut self) -> bool {
        self.kernel.settle()
    }
}

/// Digests of chunks in memory of a GPU, by its own kernel.
pub(crate) struct CudaDigest<F> {
    digest: DigestKernel,
    memory: Arc<DeviceMemory>,
    /// Told of each digest: offset of the chunk in the copy, its length, the digest.
    taker: F,
    /// Tag, offset and length of the chunks under way.
    open: Vec<(u64, u64, u64)>,
}

impl<F: FnMut(u64, u64, u128) -> Result<(), StageFault>> CudaDigest<F> {
    /// A stage that tells `taker` the offset, the length and the digest of each chunk.
    pub(crate) fn new(digest: DigestKernel, memory: Arc<DeviceMemory>, taker: F) -> Self {
        Self { digest, memory, taker, open: Vec::new() }
    }
}

impl<F: FnMut(u64, u64, u128) -> Result<(), StageFault>> Stage for CudaDigest<F> {
    fn room(&self) -> usize {
        ROOM.saturating_sub(self.digest.in_flight())
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        let started = self.digest.start(chunk.tag, &self.memory, chunk.memory_offset, chunk.length);
        started.map_err(|error| StageFault(error.to_string()))?;
        self.open.push((chunk.tag, chunk.offset, chunk.length));
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        let (tag, ended) = self.digest.finished()?;
        let at = self.open.iter().position(|(one, ..)| *one == tag)?;
        let (_, offset, length) = self.open.swap_remove(at);
        let taken = match ended {
            Ok(bytes) => (self.taker)(offset, length, u128::from_be_bytes(bytes)),
            Err(error) => Err(StageFault(error.to_string())),
        };
        Some((tag, taken))
    }

    fn cancel(&mut self) -> bool {
        self.digest.settle()
    }
}
