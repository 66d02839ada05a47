//! Codes of a scan, looked up by their first 16 bits (T.81 annex C and F.2.2.3).

use super::bits::Bits;

/// What 16 bits begin with: the low byte is bits to step over, the high one the symbol of a first
/// coefficient, or coefficients that are stepped over.
type Entry = u16;

/// Coefficients after the first one.
const REST: u32 = 63;

/// More coefficients than a block has: the end of a block.
const END: u32 = 64;

pub(super) struct Table(Vec<Entry>);

impl Table {
    /// A table of codes: how many have each length, and their symbols. `None` for one that cannot be.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8], is_ac: bool) -> Option<Self> {
        let mut single = vec![0; 1 << 16];
        let (mut code, mut next) = (0_usize, symbols.iter());
        for (length, count) in (1_u16..).zip(counts) {
            for symbol in next.by_ref().take(usize::from(*count)) {
                let (begin, size) = (code << (16 - length), 1 << (16 - length));
                let entry = u16::from(*symbol) << 8 | length;
                single.get_mut(begin..begin + size)?.fill(entry);
                code += 1;
            }
            code <<= 1;
        }
        Some(Self(if is_ac { steps(&single) } else { single }))
    }

    /// The next symbol; `None` for no code.
    pub(super) fn symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        bits.fill();
        let entry = self.0[bits.peek()];
        let length = u32::from(entry & 0xff);
        if length == 0 {
            return None;
        }
        bits.skip(length);
        Some((entry >> 8).to_be_bytes()[1])
    }

    /// Steps over all coefficients after the first of a block.
    #[inline]
    pub(super) fn skip_block(&self, bits: &mut Bits<'_>) -> Option<()> {
        let mut done = 0;
        loop {
            bits.fill();
            let entry = self.0[bits.peek()];
            let length = u32::from(entry & 0xff);
            if length == 0 {
                return None;
            }
            bits.skip(length);
            done += u32::from(entry >> 8);
            if done >= REST {
                bits.check()?;
                // A run may not lead past the end, other than by the end of the block.
                return (done == REST || done >= END).then_some(());
            }
        }
    }
}

/// Steps out of symbols: a code and the bits of its value together, with what they pass over.
fn steps(single: &[Entry]) -> Vec<Entry> {
    let step = |entry: &Entry| {
        let (symbol, length) = (u32::from(entry >> 8), u32::from(entry & 0xff));
        if length == 0 {
            return 0;
        }
        let passed = match (symbol >> 4, symbol & 15) {
            (15, 0) => 16,
            (_, 0) => END,
            (run, _) => run + 1,
        };
        // At most 16 and 15 bits, and 64 coefficients.
        u16::try_from(passed << 8 | (length + (symbol & 15))).unwrap_or(0)
    };
    single.iter().map(step).collect()
}
