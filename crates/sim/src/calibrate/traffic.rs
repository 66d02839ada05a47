//! Host-memory traffic that was counted, beside what the model says of it.
//!
//! Makes no parameter: the model has an interval and nothing that narrows it. The one thing to know: counters count
//! everything on the machine, so that a neighbour's bytes are in it.

use std::collections::BTreeMap;

use peerlane_results::{BenchRecord, CaseRecord, Path};

use super::Kind;
use super::memory::way;
use crate::devices::host::{
    Traffic, traffic as between_devices, traffic_by_processor, traffic_of_one,
};
use crate::parameters::percentile;

/// What was counted of host memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficCalibration {
    /// One for each kind of case that was counted.
    pub rows: Vec<TrafficRow>,
    /// Why nothing was counted; `None` where something was.
    pub not_counted: Option<String>,
}

/// Host-memory bytes of one kind of case.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficRow {
    /// What was done.
    pub what: String,
    /// Bytes for each byte of payload: median of all runs.
    pub measured: f64,
    /// The same by the model.
    pub predicted: Traffic,
}

pub(super) fn traffic(record: &BenchRecord) -> TrafficCalibration {
    let mut counted: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    for case in &record.cases {
        let [flow] = case.asked.flows.as_slice() else { continue };
        let (Some(kind), Some(share)) = (Kind::of(flow), share(case)) else { continue };
        counted.entry(kind).or_default().push(share);
    }
    let not_counted = match record.cases.first() {
        Some(case) if counted.is_empty() => Some(case.host_memory.reason.clone()),
        _ => None,
    };
    let row = |(kind, mut shares): (Kind, Vec<f64>)| {
        shares.sort_by(f64::total_cmp);
        let (what, predicted) = said(&kind);
        Some(TrafficRow { what, measured: percentile(&shares, 0.5)?, predicted })
    };
    TrafficCalibration { rows: counted.into_iter().filter_map(row).collect(), not_counted }
}

fn share(case: &CaseRecord) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 9 PB")]
    let number = |bytes: u64| bytes as f64;
    (case.bytes.0 > 0).then_some(number(case.host_memory.bytes?.0) / number(case.bytes.0))
}

/// What was done in words, and what the model says of it.
fn said(kind: &Kind) -> (String, Traffic) {
    match kind {
        Kind::Drive { drive, op, is_random } => {
            let order = if *is_random { "random " } else { "" };
            (format!("{drive}, {order}{}", op.name()), traffic_of_one(Path::HostPipelined))
        }
        Kind::Copy => ("host, copies".to_owned(), traffic_by_processor(Path::HostPipelined)),
        Kind::Map => ("host, maps".to_owned(), traffic_by_processor(Path::HostMapped)),
        Kind::Cached { drive, path } => (format!("{drive}, read by {path}"), traffic_of_one(*path)),
        Kind::Memory { memory, drive, op } => {
            (format!("{drive}, {}", way(*op, memory)), between_devices(Path::P2p))
        }
    }
}
