//! A range of a file as requests: whole blocks to where they belong or close by, the rest by way of host memory.

use super::Rules;

/// Largest range, in bytes of its blocks, that is read by one request and copied.
const SMALL: u64 = 64 << 10;

/// Route of a piece to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceRoute {
    /// The request names the place.
    InPlace,
    /// The request names memory of the caller so many bytes behind the place, aligned for direct
    /// I/O; the bytes there belong to the pieces that follow, so pieces are moved in their order.
    Shifted(u64),
    /// The request names host memory of our own.
    Copied,
}

/// Bytes that one request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadPiece {
    /// Offset in the file, a multiple of the block.
    pub(super) offset: u64,
    /// Bytes that must be read from there.
    pub(super) need: u64,
    /// Bytes of them, at the beginning, that were not asked for.
    pub(super) skip: u64,
    /// Offset in the caller's memory of the first byte that was asked for.
    pub(super) place: u64,
    pub(super) way: PieceRoute,
}

impl ReadPiece {
    /// Bytes that were asked for.
    pub(super) fn length(&self) -> u64 {
        self.need - self.skip
    }
}

/// The pieces of a range, in order.
#[derive(Debug, Clone)]
pub(super) struct ReadPieces {
    rules: Rules,
    start: u64,
    at: u64,
    end: u64,
    /// Bytes from the place of a block to the next place that a request may name; `None` without
    /// one.
    shift: Option<u64>,
    /// Bytes of its blocks, where one piece by way of host memory reads all of them.
    small: Option<u64>,
}

impl ReadPieces {
    /// The pieces of `length` bytes at `offset` of the file, for memory at `address`.
    pub(super) fn new(rules: Rules, offset: u64, length: u64, address: u64) -> Self {
        let past = address.wrapping_sub(offset) % rules.alignment;
        let shift = (rules.block % rules.alignment == 0).then(|| match past {
            0 => 0,
            past => rules.alignment - past,
        });
        let end = offset.saturating_add(length);
        let is_in_place = shift == Some(0) && (offset | end) % rules.block == 0;
        let first = offset / rules.block * rules.block;
        let blocks = end.div_ceil(rules.block).saturating_mul(rules.block) - first;
        let is_small = !is_in_place && blocks <= SMALL.min(rules.request);
        Self { rules, start: offset, at: offset, end, shift, small: is_small.then_some(blocks) }
    }

    /// Bytes of host memory that a piece may need.
    pub(super) fn room(&self) -> u64 {
        match (self.small, self.shift) {
            (Some(blocks), _) => blocks,
            (None, Some(_)) => self.rules.block,
            (None, None) => self.rules.request,
        }
    }
}

impl Iterator for ReadPieces {
    type Item = ReadPiece;

    fn next(&mut self) -> Option<ReadPiece> {
        if self.at >= self.end {
            return None;
        }
        let Rules { block, request, .. } = self.rules;
        let (place, offset) = (self.at - self.start, self.at / block * block);
        let (skip, rest) = (self.at - offset, self.end - offset);
        if self.small.is_some() {
            self.at = self.end;
            return Some(ReadPiece { offset, need: rest, skip, place, way: PieceRoute::Copied });
        }
        // What is shifted must not reach behind the memory, nor a request behind the range.
        let whole = self.shift.map_or(0, |shift| rest.saturating_sub(shift) / block * block);
        let piece = match self.shift {
            Some(shift) if skip == 0 && whole > 0 => {
                let way = if shift == 0 { PieceRoute::InPlace } else { PieceRoute::Shifted(shift) };
                ReadPiece { offset, need: request.min(whole), skip, place, way }
            }
            _ => ReadPiece {
                offset,
                need: self.room().min(rest),
                skip,
                place,
                way: PieceRoute::Copied,
            },
        };
        self.at = offset + piece.need;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules { block: 512, alignment: 4, request: 4096, is_direct: true };

    fn ways(rules: Rules, offset: u64, length: u64, address: u64) -> Vec<(u64, u64, PieceRoute)> {
        let pieces = ReadPieces::new(rules, offset, length, address);
        pieces.map(|piece| (piece.offset, piece.need, piece.way)).collect()
    }

    #[test]
    fn whole_blocks_go_in_place() {
        use PieceRoute::{Copied, InPlace};
        assert_eq!(
            ways(RULES, 100, 9000, 4096 + 100),
            [(0, 512, Copied), (512, 4096, InPlace), (4608, 4096, InPlace), (8704, 396, Copied)]
        );
        assert_eq!(ways(RULES, 0, 512, 64), [(0, 512, InPlace)]);
        assert_eq!(ways(RULES, 510, 1, 510), [(0, 511, Copied)]);
    }

    #[test]
    fn odd_memory_gets_blocks_shifted() {
        use PieceRoute::{Copied, Shifted};
        assert_eq!(
            ways(RULES, 100, 9000, 4096 + 101),
            [
                (0, 512, Copied),
                (512, 4096, Shifted(3)),
                (4608, 4096, Shifted(3)),
                (8704, 396, Copied)
            ]
        );
        // The last block would reach three bytes behind the memory.
        assert_eq!(ways(RULES, 0, 4608, 1), [(0, 4096, Shifted(3)), (4096, 512, Copied)]);
    }

    #[test]
    fn small_ranges_of_odd_ends_are_one_request() {
        use PieceRoute::{Copied, InPlace};
        let rules = Rules { block: 512, alignment: 512, request: 1 << 20, is_direct: true };
        assert_eq!(ways(rules, 100, 6000, 100), [(0, 6100, Copied)]);
        assert_eq!(ways(rules, 0, 64 << 10, 8), [(0, 64 << 10, Copied)]);
        assert_eq!(ways(rules, 512, 6144, 512), [(512, 6144, InPlace)]);
        let larger = (64 << 10) + 1;
        assert_eq!(ways(rules, 0, larger, 0), [(0, 64 << 10, InPlace), (64 << 10, 1, Copied)]);
        assert_eq!(ReadPieces::new(rules, 100, 6000, 100).room(), 6144);
    }

    #[test]
    fn blocks_below_the_alignment_are_copied() {
        let odd = Rules { alignment: 4096, ..RULES };
        assert_eq!(
            ways(odd, 0, 5000, 0),
            [(0, 4096, PieceRoute::Copied), (4096, 904, PieceRoute::Copied)]
        );
    }

    #[test]
    fn the_page_cache_takes_any_place() {
        let cached = Rules { block: 1, alignment: 1, request: 4096, is_direct: false };
        let pieces = ways(cached, 3, 5000, 7);
        assert_eq!(pieces, [(3, 4096, PieceRoute::InPlace), (4099, 904, PieceRoute::InPlace)]);
    }

    proptest! {
        #[test]
        fn bytes_are_read_once_in_place(
            block in prop::sample::select(vec![1_u64, 512, 4096]),
            alignment in prop::sample::select(vec![1_u64, 4, 512, 4096]),
            blocks in 1_u64..20,
            offset in 0_u64..20_000,
            length in 0_u64..200_000,
            address in 0_u64..10_000,
        ) {
            let rules = Rules { block, alignment, request: block * blocks, is_direct: true };
            let pieces = ReadPieces::new(rules, offset, length, address);
            let room = pieces.room();
            let mut next = 0;
            for piece in pieces {
                prop_assert_eq!(piece.place, next);
                prop_assert_eq!(piece.offset + piece.skip, offset + next);
                prop_assert_eq!(piece.offset % block, 0);
                prop_assert!(piece.length() > 0 && piece.need <= rules.request);
                match piece.way {
                    PieceRoute::InPlace => {
                        prop_assert_eq!((piece.skip, piece.need % block), (0, 0));
                        prop_assert_eq!((address + piece.place) % alignment, 0);
                    }
                    PieceRoute::Shifted(shift) => {
                        prop_assert_eq!((piece.skip, piece.need % block), (0, 0));
                        prop_assert_eq!((address + piece.place + shift) % alignment, 0);
                        prop_assert!(shift > 0 && piece.place + shift + piece.need <= length);
                    }
                    PieceRoute::Copied => prop_assert!(piece.need <= room),
                }
                next += piece.length();
            }
            prop_assert_eq!(next, length);
        }
    }
}
