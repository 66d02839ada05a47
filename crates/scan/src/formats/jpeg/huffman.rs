//! Codes of a scan, looked up by the bits that come next (T.81 annex C and F.2.2.3).
//!
//! A small table that stays in the nearest cache has several codes an entry where they fit into its
//! bits; a large one has every code by itself.

use super::bits::Bits;

/// Result of looking up the next bits. The low byte is the number of bits to step over. The high
/// one is the symbol of a first coefficient, or the coefficients that are stepped over. Zero where
/// there is no code.
type Entry = u16;

/// Coefficients after the first one.
const REST: u32 = 63;

/// More coefficients than a block has: the end of a block.
const END: u32 = 64;

/// Bits that the small table is looked up by.
const NEAR: u32 = 12;

pub(super) struct HuffmanTable {
    near: Vec<Entry>,
    whole: Vec<Entry>,
}

impl HuffmanTable {
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
        if is_ac {
            let whole = steps(&single);
            return Some(Self { near: several(&whole, &single), whole });
        }
        Some(Self { near: several(&[], &single), whole: single })
    }

    /// Looks up the code that the next bits begin with, one code alone.
    fn one(&self, bits: &Bits<'_>) -> Option<(u32, u32)> {
        parts(self.whole[bits.peek()])
    }

    /// The next symbol; `None` for no code.
    #[inline]
    pub(super) fn symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        bits.fill();
        let near = parts(self.near[bits.peek() >> (16 - NEAR)]);
        let (length, symbol) = if near.is_some() { near? } else { self.one(bits)? };
        bits.skip(length);
        Some(symbol.to_be_bytes()[3])
    }

    /// Steps over all coefficients after the first of a block.
    #[inline]
    pub(super) fn skip_block(&self, bits: &mut Bits<'_>) -> Option<()> {
        let mut done = 0;
        loop {
            bits.fill();
            if let Some((length, passed)) = parts(self.near[bits.peek() >> (16 - NEAR)]) {
                let total = done + passed;
                // Of several codes the last may belong to the next block: then one by one.
                if total < REST || passed < END && total == REST {
                    bits.skip(length);
                    done = total;
                    if done == REST {
                        return bits.check();
                    }
                    continue;
                }
                if passed >= END && total - END < REST {
                    bits.skip(length);
                    return bits.check();
                }
            }
            let (length, passed) = self.one(bits)?;
            bits.skip(length);
            done += passed;
            if done >= REST {
                bits.check()?;
                // A run may not lead past the end, other than by the end of the block.
                return (done == REST || passed == END).then_some(());
            }
        }
    }
}

fn parts(entry: Entry) -> Option<(u32, u32)> {
    (entry != 0).then_some((u32::from(entry & 0xff), u32::from(entry >> 8)))
}

/// Steps from symbols: a code and the bits of its value together, and the coefficients passed over.
fn steps(single: &[Entry]) -> Vec<Entry> {
    let step = |entry: &Entry| {
        let Some((length, symbol)) = parts(*entry) else { return 0 };
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

/// The small table: codes of at most [`NEAR`] bits, and of `steps` as many together as lie in them.
fn several(steps: &[Entry], single: &[Entry]) -> Vec<Entry> {
    let entry = |near: usize| {
        let bits = near << (16 - NEAR);
        let code = parts(single[bits]).filter(|(length, _)| *length <= NEAR);
        if code.is_none() || steps.is_empty() {
            return code.map_or(0, |_| single[bits]);
        }
        let (mut length, mut passed) = parts(steps[bits]).unwrap_or_default();
        while length < NEAR && passed < END {
            let rest = bits << length & 0xffff;
            // What passes over as much as the end of a block is the end of a block.
            let fits = |(more, over): &(u32, u32)| {
                length + more <= NEAR && (*over == END || passed + over < END)
            };
            match parts(steps[rest]).filter(fits) {
                Some((more, over)) => (length, passed) = (length + more, passed + over),
                None => break,
            }
        }
        u16::try_from(passed << 8 | length).unwrap_or(0)
    };
    (0..1 << NEAR).map(entry).collect()
}
