//! Digests of the blocks at both ends of a device, to tell its old content from new content.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// Bytes of each end that are looked at, and of a block.
pub(crate) const END: u64 = 256 << 10;
pub(crate) const BLOCK: u64 = 4096;
/// Digits of one digest.
const DIGITS: usize = 16;

/// One digest (XXH3, 64 bits, hexadecimal) for each block of 4 KiB of the first and the last 256
/// KiB. Every format has something there that changes when it is made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndDigests {
    head: String,
    tail: String,
}

impl EndDigests {
    /// Digests of both ends, each as far as it was read.
    pub(crate) fn new(head: &[u8], tail: &[u8]) -> Self {
        let all = |bytes: &[u8]| {
            bytes.chunks(usize::try_from(BLOCK).unwrap_or(usize::MAX)).map(digest).collect()
        };
        Self { head: all(head), tail: all(tail) }
    }

    /// True when the block at `offset` of a device of `size` bytes is unchanged. `None` for a block
    /// that is in neither end.
    pub(crate) fn is_unchanged(&self, size: u64, offset: u64, block: &[u8]) -> Option<bool> {
        let at = |digests: &str, number: u64| {
            let start = usize::try_from(number).ok()?.checked_mul(DIGITS)?;
            Some(digests.get(start..start.checked_add(DIGITS)?)? == digest(block))
        };
        let tail_start = tail_start(size);
        let in_head = (offset < END).then(|| at(&self.head, offset / BLOCK)).flatten();
        let in_tail = || {
            let number = offset.checked_sub(tail_start)? / BLOCK;
            at(&self.tail, number)
        };
        in_head.or_else(in_tail)
    }
}

/// Returns the offset of the last 256 KiB of a device, in whole blocks.
pub(crate) fn tail_start(size: u64) -> u64 {
    size.saturating_sub(END) / BLOCK * BLOCK
}

fn digest(block: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_blocks_of_either_end_are_told() {
        let size = 8 << 20;
        let (head, mut tail) = (vec![1; 256 << 10], vec![2; 256 << 10]);
        tail[4096..8192].fill(3);
        let digests = EndDigests::new(&head, &tail);
        let is_unchanged = |offset, byte| digests.is_unchanged(size, offset, &[byte; 4096]);
        assert_eq!(is_unchanged(0, 1), Some(true));
        assert_eq!(is_unchanged((256 << 10) - 4096, 2), Some(false));
        assert_eq!(is_unchanged(256 << 10, 1), None, "between the ends");
        assert_eq!(is_unchanged((8 << 20) - (256 << 10), 2), Some(true));
        assert_eq!(is_unchanged((8 << 20) - (252 << 10), 3), Some(true));
        assert_eq!(is_unchanged((8 << 20) - (252 << 10), 2), Some(false));
    }

    #[test]
    fn short_devices_have_one_end() {
        let digests = EndDigests::new(&[1; 5000], &[1; 5000]);
        assert_eq!(digests.is_unchanged(5000, 4096, &[1; 904]), Some(true));
        assert_eq!(digests.is_unchanged(5000, 4096, &[1; 903]), Some(false));
    }
}
