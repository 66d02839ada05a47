//! Sectors that say who wrote them, for benchmarks and proofs.
//!
//! Each sector of 512 bytes begins with a mark and two numbers, and all the rest follows from
//! those. So a sector is recognised wherever it lies and however it came there, and a sector with a
//! single changed byte is not. The rest is random: a drive that compresses gains no more than the
//! header. A stamped sector holds nothing that a person may miss.

use crate::io::random::Random;

/// Bytes of a sector, the smallest block of any drive.
pub(crate) const SECTOR: usize = 512;

/// Writer of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// A benchmark, to a drive that `--scratch` named.
    Benchmark,
    /// The proof of a route, to the first block of a copy's target.
    Proof,
}

impl Stamp {
    const fn mark(self) -> &'static [u8; 16] {
        match self {
            Self::Benchmark => b"peerlane bench 1",
            Self::Proof => b"peerlane proof 1",
        }
    }

    /// Fills bytes with stamped sectors, numbered from zero. `seed` tells contents apart.
    pub(crate) fn fill(self, seed: u64, bytes: &mut [u8]) {
        self.fill_from(0, seed, bytes);
    }

    /// Continues [`Self::fill`] at the sector numbered `first`.
    pub(crate) fn fill_from(self, first: u64, seed: u64, bytes: &mut [u8]) {
        for (number, sector) in (first..).zip(bytes.chunks_mut(SECTOR)) {
            self.fill_sector(seed, number, sector);
        }
    }

    fn fill_sector(self, seed: u64, number: u64, sector: &mut [u8]) {
        let mut whole = [0; SECTOR];
        whole[..16].copy_from_slice(self.mark());
        whole[16..24].copy_from_slice(&seed.to_le_bytes());
        whole[24..32].copy_from_slice(&number.to_le_bytes());
        let key = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random::new(key).fill(&mut whole[32..]);
        sector.copy_from_slice(&whole[..sector.len()]);
    }

    /// True when bytes equal those of [`Self::fill`] for a seed.
    pub(crate) fn is_filled(self, seed: u64, bytes: &[u8]) -> bool {
        bytes.chunks(SECTOR).enumerate().all(|(number, sector)| {
            let mut expected = [0; SECTOR];
            self.fill_sector(seed, number as u64, &mut expected);
            *sector == expected[..sector.len()]
        })
    }

    /// True when all sectors of these bytes carry this stamp, of any content.
    pub(crate) fn is_on(self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && bytes.chunks(SECTOR).all(|sector| self.is_on_sector(sector))
    }

    fn is_on_sector(self, sector: &[u8]) -> bool {
        if sector.len() != SECTOR || sector[..16] != *self.mark() {
            return false;
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&sector[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut expected = [0; SECTOR];
        self.fill_sector(word(16), word(24), &mut expected);
        *sector == expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(stamp: Stamp) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        stamp.fill(7, &mut bytes);
        bytes
    }

    #[test]
    fn stamped_sectors_are_recognised_anywhere() {
        let bytes = filled(Stamp::Benchmark);
        assert!(Stamp::Benchmark.is_on(&bytes));
        assert!(Stamp::Benchmark.is_on(&bytes[512..1536]));
        assert!(Stamp::Benchmark.is_filled(7, &bytes));
        assert!(!Stamp::Benchmark.is_filled(8, &bytes));
        assert!(!Stamp::Proof.is_on(&bytes));
    }

    #[test]
    fn one_changed_byte_is_not_stamped() {
        for at in [0, 16, 31, 32, 511, 4096] {
            let mut bytes = filled(Stamp::Proof);
            bytes[at] ^= 1;
            assert!(!Stamp::Proof.is_on(&bytes), "{at}");
        }
    }

    #[test]
    fn parts_of_sectors_are_not_stamped() {
        let bytes = filled(Stamp::Benchmark);
        assert!(!Stamp::Benchmark.is_on(&bytes[..100]));
        assert!(!Stamp::Benchmark.is_on(&bytes[8..520]));
        assert!(!Stamp::Benchmark.is_on(&[]));
        assert!(Stamp::Benchmark.is_filled(7, &bytes[..100]), "a request may end within a sector");
    }

    #[test]
    fn sectors_differ_by_number_and_seed() {
        let mut other = vec![0; 8192];
        Stamp::Benchmark.fill(8, &mut other);
        let bytes = filled(Stamp::Benchmark);
        assert_ne!(bytes[32..512], bytes[512 + 32..1024]);
        assert_ne!(bytes[32..512], other[32..512]);
    }
}
