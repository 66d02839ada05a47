//! The figures of every case, and the evidence of its route.

use peerlane_results::{Basis, CaseRecord, Evidence, RouteEvidence, RouteVerdict};
use peerlane_units::Nanos;

use super::case::{RanCase, path_words};
use super::{limit_words, rate};
use crate::document::{Cell, Table};
use crate::plain::plain;

/// Most rows of a table that is open at once; a longer one would hide the rest of the page.
const OPEN_MAX: usize = 40;
/// Limits of a case that are named.
const LIMITS_MAX: usize = 3;

/// A row for each case.
pub(super) fn cases(cases: &[RanCase<'_>], basis: Basis) -> Table {
    let mut columns = vec![
        "case",
        "path",
        "block",
        "flows",
        "depth",
        "runs",
        "mean",
        "\u{b1} 95 %",
        "median",
        "lowest",
        "highest",
        "of limit",
        "lowest limit",
        "latency 50 %",
        "latency 99 %",
        "host bytes per byte",
        "CPU s per GiB",
        "route",
        "content",
    ];
    let is_predicted = basis == Basis::Predicted;
    if is_predicted {
        columns.extend(["80 % of draws", "limited by"]);
    }
    let rows: Vec<_> = cases.iter().map(|case| row(case, is_predicted)).collect();
    let is_detail = rows.len() > OPEN_MAX;
    let caption = match basis {
        Basis::Measured => "Every case",
        Basis::Emulated => "Every case (emulated: semantics, not speed)",
        Basis::Predicted => "Every case (predicted, not measured)",
    };
    Table { is_detail, ..Table::new(caption, columns, rows) }
}

fn row(case: &RanCase<'_>, is_predicted: bool) -> Vec<Cell> {
    let summary = case.summary;
    let spread = summary.rate;
    let rates = |value: f64| Cell::number(value, rate(value));
    let half = spread.confidence.map(|(low, high)| (high - low) / 2.0);
    let limit = case.limit().filter(|limit| limit.bytes_per_second.0 > 0);
    let time = |nanos: Nanos| {
        if summary.block.count == 0 {
            Cell::none()
        } else {
            Cell::number(nanos.0 as f64, nanos.to_string())
        }
    };
    let mut cells = vec![
        Cell::text(&case.spec.name),
        Cell::text(path_words(case.path())),
        case.block()
            .map_or_else(Cell::none, |block| Cell::number(block.0 as f64, block.to_string())),
        Cell::number(case.spec.flows.len() as f64, case.spec.flows.len().to_string()),
        case.depth()
            .map_or_else(Cell::none, |depth| Cell::number(f64::from(depth), depth.to_string())),
        Cell::number(f64::from(spread.count), spread.count.to_string()),
        rates(spread.mean),
        half.map_or_else(Cell::none, rates),
        rates(spread.median),
        rates(spread.min),
        rates(spread.max),
        limit.map_or_else(Cell::none, |limit| {
            let share = spread.mean / limit.bytes_per_second.0 as f64 * 100.0;
            Cell::number(share, format!("{share:.0} %"))
        }),
        limit.map_or_else(Cell::none, |limit| Cell::text(limit_words(limit))),
        time(summary.block.p50_ns),
        time(summary.block.p99_ns),
        summary.host_bytes_per_byte.map_or_else(
            || Cell::text("not counted"),
            |ratio| Cell::number(ratio, format!("{ratio:.3}")),
        ),
        Cell::number(summary.cpu_s_per_gib, format!("{:.4}", summary.cpu_s_per_gib)),
        if is_predicted {
            let moved = case.runs.first().and_then(|run| run.bytes_by_route.words());
            moved.map_or_else(Cell::none, Cell::text)
        } else {
            Cell::text(summary.verdict.to_string())
        },
        Cell::text(content(case)),
    ];
    if is_predicted {
        let prediction = case.runs.iter().find_map(|run| run.prediction.as_ref());
        let interval = prediction.and_then(|prediction| prediction.interval);
        cells.push(interval.map_or_else(Cell::none, |(low, high)| {
            Cell::number(low.0 as f64, format!("{low} to {high}"))
        }));
        cells.push(case.runs.first().map_or_else(Cell::none, |run| limited_by(run)));
    }
    cells
}

/// Limits of the transfers of a prediction, the most frequent first.
fn limited_by(run: &CaseRecord) -> Cell {
    let limits = run.limited_by();
    let all: usize = limits.iter().map(|(_, count)| count).sum();
    match limits.as_slice() {
        [] => Cell::none(),
        [(only, _)] => Cell::text(only),
        several => {
            let shown = several.iter().take(LIMITS_MAX);
            let shown = shown.map(|(limit, count)| format!("{limit} ({count} of {all})"));
            let rest = several.len().saturating_sub(LIMITS_MAX);
            let rest = (rest > 0).then(|| format!("{rest} more"));
            Cell::text(shown.chain(rest).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Reason why host memory was not counted, or its counter; the first of several reasons.
pub(super) fn host_memory(cases: &[RanCase<'_>]) -> Option<String> {
    let mut runs = cases.iter().flat_map(|case| &case.runs);
    let first = &runs.next()?.host_memory;
    // What the model says differs from case to case, and stands in the table.
    if cases.iter().flat_map(|case| &case.runs).any(|run| run.prediction.is_some()) {
        return None;
    }
    let others = runs.filter(|run| run.host_memory.reason != first.reason).count();
    let more = if others == 0 { String::new() } else { format!(" (otherwise in {others} runs)") };
    let not = if first.bytes.is_none() { "not counted: " } else { "" };
    Some(format!("{not}{}{more}", plain(&first.reason)))
}

fn content(case: &RanCase<'_>) -> String {
    let checks: Vec<_> = case.runs.iter().filter_map(|run| run.verification).collect();
    let Some(first) = checks.first() else { return "not checked".to_owned() };
    let wrong = checks.iter().fold(0u64, |sum, check| sum.saturating_add(check.mismatches));
    if wrong > 0 {
        return super::copies::blocks_differ(wrong);
    }
    let some = if checks.len() < case.runs.len() {
        format!(", in {} of {} runs", checks.len(), case.runs.len())
    } else {
        String::new()
    };
    format!("{}, {} a run, none differ{some}", first.mode, first.bytes)
}

/// Gains from more of each resource, of predictions.
pub(super) fn gains(cases: &[RanCase<'_>]) -> Option<Table> {
    let rows: Vec<_> = cases
        .iter()
        .filter_map(|case| Some((case, case.runs.iter().find_map(|run| run.prediction.as_ref())?)))
        .flat_map(|(case, prediction)| {
            prediction.gains.iter().map(|gain| {
                let percent = (gain.ratio - 1.0) * 100.0;
                vec![
                    Cell::text(&case.spec.name),
                    Cell::text(&gain.resource),
                    Cell::number(percent, format!("{percent:+.1} %")),
                ]
            })
        })
        .collect();
    let caption = "What a tenth more of a resource would gain (predicted)";
    (!rows.is_empty()).then(|| Table::new(caption, vec!["case", "resource", "gain"], rows).detail())
}

/// Everything that was looked at, case by case.
pub(super) fn evidence(cases: &[RanCase<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    for case in cases {
        // What was looked at and what that says, with an example of what it showed and how often.
        let mut found: Vec<(&str, RouteVerdict, &str, usize)> = Vec::new();
        for one in case.runs.iter().flat_map(|run| &run.evidence) {
            let (looked_at, showed) =
                (one.evidence.looked_at.as_str(), one.evidence.showed.as_str());
            match found.iter_mut().find(|known| known.0 == looked_at && known.1 == one.says) {
                Some(known) => known.3 += 1,
                None => found.push((looked_at, one.says, showed, 1)),
            }
        }
        rows.extend(found.into_iter().map(|(looked_at, says, showed, times)| {
            vec![
                Cell::text(&case.spec.name),
                Cell::text(looked_at),
                Cell::text(showed),
                Cell::text(says.to_string()),
                Cell::number(times as f64, times.to_string()),
            ]
        }));
    }
    let columns = vec!["case", "looked at", "showed (in the first run)", "the route is", "runs"];
    let caption = "Evidence of the route, case by case";
    (!rows.is_empty()).then(|| Table::new(caption, columns, rows).detail())
}

/// The evidence of one copy.
pub(super) fn evidence_of(all: &[RouteEvidence]) -> Option<Table> {
    let row = |one: &RouteEvidence| {
        let Evidence { looked_at, showed } = &one.evidence;
        vec![
            Cell::text(plain(looked_at)),
            Cell::text(plain(showed)),
            Cell::text(one.says.to_string()),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let columns = vec!["looked at", "showed", "the route is"];
    (!rows.is_empty()).then(|| Table::new("Evidence of the route", columns, rows))
}
