//! Payload completed over time, in a bounded number of samples.

use peerlane_units::{Bytes, Nanos};

/// Most looks that are kept; then every other goes, and half as many come from there on.
const MOST: usize = 96;

/// Looks at the payload that is done, evenly by bytes.
#[derive(Debug, Default)]
pub(super) struct Looks {
    seen: Vec<(Nanos, Bytes)>,
    /// Bytes from a look to the next.
    step: u64,
}

impl Looks {
    /// Is told that so many bytes are done in all.
    pub(super) fn note(&mut self, now: Nanos, done: u64) {
        if self.seen.last().is_some_and(|(_, last)| done < last.0.saturating_add(self.step)) {
            return;
        }
        if self.seen.len() == MOST {
            let mut position = 0;
            self.seen.retain(|_| {
                position += 1;
                position % 2 == 1
            });
            self.step = done / (MOST as u64 / 2);
        }
        self.seen.push((now, Bytes(done)));
    }

    pub(super) fn all(self) -> Vec<(Nanos, Bytes)> {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_stay_few_and_even_however_much_is_moved() {
        let mut looks = Looks::default();
        for block in 1..=100_000u64 {
            looks.note(Nanos(10 * block), 4096 * block);
        }
        let seen = looks.all();
        assert!((MOST / 3..=MOST).contains(&seen.len()), "{}", seen.len());
        assert!(seen.last().unwrap().1.0 > 4096 * 95_000, "the end is seen, too");
        let gaps: Vec<u64> = seen.windows(2).map(|two| two[1].1.0 - two[0].1.0).collect();
        let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
        assert!(*most <= 3 * least, "{least} to {most}");
    }
}
