//! The record of a predicted case, in the form of a measured one.

use peerlane_results::{
    BytesByRoute, CaseRecord, CaseSpec, CpuCost, FlowRecord, HostMemoryTraffic, Latency,
    PageFaults, Percentiles, Prediction, Route, RouteVerdict, Spread, Summary, Warning,
};
use peerlane_units::{Bytes, Nanos};

use super::CaseReport;
use super::case::{FoundFlow, Model};
use super::flows::Planned;
use super::setting::{count, whole};
use super::utilisation::{limits, loads};

/// The record of a case, without its interval and gains.
pub(super) fn record(asked: &CaseSpec, model: &Model, report: CaseReport) -> CaseRecord {
    let found = &report.found;
    let flows: Vec<FlowRecord> =
        (0..found.flows.len()).map(|index| flow(model, &report, index)).collect();
    let pairs = || model.flows.iter().zip(&found.flows);
    let sum = |of: fn(&Planned) -> f64| -> f64 {
        pairs().map(|(flow, found)| of(flow) * found.bytes).sum()
    };
    let total = |of: fn(&FlowRecord) -> Bytes| Bytes(flows.iter().map(|flow| of(flow).0).sum());
    let (least, most) = host_memory(pairs());
    let moved: Vec<f64> = found.flows.iter().map(|flow| flow.bytes).collect();
    // Only faults of maps are modelled.
    let faults = sum(|flow| flow.faults);
    CaseRecord {
        asked: asked.clone(),
        repeat: 0,
        bytes: total(|flow| flow.bytes),
        elapsed_ns: Nanos(whole(found.elapsed())),
        bytes_by_route: BytesByRoute {
            p2p: total(|flow| flow.bytes_by_route.p2p),
            host: total(|flow| flow.bytes_by_route.host),
        },
        latency: Latency::default(),
        cpu: CpuCost { system_ns: Nanos(whole(sum(|flow| flow.cpu))), ..CpuCost::default() },
        host_memory: HostMemoryTraffic {
            bytes: Some(most),
            reason: format!(
                "predicted: between {least} with all of it in the processor's cache and {most} with none"
            ),
        },
        verification: None,
        evidence: Vec::new(),
        verdict: RouteVerdict::NotKnown,
        limits: limits(model, found, &moved),
        links: loads(model, &moved, found.elapsed()),
        warnings: warnings(asked, &report, &flows),
        flows,
        prediction: Some(Prediction {
            engine: report.engine,
            interval: None,
            gains: Vec::new(),
            host_memory: Some((least, most)),
        }),
        page_faults: (faults > 0.0).then(|| PageFaults { minor: whole(faults.ceil()), major: 0 }),
    }
}

/// Warnings of rates that had not settled, and of flows without a window.
fn warnings(asked: &CaseSpec, report: &CaseReport, flows: &[FlowRecord]) -> Vec<Warning> {
    let case = || asked.name.clone();
    let mut warnings = Vec::new();
    if report.found.is_unsettled() {
        let per_mille = count(report.found.unsettled * 1e3);
        warnings.push(Warning::NotSettled { case: case(), per_mille });
    }
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    let unseen = flows.iter().filter(|flow| flow.block.count == 0).count();
    if report.windows.is_some() && unseen > 0 {
        let (transfers, of) = (number(unseen), number(flows.len()));
        warnings.push(Warning::NotSimulated { case: case(), transfers, of });
    }
    warnings
}

fn flow(model: &Model, report: &CaseReport, index: usize) -> FlowRecord {
    let (flow, found) = (&model.flows[index], &report.found.flows[index]);
    let bytes = Bytes(whole(found.bytes));
    let of_route = |route| if flow.route == route { bytes } else { Bytes::ZERO };
    let windows = report.windows.as_ref();
    let latency = windows.and_then(|windows| windows.latency.get(&index)).cloned();
    let first = model.first_done(index);
    FlowRecord {
        bytes,
        elapsed_ns: Nanos(whole(found.end - found.start)),
        first_done_ns: Nanos(whole((found.start + first).min(found.end))),
        memory: flow.memory.clone(),
        bytes_by_route: BytesByRoute { p2p: of_route(Route::P2p), host: of_route(Route::Host) },
        block: latency.unwrap_or_default(),
        limited_by: Some(model.name(found.limited_by)),
        knee: found.knee.map(|knee| count(knee.ceil()).max(1)),
        places: None,
        stage: None,
    }
}

/// Least and most host-memory bytes: with all that devices write still in the processor's cache when it is read, and with
/// none of it.
fn host_memory<'a>(pairs: impl Iterator<Item = (&'a Planned, &'a FoundFlow)>) -> (Bytes, Bytes) {
    let (mut least, mut most) = (0.0, 0.0);
    for (flow, found) in pairs.filter(|(flow, _)| flow.route == Route::Host) {
        least += flow.traffic.least * found.bytes;
        most += flow.traffic.most * found.bytes;
    }
    (Bytes(whole(least)), Bytes(whole(most)))
}

/// The summary of a case: a prediction has no spread.
pub(super) fn summary(case: &CaseRecord) -> Summary {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let number = |count: u64| count as f64;
    let rate = case.rate().map_or(0.0, |rate| number(rate.0));
    let bytes = number(case.bytes.0).max(1.0);
    let blocks = case.flows.iter().map(|flow| &flow.block).filter(|block| block.count > 0);
    Summary {
        case: case.asked.name.clone(),
        rate: Spread {
            count: 1,
            mean: rate,
            median: rate,
            min: rate,
            max: rate,
            deviation: 0.0,
            confidence: None,
        },
        block: together(blocks),
        host_bytes_per_byte: case.host_memory.bytes.map(|host| number(host.0) / bytes),
        cpu_s_per_gib: number(case.cpu.system_ns.0) / 1e9 / bytes * 1_073_741_824.0,
        verdict: case.verdict,
    }
}

/// Percentiles of several flows: the median of the median flow, and the tail of the worst.
fn together<'a>(blocks: impl Iterator<Item = &'a Percentiles>) -> Percentiles {
    let mut all: Vec<&Percentiles> = blocks.collect();
    all.sort_by_key(|block| block.p50_ns);
    let Some(middle) = all.get(all.len() / 2) else { return Percentiles::default() };
    let most =
        |of: fn(&Percentiles) -> Nanos| all.iter().map(|block| of(block)).max().unwrap_or_default();
    Percentiles {
        count: all.iter().map(|block| block.count).sum(),
        p50_ns: middle.p50_ns,
        p90_ns: most(|block| block.p90_ns),
        p99_ns: most(|block| block.p99_ns),
        p999_ns: most(|block| block.p999_ns),
        max_ns: most(|block| block.max_ns),
    }
}
