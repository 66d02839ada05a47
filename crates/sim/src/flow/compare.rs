//! Both engines on one case, for tests.

use peerlane_units::Bytes;

use super::rates::Rates;
use super::solve::Settings;
use crate::model::{FlowSpec, Picos, Topology};
use crate::tlp::{self, Extent, simulate};

/// Rates of the flows of one case, in bytes of payload a nanosecond.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) tlp: Vec<f64>,
    pub(crate) flow: Vec<f64>,
    /// True if the rates of packets settled.
    pub(crate) is_settled: bool,
}

impl Compared {
    /// Largest relative error of a flow.
    pub(crate) fn worst(&self) -> f64 {
        let pairs = self.tlp.iter().zip(&self.flow);
        pairs.map(|(tlp, flow)| (flow / tlp.max(1e-9) - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Runs both engines, packets for 100 ms after they settled.
pub(crate) fn compare(topology: &Topology, flows: &[FlowSpec]) -> Compared {
    let rates = Rates::of(topology, flows, Settings::default()).expect("rates");
    let extent = Extent::Steady { window: Picos::millis(100), most: Picos::millis(300) };
    let settings = tlp::Settings { extent, ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings).expect("packets");
    let nanos = outcome.measured.to_nanos().0.max(1) as f64;
    let rate = |bytes: Bytes| bytes.0 as f64 / nanos;
    Compared {
        tlp: outcome.flows.iter().map(|flow| rate(flow.bytes)).collect(),
        flow: rates.solution.rates,
        is_settled: outcome.is_settled,
    }
}
