//! The record of a benchmark in words: a table with a row for each case, and notes on all of them.

use peerlane_bench::statistics::jain;
use peerlane_bench::workload::is_memory;
use peerlane_report::aligned;
use peerlane_results::{
    Basis, BenchRecord, CaseRecord, CaseSpec, Path, StageRecord, Summary, Warning, WorkloadKind,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::{LabelSheet, OverwrittenRanges, counted};

const HEAD: [&str; 10] = [
    "case",
    "mean rate",
    "+-",
    "ratio",
    "p50",
    "p99",
    "host B/B",
    "cpu s/GiB",
    "route",
    "of limit",
];

/// Results of a benchmark, their basis, and caveats; `overwritten` holds the ranges written besides
/// the targets that the record names.
pub(crate) fn bench(record: &BenchRecord, overwritten: &OverwrittenRanges) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(record.summaries.iter().map(|summary| row(record, summary)));
    let mut sheet = LabelSheet::default();
    sheet.line(format_args!(
        "{}, {}, {}",
        record.asked.name,
        basis(record.basis),
        counted(record.cases.len(), "run")
    ));
    for line in aligned(&rows) {
        sheet.line(line);
    }
    if record.summaries.iter().any(|one| one.rate.confidence.is_some()) {
        sheet.line(
            "rates are means of the runs; +- is half of the 95 % confidence interval of the mean",
        );
    }
    match record.asked.kind {
        WorkloadKind::Crowd => crowd(&mut sheet, record),
        WorkloadKind::Matrix => matrix(&mut sheet, record),
        WorkloadKind::Roundtrip => sheet.0 += &peerlane_report::donard_tables(record),
        _ => {}
    }
    stages(&mut sheet, record);
    verification(&mut sheet, record);
    if record.basis != Basis::Predicted {
        written(&mut sheet, record, overwritten);
    }
    sheet.warnings(all_warnings(record));
    sheet.0
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Emulated => "emulated machine: semantics, not speed",
        Basis::Predicted => "predicted",
    }
}

fn row(record: &BenchRecord, summary: &Summary) -> Vec<String> {
    let rate = summary.rate;
    let runs = || record.cases.iter().filter(|run| run.asked.name == summary.case);
    let half = rate.confidence.map(|(low, high)| (high - low) / 2.0 / rate.mean * 100.0);
    let limit = runs().next().and_then(|run| run.limits.first());
    let share = limit.map(|limit| rate.mean / limit.bytes_per_second.0 as f64 * 100.0);
    let latency = |of: fn(&Summary) -> peerlane_units::Nanos| match summary.block.count {
        0 => "-".to_owned(),
        _ => of(summary).to_string(),
    };
    vec![
        summary.case.clone(),
        in_words(rate.mean),
        half.map_or_else(|| "-".to_owned(), |half| format!("{half:.1} %")),
        ratio(record, summary).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        latency(|one| one.block.p50_ns),
        latency(|one| one.block.p99_ns),
        summary.host_bytes_per_byte.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.2}")),
        format!("{:.3}", summary.cpu_s_per_gib),
        route(record, summary).to_owned(),
        share.map_or_else(|| "-".to_owned(), |share| format!("{share:.0} %")),
    ]
}

pub(super) fn in_words(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is no less than zero, and casts of floats end at the bounds of the integer"
    )]
    ByteRate(rate.round() as u64).to_string()
}

/// Verdict of the evidence on the route; a prediction knows its route and has no evidence.
fn route(record: &BenchRecord, summary: &Summary) -> String {
    if record.basis == Basis::Predicted {
        let run = record.cases.iter().find(|run| run.asked.name == summary.case);
        return run.and_then(|run| run.bytes_by_route.words()).unwrap_or("-").to_owned();
    }
    summary.verdict.to_string()
}

/// The mean rate over that of the same transfers by the pipelined host path.
fn ratio(record: &BenchRecord, summary: &Summary) -> Option<f64> {
    let spec = |name: &str| record.asked.cases.iter().find(|case| case.name == name);
    let own = spec(&summary.case)?;
    let path = own.flows.first()?.path;
    if path == Path::HostPipelined || !took_own_route(record, own, path) {
        return None;
    }
    let other = record.summaries.iter().find(|other| {
        spec(&other.case)
            .is_some_and(|case| is_by(case, Path::HostPipelined) && is_same_but_for_path(own, case))
    })?;
    (other.rate.mean > 0.0).then(|| summary.rate.mean / other.rate.mean)
}

/// True when every counted byte of a case took the route that was asked for.
fn took_own_route(record: &BenchRecord, case: &CaseSpec, path: Path) -> bool {
    let runs = record.cases.iter().filter(|run| run.asked.name == case.name);
    runs.map(|run| run.bytes_by_route).all(|moved| match path {
        Path::P2p => moved.host == Bytes::ZERO,
        _ => moved.p2p == Bytes::ZERO,
    })
}

fn is_by(case: &CaseSpec, path: Path) -> bool {
    case.flows.iter().all(|flow| flow.path == path)
}

fn is_same_but_for_path(one: &CaseSpec, other: &CaseSpec) -> bool {
    let key = |case: &CaseSpec| -> Vec<_> {
        let flows = case.flows.iter();
        flows
            .map(|flow| {
                let stage = flow.stage.as_ref().map(|stage| stage.name.clone());
                let ends = (flow.source.clone(), flow.target.clone());
                (ends, flow.block, flow.bytes, flow.offset, stage)
            })
            .collect()
    };
    key(one) == key(other)
}

/// Least growth of the total by one more transfer: less is within the spread of runs.
const GROWTH: f64 = 1.05;

/// Rates of single transfers, fairness, and from where on the total grows no more.
fn crowd(sheet: &mut LabelSheet, record: &BenchRecord) {
    saturation(sheet, record);
    for summary in &record.summaries {
        let runs: Vec<&CaseRecord> =
            record.cases.iter().filter(|run| run.asked.name == summary.case).collect();
        let flows = runs.first().map_or(0, |run| run.flows.len());
        if flows < 2 {
            continue;
        }
        let fairness: Vec<f64> = runs.iter().filter_map(|run| jain(&rates(run))).collect();
        let mean = fairness.iter().sum::<f64>() / fairness.len().max(1) as f64;
        let all: Vec<f64> = runs.iter().flat_map(|run| rates(run)).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        sheet.line(format_args!(
            "{}: {flows} transfers, {} to {} each, fairness {mean:.3} (Jain)",
            summary.case,
            in_words(low),
            in_words(high)
        ));
    }
}

/// The smallest number of transfers whose total the larger ones do not exceed by much, by route.
fn saturation(sheet: &mut LabelSheet, record: &BenchRecord) {
    for path in [Path::P2p, Path::HostPipelined] {
        let of_path = |summary: &&Summary| {
            record.asked.cases.iter().any(|one| one.name == summary.case && is_by(one, path))
        };
        let all: Vec<&Summary> = record.summaries.iter().filter(of_path).collect();
        let most = all.iter().map(|one| one.rate.mean).fold(0.0, f64::max);
        let Some(first) = all.iter().find(|one| one.rate.mean * GROWTH >= most) else { continue };
        let counts: Vec<usize> = all.iter().map(|one| transfers(record, &one.case)).collect();
        if !counts.windows(2).all(|pair| pair[0] < pair[1]) {
            continue;
        }
        if all.len() > 1 && all.last().is_some_and(|last| last.case != first.case) {
            sheet.line(format_args!("{path}: the total grows no more from {} on", first.case));
        }
    }
}

fn transfers(record: &BenchRecord, case: &str) -> usize {
    let case = record.asked.cases.iter().find(|one| one.name == case);
    case.map_or(0, |case| case.flows.len())
}

fn rates(run: &CaseRecord) -> Vec<f64> {
    let flows = run.flows.iter();
    flows
        .filter_map(|flow| ByteRate::mean(flow.bytes, flow.elapsed_ns))
        .map(|rate| rate.0 as f64)
        .collect()
}

/// The matrix itself, in MB/s.
fn matrix(sheet: &mut LabelSheet, record: &BenchRecord) {
    let mut drives: Vec<&str> = Vec::new();
    let mut paths: Vec<Path> = Vec::new();
    for flow in record.asked.cases.iter().flat_map(|case| &case.flows) {
        if !drives.contains(&flow.source.as_str()) {
            drives.push(&flow.source);
        }
        if !paths.contains(&flow.path) {
            paths.push(flow.path);
        }
    }
    for path in paths {
        let cell = |from: &str, to: &str| {
            let case = record.asked.cases.iter().find(|case| {
                case.flows.iter().all(|f| f.source == from && f.target == to && f.path == path)
            })?;
            let summary = record.summaries.iter().find(|one| one.case == case.name)?;
            Some(format!("{:.0}", summary.rate.mean / 1e6))
        };
        let mut rows = vec![Vec::from([format!("{path}, MB/s")])];
        rows[0].extend(drives.iter().map(|drive| (*drive).to_owned()));
        for from in &drives {
            let cells = drives.iter().map(|to| cell(from, to).unwrap_or_else(|| "-".to_owned()));
            rows.push(std::iter::once((*from).to_owned()).chain(cells).collect());
        }
        for line in aligned(&rows) {
            sheet.line(line);
        }
    }
    for effect in &record.effects {
        if matches!(effect.place.as_str(), "source" | "target") {
            sheet.line(format_args!(
                "{}: the fastest {} has {:.3} of the rate of the slowest; such differences have a chance \
                 of {:.2} % where it does not matter which it is",
                effect.cases,
                effect.place,
                effect.near_over_far,
                effect.chance * 100.0
            ));
            continue;
        }
        sheet.line(format_args!(
            "{}: pairs below one {} have {:.3} of the rate of others; such a difference has a chance \
             of {:.2} % where location does not matter",
            effect.cases,
            effect.place,
            effect.near_over_far,
            effect.chance * 100.0
        ));
    }
}

/// The share of time that stages were busy, a line for each case with one.
fn stages(sheet: &mut LabelSheet, record: &BenchRecord) {
    for summary in &record.summaries {
        let runs = record.cases.iter().filter(|run| run.asked.name == summary.case);
        let flows = runs.flat_map(|run| &run.flows);
        let staged: Vec<(&StageRecord, Nanos)> = flows
            .filter_map(|flow| flow.stage.as_ref().map(|stage| (stage, flow.elapsed_ns)))
            .collect();
        let sum = |of: fn(&(&StageRecord, Nanos)) -> u64| -> u128 {
            staged.iter().map(|one| u128::from(of(one))).sum()
        };
        let (busy, elapsed) = (sum(|one| one.0.busy_ns.0), sum(|one| one.1.0));
        let mut names: Vec<&str> = staged.iter().map(|(stage, _)| stage.stage.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let Some(longest) = staged.iter().map(|(stage, _)| stage.latency.max_ns).max() else {
            continue;
        };
        sheet.line(format_args!(
            "{}: stage {} busy {} % of the time, {}, longest {longest}",
            summary.case,
            names.join(", "),
            100 * busy / elapsed.max(1),
            super::counted(sum(|one| one.0.chunks), "chunk"),
        ));
    }
}

fn verification(sheet: &mut LabelSheet, record: &BenchRecord) {
    let checked: Vec<_> = record.cases.iter().filter_map(|run| run.verification).collect();
    if checked.is_empty() {
        return;
    }
    let bytes: u64 = checked.iter().map(|one| one.bytes.0).sum();
    let mismatches: u64 = checked.iter().map(|one| one.mismatches).sum();
    sheet.line(format_args!(
        "content: {bytes} bytes of {} were read back, {}",
        super::counted(checked.len(), "run"),
        super::differing(mismatches, "block")
    ));
}

/// Ranges that now hold test data: nothing is put back.
fn written(sheet: &mut LabelSheet, record: &BenchRecord, besides: &OverwrittenRanges) {
    let mut all = besides.clone();
    for flow in record.asked.cases.iter().flat_map(|case| &case.flows) {
        if !is_memory(&flow.target) {
            let start = flow.target_offset.0;
            all.add(&flow.target, start..start.saturating_add(flow.bytes.0));
        }
    }
    all.lines().for_each(|line| sheet.line(line));
}

/// Each warning once.
fn all_warnings(record: &BenchRecord) -> Vec<&Warning> {
    let mut all: Vec<&Warning> = Vec::new();
    let of_runs = record.cases.iter().flat_map(|run| &run.warnings);
    for warning in record.warnings.iter().chain(of_runs) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_interval_share_statistic() {
        let text = include_str!("../../../../fixtures/results/bench-sweep.json");
        let mut record: BenchRecord = serde_json::from_str(text).expect("a record");
        for summary in &mut record.summaries {
            let rate = &mut summary.rate;
            (rate.mean, rate.median, rate.confidence) = (2e9, 1e9, Some((1.9e9, 2.1e9)));
        }
        let cells = row(&record, &record.summaries[0]);
        assert_eq!(cells[1..3], ["2.00 GB/s", "5.0 %"]);
        let shown = bench(&record, &OverwrittenRanges::default());
        assert!(shown.contains("95 % confidence interval of the mean"), "{shown}");
    }

    #[test]
    fn prediction_shows_its_routes() {
        let text = include_str!("../../../../fixtures/results/bench-sweep-predicted.json");
        let mut record: BenchRecord = serde_json::from_str(text).expect("a record");
        let shown = |record: &BenchRecord| route(record, &record.summaries[0]);
        for (p2p, host, words) in
            [(1, 0, "p2p"), (0, 1, "host"), (1, 1, "p2p and host"), (0, 0, "-")]
        {
            for run in &mut record.cases {
                (run.bytes_by_route.p2p.0, run.bytes_by_route.host.0) = (p2p, host);
            }
            assert_eq!(shown(&record), words);
        }
        record.basis = Basis::Measured;
        assert_eq!(shown(&record), "unknown");
    }
}
