//! Cuts a transfer into parts, and checks that it adds up.

use std::ops::Range;

use peerlane_results::Tail;

use super::Transfer;

/// The longest request: the kernel moves at most 2 GiB less a page at once (`MAX_RW_COUNT`).
const REQUEST_MAX: u64 = 1 << 30;

/// Reason why a transfer does not add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeFault {
    /// A block is not a power of two.
    #[error("a block of {block} bytes is not a power of two")]
    Block {
        /// The block.
        block: u64,
    },
    /// An offset is not a multiple of its file's block.
    #[error("offset {offset} is not a multiple of the block, {block} bytes")]
    Offset {
        /// The offset.
        offset: u64,
        /// The block.
        block: u64,
    },
    /// The request is empty, above 1 GiB, or no multiple of both blocks.
    #[error("a request of {request} bytes is not a multiple of {block} bytes up to 1 GiB")]
    Request {
        /// The request.
        request: u64,
        /// The larger block.
        block: u64,
    },
    /// The slots overlap, do not fit the region, or there are none; or there is no such region.
    #[error("{slots} slots of {stride} bytes do not fit a region of {region_length} bytes")]
    Slots {
        /// Slots.
        slots: u32,
        /// From one to the next.
        stride: u64,
        /// Length of the region.
        region_length: u64,
    },
    /// The end is not a whole block and the tail does not say how to write it.
    #[error(
        "{length} bytes end within a block of {block} bytes, which a {tail:?} tail cannot write"
    )]
    Tail {
        /// The length.
        length: u64,
        /// The block.
        block: u64,
        /// The tail.
        tail: Tail,
    },
    /// The transfers are none, too many, or differ in more than their targets.
    #[error("{count} transfers do not go together: 1 to 16 that differ in their targets only")]
    Targets {
        /// Number of transfers.
        count: usize,
    },
    /// The copy reaches beyond the largest offset of a file.
    #[error("{length} bytes from offset {offset} reach beyond the largest offset of a file")]
    TooLong {
        /// The offset.
        offset: u64,
        /// The length.
        length: u64,
    },
}

/// A part of the copy that one slot carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyPart {
    /// Offset in the copy.
    pub(super) offset: u64,
    /// Bytes of the copy.
    pub(super) length: u64,
    pub(super) kind: PartKind,
}

/// Treatment of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// It is read and written.
    Move,
    /// The target's block is read first, and payload over it.
    Merge,
    /// The target makes it zero by itself.
    Zero,
    /// Zeroes are written out of host memory.
    WriteZeroes,
}

/// Bytes of a copy that all targets take together; behind them each has a tail of its own.
pub(super) fn shared_length(transfers: &[Transfer]) -> u64 {
    let Some(first) = transfers.first() else { return 0 };
    let merges = |one: &Transfer| matches!(one.tail, Tail::MergeInSlot | Tail::MergeInHost);
    if !transfers.iter().any(merges) {
        return first.length;
    }
    let blocks = transfers.iter().flat_map(|one| [one.source_block, one.target_block]);
    let block = blocks.max().unwrap_or(1);
    // A chunk of a stage is one part, which is merged as a whole.
    let unit = if first.stages > 0 { first.request } else { block };
    first.length / unit * unit
}

impl CopyPart {
    pub(super) fn end(self) -> u64 {
        self.offset + self.length
    }
}

impl Transfer {
    /// Bytes before the part that is merged: whole target blocks, or whole chunks of stages.
    pub(crate) fn body(&self) -> u64 {
        let unit = if self.stages > 0 { self.request } else { self.target_block };
        self.length / unit * unit
    }

    /// Bytes that the relay moves: all but a tail that is merged in host memory.
    pub(crate) fn relayed(&self) -> u64 {
        if self.tail == Tail::MergeInHost { self.body() } else { self.length }
    }

    /// The first part of a range of the copy, or `None` when nothing of it is to be relayed.
    pub(super) fn part(&self, range: &Range<u64>) -> Option<CopyPart> {
        let whole = if self.tail == Tail::MergeInSlot { self.body() } else { self.relayed() };
        let offset = range.start;
        let part = |end: u64, kind| {
            let length = end.min(range.end).saturating_sub(offset).min(self.request);
            (length > 0).then_some(CopyPart { offset, length, kind })
        };
        part(whole, PartKind::Move).or_else(|| part(self.relayed(), PartKind::Merge))
    }

    pub(super) fn check(&self, region_length: Option<u64>) -> Result<(), ShapeFault> {
        for block in [self.source_block, self.target_block] {
            if !block.is_power_of_two() || block > REQUEST_MAX {
                return Err(ShapeFault::Block { block });
            }
        }
        for (offset, block) in
            [(self.source_offset, self.source_block), (self.target_offset, self.target_block)]
        {
            if offset % block != 0 {
                return Err(ShapeFault::Offset { offset, block });
            }
            let length = self.length;
            let end = offset.checked_add(length).and_then(|end| end.checked_add(block));
            if end.is_none_or(|end| i64::try_from(end).is_err()) {
                return Err(ShapeFault::TooLong { offset, length });
            }
        }
        let (request, block) = (self.request, self.source_block.max(self.target_block));
        if request == 0 || request > REQUEST_MAX || request % block != 0 {
            return Err(ShapeFault::Request { request, block });
        }
        self.check_slots(region_length.unwrap_or(0))?;
        self.check_tail()
    }

    fn check_slots(&self, region_length: u64) -> Result<(), ShapeFault> {
        let (slots, stride) = (self.slots, self.slot_stride);
        let end = u64::from(slots)
            .checked_sub(1)
            .and_then(|before| before.checked_mul(stride))
            .and_then(|start| start.checked_add(self.request));
        match end {
            Some(end) if end <= region_length && stride >= self.request => Ok(()),
            _ => Err(ShapeFault::Slots { slots, stride, region_length }),
        }
    }

    fn check_tail(&self) -> Result<(), ShapeFault> {
        let block = match self.tail {
            Tail::None => self.target_block,
            // Whatever lies behind the payload in the source's last block would end up in the target.
            Tail::MergeInSlot => self.source_block,
            Tail::RoundUpAndCut | Tail::MergeInHost => return Ok(()),
        };
        let (length, tail) = (self.length, self.tail);
        if length % block == 0 { Ok(()) } else { Err(ShapeFault::Tail { length, block, tail }) }
    }
}
