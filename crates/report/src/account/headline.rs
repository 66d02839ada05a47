//! Headline of a run of a workload, in words that claim no more than its record holds.

use peerlane_results::{Basis, BenchRecord, Path, RouteVerdict, WorkloadKind};
use peerlane_units::Bytes;

use super::bench::basis_words;
use super::case::{RanCase, groups, short};
use super::sweep::{CasePair, pairs, pairs_with_memory};
use super::{crowd, limit_words, rate};
use crate::document::{RecordVerdict, Tone};
use crate::plain::{count, plain};

/// The first sentence on every figure of an emulator.
pub(super) const EMULATED: &str = "Emulated machine: semantics, not speed.";

/// The verdict on a run of a workload.
pub(super) fn verdict(bench: &BenchRecord, cases: &[RanCase<'_>]) -> RecordVerdict {
    let basis = basis_words(bench.basis);
    let contradicted =
        cases.iter().filter(|case| case.summary.verdict == RouteVerdict::Contradicted);
    let contradicted: Vec<String> = contradicted.map(RanCase::name).collect();
    if let [first, ..] = contradicted.as_slice() {
        let text = format!(
            "The route was contradicted in {}, {first} among them: what was seen does not fit the requested route, \
             and these figures are no result.",
            count(contradicted.len(), "case")
        );
        return RecordVerdict { tone: Tone::Bad, basis, text, more: vec![machine(bench)] };
    }
    if cases.is_empty() {
        let asked = count(bench.asked.cases.len(), "case");
        let text = format!("No case was completed: {asked} requested, no run, and so no figures.");
        let hint = match bench.basis {
            Basis::Predicted => None,
            _ => Some(
                "It was interrupted or failed before the first run was done; the same command with `--resume` \
                 continues it."
                    .to_owned(),
            ),
        };
        let more = hint.into_iter().chain([machine(bench)]).collect();
        return RecordVerdict { tone: Tone::Bad, basis, text, more };
    }
    let said = figures(bench, cases);
    let mut more = Vec::new();
    let (tone, text) = match bench.basis {
        Basis::Measured => (Tone::Firm, said),
        Basis::Predicted => (Tone::Limited, format!("Predicted, not measured: {}", lower(&said))),
        Basis::Emulated => {
            // An emulator has no figures to state.
            (Tone::Limited, format!("{EMULATED} {}", route(cases)))
        }
    };
    let tone = match tone {
        Tone::Firm if cases.iter().any(|case| differs(case) > 0) => Tone::Bad,
        Tone::Firm if !is_shown(cases) => Tone::Limited,
        tone => tone,
    };
    match bench.basis {
        Basis::Measured => more.push(route(cases)),
        Basis::Predicted => more.extend(engine(cases)),
        Basis::Emulated => {}
    }
    if bench.basis != Basis::Predicted {
        more.push(content(cases));
    }
    let missing = bench.asked.cases.len().saturating_sub(cases.len());
    if missing > 0 {
        more.push(format!("{} of the workload did not run.", count(missing, "case")));
    }
    more.push(machine(bench));
    RecordVerdict { tone, basis, text, more }
}

fn machine(bench: &BenchRecord) -> String {
    let verb = if bench.basis == Basis::Predicted { "Modelled machine" } else { "Machine" };
    let kernel = bench
        .machine
        .kernel
        .as_deref()
        .map_or(String::new(), |kernel| format!(", Linux {}", plain(kernel)));
    format!("{verb}: {}{kernel}.", plain(&bench.machine.name))
}

/// The figures in a sentence.
fn figures(bench: &BenchRecord, cases: &[RanCase<'_>]) -> String {
    let moved = if bench.basis == Basis::Predicted { "would move" } else { "moved" };
    let said = match bench.asked.kind {
        WorkloadKind::Sweep => sweep(cases, moved),
        WorkloadKind::Matrix => matrix(cases, moved),
        WorkloadKind::Crowd => crowd(cases, moved),
        WorkloadKind::Stream | WorkloadKind::Roundtrip => with_memory(cases, moved),
    };
    said.unwrap_or_else(|| fastest(cases, moved))
}

/// The block size that sentences speak of: 1 MiB where there is one, else the largest of most paths.
pub(super) fn reference(cases: &[RanCase<'_>]) -> Option<Bytes> {
    let mut blocks: Vec<Bytes> = cases.iter().filter_map(RanCase::block).collect();
    blocks.sort();
    blocks.dedup();
    let with = |block: Bytes| cases.iter().filter(|case| case.block() == Some(block)).count();
    let most = blocks.iter().map(|&block| with(block)).max()?;
    blocks.retain(|&block| with(block) == most);
    blocks.iter().copied().find(|&block| block == Bytes::mib(1)).or(blocks.last().copied())
}

fn sweep(cases: &[RanCase<'_>], moved: &str) -> Option<String> {
    let pairs = pairs(cases);
    let blocks: Vec<Bytes> = pairs.iter().map(|pair| pair.block).collect();
    let block =
        blocks.iter().copied().find(|&block| block == Bytes::mib(1)).or(blocks.last().copied())?;
    let chosen = pairs.iter().find(|pair| pair.block == block)?;
    let mut text = against(chosen, &format!(" at {block}"), moved)?;
    let ratios: Vec<(Bytes, f64)> =
        pairs.iter().filter_map(|pair| Some((pair.block, pair.ratio()?.0))).collect();
    let least = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if blocks.len() > 1 && least.0 != most.0 {
        text += &format!(
            " Over all block sizes the ratio lies between {:.2} (at {}) and {:.2} (at {}).",
            least.1, least.0, most.1, most.0
        );
    }
    Some(text)
}

/// Drives against memory: p2p against the host path for each case that has both, at one block size.
fn with_memory(cases: &[RanCase<'_>], moved: &str) -> Option<String> {
    const MOST: usize = 4;
    let pairs = pairs_with_memory(cases);
    let with = |block: Bytes| pairs.iter().filter(|pair| pair.block == block).count();
    let block = pairs
        .iter()
        .map(|pair| pair.block)
        .max_by_key(|&block| (with(block), block == Bytes::mib(1), block))?;
    let chosen = pairs.iter().filter(|pair| pair.block == block).take(MOST);
    let said: Vec<String> = chosen
        .filter_map(|pair| against(pair, &format!(" ({})", pair.p2p.name()), moved))
        .collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// p2p against the host path, in a sentence that says where the runs show no difference.
fn against(pair: &CasePair<'_>, place: &str, moved: &str) -> Option<String> {
    let (ratio, around) = pair.ratio()?;
    let (p2p, host) = (pair.p2p.summary.rate, pair.host.summary.rate);
    let runs = |count: u32| {
        if count == 1 { "one run".to_owned() } else { format!("mean of {count} runs") }
    };
    let rates = match moved {
        "moved" => format!(
            "{} ({}) against {} ({})",
            rate(p2p.mean),
            runs(p2p.count),
            rate(host.mean),
            runs(host.count)
        ),
        _ => format!("{} against {}", rate(p2p.mean), rate(host.mean)),
    };
    let times = times(ratio);
    Some(match around {
        Some((low, high)) if low <= 1.0 && high >= 1.0 => format!(
            "p2p and the host path {moved} as much as each other{place}, as far as these runs can tell: {rates}; \
             their 95 % intervals overlap."
        ),
        None if moved == "moved" => format!(
            "p2p {moved} {times} as the host path{place}: {rates}. Too few runs to know whether that is chance."
        ),
        _ => format!("p2p {moved} {times} as the host path{place}: {rates}."),
    })
}

fn times(ratio: f64) -> String {
    let places = if (0.95..1.05).contains(&ratio) {
        3
    } else if ratio < 10.0 {
        2
    } else {
        0
    };
    format!("{ratio:.places$} times as much")
}

fn matrix(cases: &[RanCase<'_>], moved: &str) -> Option<String> {
    let by_path = |path| cases.iter().filter(move |case| case.path() == Some(path));
    let path = [Path::P2p, Path::HostPipelined]
        .into_iter()
        .find(|&path| by_path(path).next().is_some())?;
    let by_rate =
        |a: &&RanCase<'_>, b: &&RanCase<'_>| a.summary.rate.mean.total_cmp(&b.summary.rate.mean);
    let (least, most) = (by_path(path).min_by(by_rate)?, by_path(path).max_by(by_rate)?);
    let pair = |case: &RanCase<'_>| {
        case.first().map_or(String::new(), |flow| {
            format!("{} to {}", short(&flow.source), short(&flow.target))
        })
    };
    let mut text = format!(
        "{} of drives {moved} between {} ({}) and {} ({}) by {}, one pair at a time.",
        count(by_path(path).count(), "ordered pair"),
        rate(least.summary.rate.mean),
        pair(least),
        rate(most.summary.rate.mean),
        pair(most),
        if path == Path::P2p { "p2p" } else { "the host path" }
    );
    let overlap = least
        .summary
        .rate
        .confidence
        .zip(most.summary.rate.confidence)
        .map(|((_, high), (low, _))| high >= low);
    if overlap == Some(true) {
        text += " The 95 % intervals of the slowest and the fastest overlap: no effect of the location is shown.";
    }
    let ratios: Vec<f64> = pairs(cases).iter().filter_map(|pair| Some(pair.ratio()?.0)).collect();
    if !ratios.is_empty() {
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        text += &format!(" p2p {moved} {low:.2} to {high:.2} times as much as the host path.");
    }
    Some(text)
}

fn crowd(cases: &[RanCase<'_>], moved: &str) -> Option<String> {
    let group = groups(cases, false).into_iter().next()?;
    let by = |case: &&RanCase<'_>| case.spec.flows.len();
    let (alone, most) = (group.cases.iter().min_by_key(by)?, group.cases.iter().max_by_key(by)?);
    let run = crowd::middle(most)?;
    let total = most.summary.rate.mean;
    let mut text = format!(
        "{} at once {moved} {} together by {}",
        count(most.spec.flows.len(), "transfer"),
        rate(total),
        group.name
    );
    if alone.spec.flows.len() == 1 && most.spec.flows.len() > 1 && alone.summary.rate.mean > 0.0 {
        text += &format!(", {:.2} times what one alone does", total / alone.summary.rate.mean);
    }
    if let Some(limit) = most.limit().filter(|limit| limit.bytes_per_second.0 > 0) {
        let share = total / limit.bytes_per_second.0 as f64 * 100.0;
        text += &format!(": {share:.0} % of the lowest limit ({})", limit_words(limit));
    }
    text.push('.');
    let rates = crowd::flow_rates(run);
    if let Some(index) = crowd::jain(&rates).filter(|_| rates.len() > 1) {
        let (low, high) = (
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        );
        text += &format!(
            " Single transfers got {} to {} (Jain's fairness index {index:.3}).",
            rate(low),
            rate(high)
        );
    }
    Some(text)
}

fn fastest(cases: &[RanCase<'_>], moved: &str) -> String {
    let by_rate =
        |a: &&RanCase<'_>, b: &&RanCase<'_>| a.summary.rate.mean.total_cmp(&b.summary.rate.mean);
    let Some(case) = cases.iter().max_by(by_rate) else { return String::new() };
    let runs = case.summary.rate.count;
    let runs = match (moved, runs) {
        ("moved", 1) => " (one run)".to_owned(),
        ("moved", _) => format!(" (mean of {runs} runs)"),
        _ => String::new(),
    };
    let mut text = format!("{} {moved} {}{runs}", case.name(), rate(case.summary.rate.mean));
    if cases.len() > 1 {
        text += &format!(", the most of {} cases", cases.len());
    }
    if let Some(limit) = case.limit().filter(|limit| limit.bytes_per_second.0 > 0) {
        let share = case.summary.rate.mean / limit.bytes_per_second.0 as f64 * 100.0;
        text += &format!("; {share:.0} % of its lowest limit ({})", limit_words(limit));
    }
    text + "."
}

/// The known facts of the route, in a sentence.
fn route(cases: &[RanCase<'_>]) -> String {
    let p2p: Vec<&RanCase<'_>> =
        cases.iter().filter(|case| case.path() == Some(Path::P2p)).collect();
    if p2p.is_empty() {
        return "No case requested p2p.".to_owned();
    }
    let of = |verdict| p2p.iter().filter(|case| case.summary.verdict == verdict).count();
    let shown = of(RouteVerdict::Shown);
    let all = p2p.len();
    if shown == all {
        return format!("The p2p route was shown in every run by {}.", witnesses(&p2p));
    }
    let mut text = if shown > 0 {
        format!("The p2p route was shown in {shown} of {all} cases by {}.", witnesses(&p2p))
    } else {
        "That the bytes went by p2p was not shown.".to_owned()
    };
    if of(RouteVerdict::Consistent) > 0 {
        text += &format!(
            " In {} what was seen fits p2p and would fit another route.",
            count(of(RouteVerdict::Consistent), "case")
        );
    }
    if of(RouteVerdict::NotKnown) > 0 {
        text +=
            &format!(" For {} the route is unknown.", count(of(RouteVerdict::NotKnown), "case"));
    }
    text
}

fn is_shown(cases: &[RanCase<'_>]) -> bool {
    cases
        .iter()
        .filter(|case| case.path() == Some(Path::P2p))
        .all(|case| case.summary.verdict == RouteVerdict::Shown)
}

/// Names of the evidence that showed the route. "DMA of a drive, by the kernel's tracing" is named by its witness
/// alone, so several drives share one name.
fn witnesses(cases: &[&RanCase<'_>]) -> String {
    const MOST: usize = 3;
    let mut names: Vec<String> = Vec::new();
    let shown = cases
        .iter()
        .flat_map(|case| &case.runs)
        .flat_map(|run| &run.evidence)
        .filter(|evidence| evidence.says == RouteVerdict::Shown);
    for evidence in shown {
        let looked_at = plain(&evidence.evidence.looked_at);
        let name = looked_at.rsplit(", by ").next().unwrap_or_default().to_owned();
        if !names.contains(&name) && names.len() <= MOST {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => "what the record does not name".to_owned(),
        names if names.len() > MOST => format!("{} and more", names[..MOST].join(" and ")),
        names => names.join(" and "),
    }
}

/// Returns the number of blocks of a case that were found to differ.
fn differs(case: &RanCase<'_>) -> u64 {
    let found = case.runs.iter().filter_map(|run| run.verification);
    found.fold(0, |sum, check| sum.saturating_add(check.mismatches))
}

/// The result of checks of the content at the targets.
fn content(cases: &[RanCase<'_>]) -> String {
    let wrong = cases.iter().filter(|case| differs(case) > 0).count();
    if wrong > 0 {
        return format!(
            "Content at the target differs in {}: those figures are no result.",
            count(wrong, "case")
        );
    }
    let runs = || cases.iter().flat_map(|case| &case.runs);
    let checked = runs()
        .filter(|run| run.verification.is_some_and(|check| check.bytes > Bytes::ZERO))
        .count();
    match (checked, runs().count()) {
        (_, 0) => "The record holds summaries only.".to_owned(),
        (0, _) => "Content was not checked.".to_owned(),
        (checked, all) if checked == all => {
            "Content was checked in every run and no block differed.".to_owned()
        }
        (checked, all) => {
            format!("Content was checked in {checked} of {all} runs and no block differed.")
        }
    }
}

/// The model, and its certainty.
fn engine(cases: &[RanCase<'_>]) -> Option<String> {
    let prediction =
        cases.iter().flat_map(|case| &case.runs).find_map(|run| run.prediction.as_ref())?;
    Some(format!("Model: {}.", plain(prediction.engine.trim_end_matches('.'))))
}

/// A sentence that goes on after a colon.
fn lower(text: &str) -> String {
    let is_word = text.starts_with("The ") || text.starts_with("That ") || text.starts_with("No ");
    let mut characters = text.chars();
    match characters.next() {
        Some(first) if is_word => first.to_lowercase().chain(characters).collect(),
        _ => text.to_owned(),
    }
}
