//! A prediction in words: the table of a benchmark, then the limits, sensitivities and links of each case.

use peerlane_report::aligned;
use peerlane_results::{BenchRecord, CaseRecord, Direction, LinkLoad, Percentiles};
use peerlane_sim::predict::RANGE_FLOWS_MAX;
use peerlane_units::Nanos;

use super::bench::{bench, in_words};
use super::{LabelSheet, OverwrittenRanges, counted};

/// Links that are shown, and limits.
const MOST_LINKS: usize = 6;
const MOST_LIMITS: usize = 6;
/// Numbers below this have their power of ten: seconds of a latency.
const SMALL: f64 = 1e-3;

/// The table of a prediction, and the details of each case.
pub(crate) fn sim(record: &BenchRecord) -> String {
    let mut sheet = LabelSheet(bench(record, &OverwrittenRanges::default()));
    for case in &record.cases {
        one(&mut sheet, case);
    }
    sheet.0
}

fn one(sheet: &mut LabelSheet, case: &CaseRecord) {
    sheet.line(format_args!("{}:", case.asked.name));
    let Some(prediction) = &case.prediction else { return };
    sheet.row("engine", &prediction.engine);
    let rate = case.rate().unwrap_or_default();
    match prediction.interval {
        Some((low, high)) => sheet.row(
            "rate",
            format_args!("{rate}; {low} to {high} in 80 % of draws from the parameters' ranges"),
        ),
        None if case.flows.len() > RANGE_FLOWS_MAX => sheet.row(
            "rate",
            format_args!("{rate}, without range and gains: more than {RANGE_FLOWS_MAX} transfers"),
        ),
        None => sheet.row("rate", rate),
    }
    latency(sheet, case);
    if let Some((least, most)) = prediction.host_memory.filter(|(_, most)| most.0 > 0) {
        sheet.row(
            "host memory",
            format_args!("{least} to {most}: all in the processor's cache, or none"),
        );
    }
    limits(sheet, case);
    knee(sheet, case);
    let useful = prediction.gains.iter().filter(|gain| gain.ratio > 1.0005);
    for gain in useful {
        let percent = (gain.ratio - 1.0) * 100.0;
        sheet.row("gain", format_args!("10 % more of {}: {percent:.1} % more", gain.resource));
    }
    links(sheet, case);
}

/// The latencies of the fastest and the slowest transfer, if packets were simulated.
fn latency(sheet: &mut LabelSheet, case: &CaseRecord) {
    let blocks = || case.flows.iter().map(|flow| &flow.block).filter(|block| block.count > 0);
    let range = |of: fn(&Percentiles) -> Nanos| {
        let (least, most) = (blocks().map(of).min()?, blocks().map(of).max()?);
        Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
    };
    if let (Some(p50), Some(p99)) = (range(|block| block.p50_ns), range(|block| block.p99_ns)) {
        sheet.row("latency", format_args!("median of a transfer {p50}, 99th percentile {p99}"));
    }
}

/// The limits of most transfers, and the number of the rest.
fn limits(sheet: &mut LabelSheet, case: &CaseRecord) {
    let limits = case.limited_by();
    let all = case.flows.len();
    for (limit, count) in limits.iter().take(MOST_LIMITS) {
        sheet.row("limit", format_args!("{limit} ({count} of {all} transfers)"));
    }
    if let Some(more @ [_, ..]) = limits.get(MOST_LIMITS..) {
        let count: usize = more.iter().map(|(_, count)| count).sum();
        let more = more.len();
        sheet.row(
            "limit",
            format_args!("{more} more ({count} of {all} transfers): `--json` has them"),
        );
    }
}

/// The number of blocks in flight above which more bring nothing, by the closed form.
fn knee(sheet: &mut LabelSheet, case: &CaseRecord) {
    let knees = || case.flows.iter().filter_map(|flow| flow.knee);
    if let (Some(least), Some(most)) = (knees().min(), knees().max()) {
        let each = if least == most { String::new() } else { format!("{least} to ") };
        let blocks = counted(most as usize, "block");
        let words = format!("more than {each}{blocks} in flight bring nothing");
        sheet.row("knee", words);
    }
}

/// The links with the highest load.
fn links(sheet: &mut LabelSheet, case: &CaseRecord) {
    let share =
        |link: &LinkLoad| link.busy.unwrap_or(link.payload.0 as f64 / link.ceiling.0.max(1) as f64);
    let mut links: Vec<_> = case.links.iter().collect();
    links.sort_by(|a, b| share(b).total_cmp(&share(a)));
    for link in links.into_iter().take(MOST_LINKS) {
        let (words, percent) = (link_words(link), share(link) * 100.0);
        sheet.row(
            "link",
            format_args!("{words}: {}, {percent:.0} % busy in the mean", link.payload),
        );
    }
}

/// A direction of a link.
fn link_words(LinkLoad { below, other_end, direction, .. }: &LinkLoad) -> String {
    match (direction, other_end) {
        (Direction::Up, None) => format!("{below} up"),
        (Direction::Down, None) => format!("{below} down"),
        (Direction::Up, Some(other)) => format!("{below} to {other}"),
        (Direction::Down, Some(other)) => format!("{other} to {below}"),
    }
}

/// A number above zero with the digits that tell variants apart, and no zeros behind them.
fn plain(value: f64) -> String {
    let (digits, power) = if value < SMALL {
        let text = format!("{value:.5e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        (digits.to_owned(), format!("e{power}"))
    } else {
        (format!("{value:.6}"), String::new())
    };
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{power}")
}

/// A row for each variant.
pub(crate) fn variants(
    machine: &str,
    keys: &[&str],
    cases: &[&str],
    values: &[Vec<f64>],
    rates: &[Vec<f64>],
) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(format_args!("{machine}, predicted, {}", counted(values.len(), "variant")));
    let head = keys.iter().chain(cases).map(|text| (*text).to_owned()).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for (values, rates) in values.iter().zip(rates) {
        let values = values.iter().map(|&value| plain(value));
        rows.push(values.chain(rates.iter().map(|&rate| in_words(rate))).collect());
    }
    for line in aligned(&rows) {
        sheet.line(line);
    }
    sheet.0
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn values_of_any_size_differ() {
        let shown = [80e-9, 150e-9, 1.0 / 3e7, 0.25, 16.0, 6.5e9].map(plain);
        assert_eq!(shown, ["8e-8", "1.5e-7", "3.33333e-8", "0.25", "16", "6500000000"]);
    }
}
