//! Bits of a scan, first bit of a byte first, without stuffed bytes (T.81 F.1.2.3).

pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// Bits that are read next, from the top.
    held: u64,
    count: u32,
    /// Zeroes that were made up past the end; real ones are never more than one word behind.
    beyond: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, held: 0, count: 0, beyond: 0 }
    }

    /// Makes sure of 32 bits at least, a code and its value; zeroes past the end of the scan.
    #[inline]
    pub(super) fn fill(&mut self) {
        if self.count >= 32 {
            return;
        }
        if let Some(word) = self.data[self.at..].first_chunk::<8>() {
            let word = u64::from_be_bytes(*word);
            // No byte of it is 0xff: then none of the inverse is zero.
            if !has_zero_byte(!word) {
                let bytes = (64 - self.count) / 8;
                self.held |= (word >> (64 - 8 * bytes)) << (64 - 8 * bytes) >> self.count;
                self.at += bytes as usize;
                self.count += 8 * bytes;
                return;
            }
        }
        while self.count <= 56 {
            self.held |= u64::from(self.next_byte()) << (56 - self.count);
            self.count += 8;
        }
    }

    fn next_byte(&mut self) -> u8 {
        match self.data[self.at..] {
            [0xff, 0x00, ..] => {
                self.at += 2;
                0xff
            }
            // A marker, or the end.
            [0xff, ..] | [] => {
                self.beyond += 8;
                0
            }
            [byte, ..] => {
                self.at += 1;
                byte
            }
        }
    }

    /// The next 16 bits; [`Bits::fill`] was called before.
    #[inline]
    pub(super) fn peek(&self) -> usize {
        (self.held >> 48) as usize
    }

    /// Steps over at most 32 bits of those that were filled.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.held <<= count;
        self.count = self.count.saturating_sub(count);
    }

    /// `None` when more was read than there is.
    #[inline]
    pub(super) fn check(&self) -> Option<()> {
        (self.beyond <= self.count).then_some(())
    }

    /// A difference of `size` bits (T.81 F.2.2.1, EXTEND).
    #[inline]
    pub(super) fn signed(&mut self, size: u32) -> Option<i32> {
        if size == 0 {
            return Some(0);
        }
        if size > 15 {
            return None;
        }
        self.fill();
        let raw = i32::try_from(self.held >> (64 - size)).ok()?;
        self.skip(size);
        self.check()?;
        Some(if raw < 1 << (size - 1) { raw - (1 << size) + 1 } else { raw })
    }

    /// Past the next restart marker (T.81 E.1.4); `None` where there is none.
    pub(super) fn restarted(self) -> Option<Self> {
        // Whole bytes that were taken beforehand are before the marker: it ends what can be taken.
        let rest = &self.data[self.at..];
        let at = rest.windows(2).position(|pair| pair[0] == 0xff && pair[1] != 0)?;
        matches!(rest[at + 1], 0xd0..=0xd7).then(|| Self::new(&rest[at + 2..]))
    }
}

/// Mycroft's test (1987).
fn has_zero_byte(word: u64) -> bool {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0
}
