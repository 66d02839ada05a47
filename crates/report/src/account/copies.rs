//! Copies.

use peerlane_results::{
    CompletedCopy, CopyRecord, Percentiles, Route, TargetOutcome, VerifyMode, Warning,
};
use peerlane_units::Bytes;

use super::tables::evidence_of;
use super::{machine_facts, rate, warnings};
use crate::chart::{Bars, ChartBar, ValueKind};
use crate::document::{Art, Block, Cell, Figure, RecordVerdict, Section, Table, Tone};
use crate::plain::{count, plain};

fn route_name(route: Route) -> &'static str {
    match route {
        Route::P2p => "p2p",
        Route::Host => "the host path",
    }
}

fn is_emulated(warnings: &[Warning]) -> bool {
    warnings.iter().any(|warning| matches!(warning, Warning::Emulated { .. }))
}

/// Copies: one in full, several as a table.
pub(super) fn copies(name: &str, record: &CopyRecord) -> (RecordVerdict, Section) {
    record.only().map_or_else(|| several(name, record), |only| copy(name, only))
}

fn copy(name: &str, record: &CompletedCopy) -> (RecordVerdict, Section) {
    let mut blocks = vec![Block::Facts(copy_facts(name, record))];
    blocks.extend(warnings(&record.warnings));
    blocks.extend(limits(record).map(Block::Figure));
    blocks.push(Block::Table(latencies(record)));
    blocks.extend(evidence_of(&record.evidence).map(Block::Table));
    let heading =
        format!("copy: {} to {}", plain(&record.asked.source), plain(&record.asked.target));
    (copy_verdict(record), Section { heading, blocks })
}

fn copy_verdict(record: &CompletedCopy) -> RecordVerdict {
    let emulated = is_emulated(&record.warnings);
    let wrong = record.verification.mismatches > 0;
    let speed = match record.rate() {
        Some(rate) if !emulated => format!(" in {}, {rate}", record.elapsed_ns),
        _ => String::new(),
    };
    let text = format!(
        "{}{} went from {} to {} by {}{speed}.",
        if emulated { "Emulated machine: semantics, not speed. " } else { "" },
        record.content.data,
        plain(&record.asked.source),
        plain(&record.asked.target),
        route_name(record.route)
    );
    let is_mixed =
        record.bytes_by_route.p2p > Bytes::ZERO && record.bytes_by_route.host > Bytes::ZERO;
    let mut more = Vec::new();
    if is_mixed {
        more.push(format!(
            "By p2p: {}; by host memory: {}.",
            record.bytes_by_route.p2p, record.bytes_by_route.host
        ));
    }
    let fell_back = record.warnings.iter().find_map(|warning| match warning {
        Warning::FellBack { reason } => Some(plain(reason)),
        _ => None,
    });
    if let Some(reason) = &fell_back {
        more.push(format!("A p2p route was looked for and not taken: {reason}."));
    }
    more.push(verification_words(record));
    more.push(format!("Machine: {}.", plain(&record.machine.name)));
    let tone = if wrong {
        Tone::Bad
    } else if emulated || is_mixed || fell_back.is_some() {
        Tone::Limited
    } else {
        Tone::Firm
    };
    RecordVerdict {
        tone,
        basis: if emulated { "emulated machine" } else { "measured" },
        text,
        more,
    }
}

/// A number of blocks that differ, which should meet the eye.
pub(super) fn blocks_differ(number: u64) -> String {
    if number == 1 { "1 block DIFFERS".to_owned() } else { format!("{number} blocks DIFFER") }
}

fn verification_words(record: &CompletedCopy) -> String {
    let check = record.verification;
    match (check.mode, check.mismatches) {
        (VerifyMode::None, _) => "Content at the target was not checked.".to_owned(),
        (mode, 0) => format!("Content was checked ({mode}, {}); no block differs.", check.bytes),
        (mode, wrong) => {
            format!("Content was checked ({mode}, {}); {}.", check.bytes, blocks_differ(wrong))
        }
    }
}

fn copy_facts(name: &str, record: &CompletedCopy) -> Vec<(&'static str, String)> {
    let host = record.host_memory.bytes.map_or_else(
        || format!("not counted: {}", plain(&record.host_memory.reason)),
        |bytes| {
            let payload = record.content.data.0.max(1) as f64;
            format!(
                "{bytes}, {:.3} for each byte of payload ({})",
                bytes.0 as f64 / payload,
                plain(&record.host_memory.reason)
            )
        },
    );
    let cpu = record.cpu.user_ns.after(record.cpu.system_ns);
    let gib = record.content.data.0 as f64 / f64::from(1u32 << 30);
    let mut facts = vec![("record", plain(name))];
    facts.extend(machine_facts(&record.machine));
    facts.extend([
        ("source", plain(&record.source.path)),
        ("target", plain(&record.target.path)),
        ("memory", plain(&record.memory.name)),
        ("route", format!("{}, {}: {}", record.route, record.verdict, plain(&record.reason))),
        (
            "bytes",
            format!(
                "{} by p2p, {} by host memory",
                record.bytes_by_route.p2p, record.bytes_by_route.host
            ),
        ),
        ("time", format!("{}; first write done after {}", record.elapsed_ns, record.first_done_ns)),
        ("checked", verification_words(record)),
        ("host memory", host),
    ]);
    if gib > 0.0 {
        facts.push(("CPU", format!("{cpu}, {:.4} s for each GiB", cpu.0 as f64 / 1e9 / gib)));
    }
    facts
}

/// Figure of the copy's rate beside its ceilings.
fn limits(record: &CompletedCopy) -> Option<Figure> {
    const MOST: usize = 8;
    let reached = record.rate()?;
    if record.limits.is_empty() {
        return None;
    }
    let mut rows = vec![ChartBar {
        name: "this copy".to_owned(),
        value: reached.0 as f64,
        ..ChartBar::default()
    }];
    rows.extend(record.limits.iter().take(MOST).map(|limit| ChartBar {
        name: plain(&limit.object),
        value: limit.bytes_per_second.0 as f64,
        colour: 5,
        ..ChartBar::default()
    }));
    let bars = Bars {
        about: "Rate of the copy and its ceilings.".to_owned(),
        name: "bandwidth",
        values: ValueKind::Rate,
        rows,
    };
    let emulated =
        if is_emulated(&record.warnings) { "Emulated: semantics, not speed. " } else { "" };
    Some(Figure {
        title: "The copy and its ceilings".to_owned(),
        caption: format!(
            "{emulated}Payload over elapsed time, and the lowest ceilings on the path."
        ),
        art: Art::Chart(bars.picture()),
    })
}

fn latencies(record: &CompletedCopy) -> Table {
    let row = |name: &str, found: &Percentiles| {
        let times = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.max_ns];
        let mut cells =
            vec![Cell::text(name), Cell::number(found.count as f64, found.count.to_string())];
        cells.extend(times.map(|nanos| Cell::number(nanos.0 as f64, nanos.to_string())));
        cells
    };
    let rows = vec![row("reads", &record.latency.read), row("writes", &record.latency.write)];
    Table::new(
        "Latency of requests",
        vec!["request", "count", "50 %", "90 %", "99 %", "99.9 %", "longest"],
        rows,
    )
}

/// Several targets or several copies.
fn several(name: &str, record: &CopyRecord) -> (RecordVerdict, Section) {
    let targets = || record.outcomes().map(|(_, target)| target);
    let (heading, verdict) = match record.jobs.as_slice() {
        [job] => (
            format!("copy: {}", count(job.targets.len(), "target")),
            outcomes_verdict("The source was read once", targets()),
        ),
        jobs => (
            format!("copies: {}", plain(name)),
            outcomes_verdict(&format!("A batch of {} copies", jobs.len()), targets()),
        ),
    };
    let read = Bytes(record.jobs.iter().fold(0, |sum, job| sum.saturating_add(job.read.0)));
    let facts = vec![("record", plain(name)), ("read of the source", read.to_string())];
    let mut blocks = vec![Block::Facts(facts), Block::Table(outcomes(record))];
    let copied = targets().filter_map(|target| target.copied.as_ref());
    blocks.extend(warnings(copied.flat_map(|copied| &copied.warnings)));
    (verdict, Section { heading, blocks })
}

fn outcomes_verdict<'a>(
    what: &str,
    targets: impl Iterator<Item = &'a TargetOutcome>,
) -> RecordVerdict {
    let (mut done, mut failed, mut wrong, mut emulated) = (0, 0, 0, false);
    for target in targets {
        match &target.copied {
            Some(record) => {
                done += 1;
                wrong += usize::from(record.verification.mismatches > 0);
                emulated |= is_emulated(&record.warnings);
            }
            None => failed += 1,
        }
    }
    let tone = match (failed + wrong, emulated) {
        (0, false) => Tone::Firm,
        (0, true) => Tone::Limited,
        _ => Tone::Bad,
    };
    let prefix = if emulated { "Emulated machine: semantics, not speed. " } else { "" };
    let text = format!("{prefix}{what}; {} complete, {failed} not.", count(done, "target"));
    RecordVerdict {
        tone,
        basis: if emulated { "emulated machine" } else { "measured" },
        text,
        more: Vec::new(),
    }
}

fn outcomes(record: &CopyRecord) -> Table {
    let rows = record
        .outcomes()
        .map(|(source, target)| {
            let record = target.copied.as_ref();
            let outcome = match (&target.copied, &target.failure) {
                (Some(_), _) => "complete".to_owned(),
                (None, Some(failure)) => failure.errors.first().cloned().unwrap_or_default(),
                (None, None) => "not complete".to_owned(),
            };
            vec![
                Cell::text(plain(source)),
                Cell::text(&target.target),
                Cell::text(outcome),
                record.map_or_else(Cell::none, |record| Cell::text(route_name(record.route))),
                record.map_or_else(Cell::none, |record| {
                    Cell::number(record.content.data.0 as f64, record.content.data.to_string())
                }),
                record.and_then(CompletedCopy::rate).map_or_else(Cell::none, |found| {
                    Cell::number(found.0 as f64, rate(found.0 as f64))
                }),
                record.map_or_else(Cell::none, |record| Cell::text(verification_words(record))),
            ]
        })
        .collect();
    Table::new(
        "What became of each target",
        vec!["source", "target", "outcome", "route", "bytes", "rate", "content"],
        rows,
    )
}
