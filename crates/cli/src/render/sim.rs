//! A prediction in words: the table of a benchmark, then what limits it and what more would gain.

use std::cmp::Reverse;

use peerlane_results::{BenchRecord, CaseRecord, Direction, LinkLoad};
use peerlane_sim::predict::RANGE_FLOWS_MAX;

use super::bench::{aligned, bench, in_words};
use super::{Overwritten, Sheet, counted};

/// Links that are shown, and limits.
const MOST_LINKS: usize = 6;
const MOST_LIMITS: usize = 6;

/// What was predicted, and what it rests on.
pub(crate) fn sim(record: &BenchRecord) -> String {
    let mut sheet = Sheet(bench(record, &Overwritten::default()));
    for case in &record.cases {
        one(&mut sheet, case);
    }
    sheet.0
}

fn one(sheet: &mut Sheet, case: &CaseRecord) {
    sheet.line(format_args!("{}:", case.asked.name));
    let Some(prediction) = &case.prediction else { return };
    sheet.row("engine", &prediction.engine);
    if let Some((low, high)) = prediction.interval {
        sheet.row(
            "range",
            format_args!("{low} to {high} in 80 % of draws from the parameters' ranges"),
        );
    } else if case.flows.len() > RANGE_FLOWS_MAX {
        sheet.row(
            "range",
            format_args!(
                "none, nor gains: only cases of {RANGE_FLOWS_MAX} transfers at most have them"
            ),
        );
    }
    if let Some((least, most)) = prediction.host_memory.filter(|(_, most)| most.0 > 0) {
        sheet.row(
            "host memory",
            format_args!("{least} to {most}: all in the processor's cache, or none"),
        );
    }
    limits(sheet, case);
    let useful = prediction.gains.iter().filter(|gain| gain.ratio > 1.0005);
    for gain in useful {
        let percent = (gain.ratio - 1.0) * 100.0;
        sheet.row("gain", format_args!("10 % more of {}: {percent:.1} % more", gain.resource));
    }
    links(sheet, case);
    for evidence in &case.evidence {
        sheet.row("check", &evidence.evidence.showed);
    }
}

/// What limits most transfers, and how many more the rest limit.
fn limits(sheet: &mut Sheet, case: &CaseRecord) {
    let mut limits: Vec<(&str, usize)> = Vec::new();
    for limit in case.flows.iter().filter_map(|flow| flow.limited_by.as_deref()) {
        match limits.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, count)) => *count += 1,
            None => limits.push((limit, 1)),
        }
    }
    limits.sort_by_key(|&(_, count)| Reverse(count));
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

/// The links with the highest load.
fn links(sheet: &mut Sheet, case: &CaseRecord) {
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

/// A row for each variant.
pub(crate) fn variants(
    machine: &str,
    keys: &[&str],
    cases: &[&str],
    values: &[Vec<f64>],
    rates: &[Vec<f64>],
) -> String {
    let mut sheet = Sheet::default();
    sheet.line(format_args!("{machine}, predicted, {}", counted(values.len(), "variant")));
    let head = keys.iter().chain(cases).map(|text| (*text).to_owned()).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for (values, rates) in values.iter().zip(rates) {
        let values = values.iter().map(|value| format!("{value:.6}"));
        let values = values.map(|text| text.trim_end_matches('0').trim_end_matches('.').to_owned());
        rows.push(values.chain(rates.iter().map(|&rate| in_words(rate))).collect());
    }
    for line in aligned(&rows) {
        sheet.line(line);
    }
    sheet.0
}
