//! One headline for several records, and the sentences that they share, said once.
//!
//! Leaves out single records. Ratios are those between cases of one record, since records of
//! different boots and days do not compare.

use peerlane_results::{Basis, BenchRecord, Path, RouteVerdict};

use super::Named;
use super::case::{RanCase, cases};
use super::headline::EMULATED;
use super::sweep::{CasePair, pairs, pairs_with_memory};
use crate::document::{RecordVerdict, Tone};
use crate::plain::{count, plain};
use crate::record::Record;

/// Verdicts that share a sentence before it moves to the headline.
const SHARED_MIN: usize = 3;
/// Names of records in one sentence.
const NAMES_MAX: usize = 3;

/// Returns the headline of several records; `None` for one. Sentences that many verdicts share move into it.
pub(super) fn headline(records: &[Named], verdicts: &mut [RecordVerdict]) -> Option<RecordVerdict> {
    let [first, _, ..] = &*verdicts else { return None };
    let same_basis = verdicts.iter().all(|verdict| verdict.basis == first.basis);
    let basis = if same_basis { first.basis } else { "several records" };
    let tone = verdicts.iter().map(|verdict| verdict.tone).max().unwrap_or(Tone::Limited);
    let text = [wrong(records, verdicts), benches(records)].into_iter().flatten();
    let mut text = text.collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        text = tones(verdicts);
    }
    if take_emulated(verdicts) {
        text = format!("{EMULATED} {text}");
    }
    Some(RecordVerdict { tone, basis, text, more: take_shared(verdicts) })
}

/// Names the records with a bad verdict.
fn wrong(records: &[Named], verdicts: &[RecordVerdict]) -> Option<String> {
    let is_wrong = |pair: &(&Named, &RecordVerdict)| pair.1.tone == Tone::Bad;
    let names: Vec<String> = records
        .iter()
        .zip(verdicts)
        .filter(is_wrong)
        .map(|(named, _)| plain(&named.name))
        .collect();
    let more = if names.len() > NAMES_MAX { " and more" } else { "" };
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    let found = format!("{} of {}", names.len(), count(records.len(), "record"));
    (!names.is_empty()).then(|| format!("Something is wrong in {found}: {shown}{more}."))
}

/// The route and the ratio of all benchmarks.
fn benches(records: &[Named]) -> Option<String> {
    let benches: Vec<(&BenchRecord, Vec<RanCase<'_>>)> = records
        .iter()
        .filter_map(|named| match &named.record {
            Record::Bench(bench) => Some((bench.as_ref(), cases(bench))),
            _ => None,
        })
        .collect();
    if benches.is_empty() {
        return None;
    }
    let all: usize = benches.iter().map(|(_, cases)| cases.len()).sum();
    let mut text = format!(
        "{}, {}: {}.",
        count(benches.len(), "benchmark"),
        count(all, "case"),
        route(&benches)
    );
    for (basis, verb) in [(Basis::Measured, "moved"), (Basis::Predicted, "would move")] {
        let of_basis = benches.iter().filter(|(bench, _)| bench.basis == basis);
        if let Some(ratio) = ratio(of_basis.map(|(_, cases)| cases.as_slice()), verb) {
            text += &format!(" {ratio}");
        }
    }
    Some(text)
}

/// Counts the benchmarks whose p2p cases were all shown.
fn route(benches: &[(&BenchRecord, Vec<RanCase<'_>>)]) -> String {
    let measured = benches.iter().filter(|(bench, _)| bench.basis != Basis::Predicted);
    let p2p: Vec<Vec<&RanCase<'_>>> = measured
        .map(|(_, cases)| cases.iter().filter(|case| case.path() == Some(Path::P2p)).collect())
        .filter(|cases: &Vec<_>| !cases.is_empty())
        .collect();
    let is_shown = |cases: &&Vec<&RanCase<'_>>| {
        cases.iter().all(|case| case.summary.verdict == RouteVerdict::Shown)
    };
    match (p2p.iter().filter(is_shown).count(), p2p.len()) {
        (_, 0) if benches.iter().all(|(bench, _)| bench.basis == Basis::Predicted) => {
            "predicted, not measured".to_owned()
        }
        (_, 0) => "none requested p2p".to_owned(),
        (shown, all) if shown == all => "p2p was shown wherever it was requested".to_owned(),
        (shown, all) => format!("p2p was shown in {shown} of {all} that requested it"),
    }
}

/// The range of ratios of p2p to the host path.
fn ratio<'a>(benches: impl Iterator<Item = &'a [RanCase<'a>]>, verb: &str) -> Option<String> {
    let ratio = |pair: &CasePair<'_>| pair.ratio();
    let mut found: Vec<(f64, Option<(f64, f64)>)> = Vec::new();
    for cases in benches {
        found.extend(pairs(cases).iter().filter_map(ratio));
        found.extend(pairs_with_memory(cases).iter().filter_map(ratio));
    }
    let low = found.iter().map(|(ratio, _)| *ratio).fold(f64::INFINITY, f64::min);
    let high = found.iter().map(|(ratio, _)| *ratio).fold(0.0, f64::max);
    let by_chance =
        |around: Option<(f64, f64)>| around.is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
    let chance = found.iter().filter(|(_, around)| by_chance(*around)).count();
    let said = match found.len() {
        0 => return None,
        1 => format!("p2p {verb} {low:.2} times as much as the host path"),
        all => format!(
            "p2p {verb} {low:.2} to {high:.2} times as much as the host path, in {all} comparisons"
        ),
    };
    let chance = match chance {
        0 => String::new(),
        chance => format!(", {chance} of them within the 95 % intervals of their runs"),
    };
    Some(format!("{said}{chance}."))
}

fn tones(verdicts: &[RecordVerdict]) -> String {
    let of = |tone| verdicts.iter().filter(|verdict| verdict.tone == tone).count();
    let all = count(verdicts.len(), "record");
    match of(Tone::Limited) {
        0 => format!("{all}, none with a restriction."),
        limited => format!("{all}, {limited} of them with a restriction that they name."),
    }
}

/// Removes the sentence on emulators from verdicts where all have it.
fn take_emulated(verdicts: &mut [RecordVerdict]) -> bool {
    let is_shared = verdicts.iter().all(|verdict| verdict.text.starts_with(EMULATED));
    for verdict in verdicts.iter_mut().filter(|_| is_shared) {
        verdict.text = verdict.text[EMULATED.len()..].trim_start().to_owned();
    }
    is_shared
}

/// Removes the sentences that many verdicts share, and returns them with how many had each.
fn take_shared(verdicts: &mut [RecordVerdict]) -> Vec<String> {
    let all = verdicts.len();
    let mut lines: Vec<(String, usize)> = Vec::new();
    for line in verdicts.iter().flat_map(|verdict| &verdict.more) {
        match lines.iter_mut().find(|(known, _)| known == line) {
            Some((_, times)) => *times += 1,
            None => lines.push((line.clone(), 1)),
        }
    }
    lines.retain(|(_, times)| *times >= SHARED_MIN);
    for verdict in verdicts.iter_mut() {
        verdict.more.retain(|line| !lines.iter().any(|(shared, _)| shared == line));
    }
    let with_count = |(line, times): (String, usize)| match times {
        times if times == all => line,
        times => format!("{} ({times} of {})", line.trim_end_matches('.'), count(all, "record")),
    };
    lines.into_iter().map(with_count).collect()
}
