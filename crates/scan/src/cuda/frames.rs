//! The pixels of a batch of images in one memory of the GPU.
//!
//! Each image has whole blocks of that memory, and its bytes lie in them as they lie in the blocks
//! of its file, so that a direct read needs no other memory.

use std::ops::Range;
use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};

use super::GpuScanError;
use super::staging::{Growing, Staging};
use crate::formats::{PlainPixels, RowOrder};

/// Unit of offsets in the memory: that of direct reads.
const BLOCK: u64 = 4096;

/// Position of the pixels of an image in the memory of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The first pixel of the top row.
    pub(super) begin: i64,
    /// From row to row, downwards.
    pub(super) stride: i64,
}

impl Frame {
    /// Pixels without a gap from an offset on.
    pub(super) fn from_decoded(width: usize, height: usize, offset: u64) -> Self {
        Self { width, height, begin: signed(offset), stride: signed(width as u64) }
    }

    /// Pixels as they lie in a file, from an offset on.
    pub(super) fn from_file(pixels: &PlainPixels, offset: u64) -> Self {
        let PlainPixels { width, height, stride, rows, .. } = *pixels;
        let (begin, stride) = (signed(offset), signed(stride as u64));
        let last = begin + stride * signed(height.saturating_sub(1) as u64);
        match rows {
            RowOrder::TopFirst => Self { width, height, begin, stride },
            RowOrder::BottomFirst => Self { width, height, begin: last, stride: -stride },
        }
    }
}

/// Bytes of the blocks that a range is in.
fn room(range: &Range<u64>) -> u64 {
    range.end.next_multiple_of(BLOCK) - range.start / BLOCK * BLOCK
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Memory of the GPU for the pixels of one batch after the other.
pub(super) struct FrameMemory {
    growing: Growing,
    /// Bytes that are given to images.
    filled: u64,
    /// Bytes of a batch of more than one image.
    most: u64,
}

impl FrameMemory {
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        most: u64,
        staging: &mut Staging,
    ) -> Result<Self, GpuScanError> {
        let mut growing = Growing::new(gpu)?;
        growing.make_room(most, staging)?;
        Ok(Self { growing, filled: 0, most })
    }

    pub(super) fn memory(&self) -> &Arc<DeviceMemory> {
        &self.growing.memory
    }

    /// Begins a new batch.
    pub(super) fn reset(&mut self) {
        self.filled = 0;
    }

    /// Returns the offset for a range of a file; `None` if the batch is full. The first image of a batch may be larger
    /// than a batch.
    ///
    /// # Errors
    /// The GPU has no room for the first image.
    pub(super) fn reserve(
        &mut self,
        range: &Range<u64>,
        staging: &mut Staging,
    ) -> Result<Option<u64>, GpuScanError> {
        let end = self.filled.saturating_add(room(range));
        if self.filled == 0 {
            // Memory is taken while it holds nothing: an image without room may have left little of it.
            self.growing.make_room(end.max(self.most), staging)?;
        } else if end > self.most {
            return Ok(None);
        }
        let begin = self.filled + range.start % BLOCK;
        self.filled = end;
        Ok(Some(begin))
    }
}
