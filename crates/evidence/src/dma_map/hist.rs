//! The text of a histogram of trace events (`Documentation/trace/histogram.rst`, "'hist' trigger examples").

use std::collections::BTreeMap;

/// One trigger's histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// The trigger as the kernel repeats it, its filter included.
    pub(super) trigger: String,
    /// The rows, in the kernel's order.
    pub(super) rows: Vec<HistogramRow>,
    /// Events that had no room in the table.
    pub(super) dropped: u64,
}

/// One row of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HistogramRow {
    keys: BTreeMap<String, String>,
    values: BTreeMap<String, u64>,
}

impl HistogramRow {
    /// The text of a key, its padding removed; empty where there is no such key.
    pub(super) fn key(&self, name: &str) -> &str {
        self.keys.get(name).map_or("", |text| text.as_str())
    }

    /// A sum; zero where there is no such value.
    pub(super) fn value(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// First and last value of a key that is counted in buckets: `~ 4096-8191`.
    pub(super) fn bucket(&self, name: &str) -> Option<(u64, u64)> {
        let (first, last) = self.key(name).strip_prefix('~')?.trim().split_once('-')?;
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    }
}

/// Reads the `hist` file of an event: one histogram a trigger.
pub(super) fn parse(text: &str) -> Vec<Histogram> {
    let mut histograms: Vec<Histogram> = Vec::new();
    for line in text.lines() {
        if let Some(trigger) = line.strip_prefix("# trigger info: ") {
            let trigger = trigger.to_owned();
            histograms.push(Histogram { trigger, ..Histogram::default() });
        }
        let Some(histogram) = histograms.last_mut() else { continue };
        if let Some(row) = row(line) {
            histogram.rows.push(row);
        } else if let Some(dropped) = line.trim().strip_prefix("Dropped:") {
            // A number that cannot be read is not zero.
            histogram.dropped = dropped.trim().parse().unwrap_or(u64::MAX);
        }
    }
    histograms
}

/// `{ device: 0000:03:00.0   , dir:          2 } hitcount:        130  size:   67141632`
fn row(line: &str) -> Option<HistogramRow> {
    let (keys, values) = line.strip_prefix('{')?.rsplit_once('}')?;
    let key = |part: &str| {
        let (name, text) = part.split_once(':')?;
        Some((name.trim().to_owned(), text.trim().to_owned()))
    };
    let mut words = values.split_whitespace();
    let mut sums = BTreeMap::new();
    while let (Some(name), Some(sum)) = (words.next(), words.next()) {
        sums.insert(name.strip_suffix(':')?.to_owned(), sum.parse().ok()?);
    }
    Some(HistogramRow { keys: keys.split(',').filter_map(key).collect(), values: sums })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "# event histogram
#
# trigger info: hist:keys=device,dir,phys_addr.buckets=2097152:vals=hitcount,size:sort=hitcount:size=16384 [active]
#

{ device: 0000:03:00.0   , dir:          2, phys_addr: ~ 4160749568-4162846719 } hitcount:        130  size:   67141632

Totals:
    Hits: 130
    Entries: 1
    Dropped: 3


# event histogram
#
# trigger info: hist:keys=map:vals=hitcount:sort=hitcount:size=2048 if client == \"0000:03:00.0\" [active]
#

{ map:          4 } hitcount:        130

Totals:
    Hits: 130
    Entries: 1
    Dropped: 0
";

    #[test]
    fn histograms_of_two_triggers_are_read() {
        let found = parse(TEXT);
        let [maps, decisions] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((maps.rows.len(), maps.dropped), (1, 3));
        let row = &maps.rows[0];
        assert_eq!((row.key("device"), row.key("dir")), ("0000:03:00.0", "2"));
        assert_eq!(row.bucket("phys_addr"), Some((4_160_749_568, 4_162_846_719)));
        assert_eq!((row.value("hitcount"), row.value("size")), (130, 67_141_632));
        assert!(decisions.trigger.contains("\"0000:03:00.0\""), "{decisions:?}");
        assert_eq!((decisions.rows[0].key("map"), decisions.dropped), ("4", 0));
    }

    #[test]
    fn unreadable_drop_count_is_not_zero() {
        let found = parse("# trigger info: hist:keys=map\n    Dropped: many\n");
        assert_eq!(found[0].dropped, u64::MAX);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "(?s).*", rows in "[{}a-z0-9:,~ \n-]*") {
            for text in [text.clone(), format!("# trigger info: {text}\n{rows}")] {
                for row in parse(&text).iter().flat_map(|one| &one.rows) {
                    let _ = (row.bucket("phys_addr"), row.value("size"));
                }
            }
        }
    }
}
