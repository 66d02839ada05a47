//! A kernel of an FPGA card that works on chunks in the card's own memory.

use peerlane_memory::xrt::{CardBuffer, CardKernel};

use super::{Chunk, Stage, StageFault};

/// Chunks that a card works on at a time: each has a run of its own.
const ROOM: usize = 64;

/// A kernel of a card.
pub struct CardStage {
    kernel: CardKernel,
    buffer: CardBuffer,
}

impl CardStage {
    /// A stage by an open kernel, on slots in this buffer of the same card.
    pub fn new(kernel: CardKernel, buffer: CardBuffer) -> Self {
        Self { kernel, buffer }
    }
}

impl Stage for CardStage {
    fn room(&self) -> usize {
        ROOM.saturating_sub(self.kernel.in_flight())
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        let Chunk { tag, offset, length, memory_offset, .. } = chunk;
        let started = self.kernel.start(tag, &self.buffer, memory_offset, length, offset);
        started.map_err(|error| StageFault(error.to_string()))
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        let (tag, ended) = self.kernel.finished()?;
        Some((tag, ended.map_err(|error| StageFault(error.to_string()))))
    }
}
