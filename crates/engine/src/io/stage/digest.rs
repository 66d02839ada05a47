//! The stage `digest`: a digest of each chunk, which leaves the chunk as it is.
//!
//! Chunks end in any order. The caller takes their digests and decides how to keep them: see
//! [`manifest`](crate::transfer::stages::manifest).

use std::collections::VecDeque;

use twox_hash::XxHash3_128;

use super::{Chunk, Stage, StageFault};

/// XXH3 with 128 bits and the seed zero, as `xxh128sum` prints it.
pub(crate) fn chunk_digest(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// Digests of chunks in host memory, by the CPU.
pub struct DigestStage<F> {
    /// Told of each digest: offset of the chunk in the copy, its length, the digest.
    taker: F,
    done: VecDeque<(u64, Result<(), StageFault>)>,
}

impl<F: FnMut(u64, u64, u128) -> Result<(), StageFault>> DigestStage<F> {
    /// A stage that tells `taker` the offset, the length and the digest of each chunk.
    pub fn new(taker: F) -> Self {
        Self { taker, done: VecDeque::new() }
    }
}

impl<F: FnMut(u64, u64, u128) -> Result<(), StageFault>> Stage for DigestStage<F> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        let Some(content) = chunk.content else {
            return Err(StageFault("the CPU does not reach this memory".to_owned()));
        };
        let taken = (self.taker)(chunk.offset, chunk.length, chunk_digest(content));
        self.done.push_back((chunk.tag, taken));
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        self.done.pop_front()
    }
}
