//! The record of a copy in words.

use peerlane_results::{
    CompletedCopy, Evidence, Percentiles, Route, RouteEvidence, StageRecord, Verification,
    VerifyMode, Warning,
};
use peerlane_units::{Bytes, Nanos};

use super::LabelSheet;

/// The result of a copy in one line, then what bears on it; all details where `is_verbose`.
pub(super) fn copy(record: &CompletedCopy, is_verbose: bool) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(format_args!(
        "copied {} from {} to {}: {}",
        record.bytes,
        record.source.path,
        record.target.path,
        short(record)
    ));
    if is_verbose {
        sheet.row("source", super::endpoint(&record.source));
        sheet.row("target", super::endpoint(&record.target));
        sheet.row("memory", super::memory(&record.memory));
        sheet.row("requests", super::shape(&record.shape));
        if let Some(tail) = super::tail(record.shape.tail, Some(record.route)) {
            sheet.row("tail", tail);
        }
    }
    if let Some(content) = content(record) {
        sheet.row("content", content);
    }
    if is_verbose {
        sheet.row("time", times(record));
        sheet.row("reads", latency(&record.latency.read));
        sheet.row("writes", latency(&record.latency.write));
    }
    for stage in &record.stages {
        sheet.row("stage", one_stage(stage, record.elapsed_ns));
    }
    if is_verbose {
        let cpu = record.cpu;
        sheet.row("cpu", format_args!("{} user, {} system", cpu.user_ns, cpu.system_ns));
        sheet.limits(&record.limits);
    }
    if is_verbose || record.route == Route::P2p {
        evidence(&mut sheet, record);
    }
    if is_verbose {
        sheet.row("verified", verified(&record.verification));
    }
    // The first line names the route; a fallback was announced before the first byte.
    let is_shown = |warning: &&Warning| is_verbose || !warning.is_fall_back();
    sheet.warnings(record.warnings.iter().filter(is_shown));
    sheet.0
}

/// The route and its evidence.
fn evidence(sheet: &mut LabelSheet, record: &CompletedCopy) {
    sheet.row("route", route(record));
    for (index, evidence) in record.evidence.iter().enumerate() {
        let label = if index == 0 { "evidence" } else { "" };
        let RouteEvidence { evidence: Evidence { looked_at, showed }, says } = evidence;
        sheet.row(label, format_args!("{looked_at}: {showed} ({says})"));
    }
}

/// Kinds of bytes of a copy, unless all of them were moved.
fn content(record: &CompletedCopy) -> Option<String> {
    let content = record.content;
    if content.data == record.bytes {
        return None;
    }
    let mut words = format!("{} bytes moved", content.data.0);
    for (bytes, what) in [
        (content.before, "moved by an earlier run"),
        (content.holes, "in holes"),
        (content.zeroed_by_device, "of these made zero by the target itself"),
        (content.zeroes_written, "of these written as zeroes"),
    ] {
        if bytes > Bytes::ZERO {
            words.push_str(&format!(", {} {what}", bytes.0));
        }
    }
    Some(words)
}

/// The account of a stage, with its share of the time.
fn one_stage(stage: &StageRecord, elapsed: Nanos) -> String {
    let share = 100 * stage.busy_ns.0 / elapsed.0.max(1);
    let StageRecord { stage: name, chunks, latency: of_chunks, .. } = stage;
    let root = match (&stage.root, &stage.no_root) {
        (Some(root), _) => format!(", root {root}"),
        (None, Some(reason)) => format!(", no root: {reason}"),
        (None, None) => String::new(),
    };
    format!(
        "{name}: {}, busy {share} % of the time, p50 {}, p99 {}, longest {}{root}",
        super::counted(*chunks, "chunk"),
        of_chunks.p50_ns,
        of_chunks.p99_ns,
        of_chunks.max_ns
    )
}

fn route(record: &CompletedCopy) -> String {
    let by_route = record.bytes_by_route;
    let falls_back = record.warnings.iter().any(Warning::is_fall_back);
    let reason = if falls_back { "the warning says why" } else { record.reason.as_str() };
    format!(
        "{}, {}: {} bytes p2p, {} bytes through host memory; {reason}",
        record.route, record.verdict, by_route.p2p.0, by_route.host.0
    )
}

fn times(record: &CompletedCopy) -> String {
    format!(
        "{}, first block at the target after {}, last after {}; proof and verification {} apart",
        record.elapsed_ns, record.first_done_ns, record.last_done_ns, record.check_ns
    )
}

fn latency(percentiles: &Percentiles) -> String {
    if percentiles.count == 0 {
        return "none counted".to_owned();
    }
    format!(
        "{}, p50 {}, p99 {}, longest {}",
        percentiles.count, percentiles.p50_ns, percentiles.p99_ns, percentiles.max_ns
    )
}

fn verified(verification: &Verification) -> String {
    match verification.mode {
        VerifyMode::None => "not".to_owned(),
        mode => format!(
            "{mode}: {} bytes compared, {}",
            verification.bytes.0,
            super::differing(verification.mismatches, "block")
        ),
    }
}

pub(super) fn short(record: &CompletedCopy) -> String {
    let emulated =
        record.warnings.iter().any(|warning| matches!(warning, Warning::Emulated { .. }));
    let sign = if emulated { " (emulated)" } else { "" };
    let rate = record.rate().map(|rate| format!(", {rate}{sign}")).unwrap_or_default();
    let verified = match record.verification.mode {
        VerifyMode::None => "not verified".to_owned(),
        VerifyMode::Sample if record.verification.bytes < record.bytes => {
            peerlane_report::no_difference(record.verification.bytes, record.bytes)
        }
        mode => format!("verified ({mode})"),
    };
    let (all, moved) = (record.bytes.0, record.content.data.0);
    let moved = if moved < all { format!(" ({moved} moved)") } else { String::new() };
    format!("route {}, {all} bytes{moved}{rate}, {verified}", record.route)
}

#[cfg(test)]
mod tests {
    use peerlane_results::CopyRecord;

    use super::*;

    #[test]
    fn partial_rate_shows_its_bytes() {
        let sample = include_str!("../../../../fixtures/results/copy.json");
        let all: CopyRecord = serde_json::from_str(sample).unwrap();
        let mut record = all.only().unwrap().clone();
        record.content.data = record.bytes;
        assert!(short(&record).contains(" bytes, "), "{}", short(&record));
        record.content.data.0 = 65536;
        assert!(short(&record).contains(" bytes (65536 moved), "), "{}", short(&record));
    }
}
