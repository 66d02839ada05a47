//! Overwritten ranges of drives and files.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges by the name of the drive or file; those that touch are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct OverwrittenRanges(BTreeMap<String, Vec<Range<u64>>>);

impl OverwrittenRanges {
    /// Adds a range.
    pub(crate) fn add(&mut self, name: &str, range: Range<u64>) {
        let all = self.0.entry(name.to_owned()).or_default();
        let mut whole = range;
        all.retain(|one| {
            let is_apart = one.end < whole.start || whole.end < one.start;
            if !is_apart {
                whole = whole.start.min(one.start)..whole.end.max(one.end);
            }
            is_apart
        });
        let place = all.partition_point(|one| one.start < whole.start);
        all.insert(place, whole);
    }

    /// Forgets a file that is there no more.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Each range in words.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let ranges = self.0.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one)));
        ranges.map(|(name, one)| {
            format!("overwritten: {name} from byte {} to {}", one.start, one.end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_are_merged() {
        let mut found = OverwrittenRanges::default();
        for range in [0..4, 8..12, 20..24, 4..6, 11..16] {
            found.add("b", range);
        }
        found.add("a", 0..1);
        found.add("c", 0..1);
        found.remove("c");
        let lines: Vec<String> = found.lines().collect();
        let of = |name: &str, start: u64, end: u64| {
            format!("overwritten: {name} from byte {start} to {end}")
        };
        assert_eq!(lines, [of("a", 0, 1), of("b", 0, 6), of("b", 8, 16), of("b", 20, 24)]);
    }
}
