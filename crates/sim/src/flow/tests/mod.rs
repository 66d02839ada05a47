//! Both engines on one case, and small networks.

mod run;
mod solve;

use peerlane_units::Bytes;

use super::FlowRates;
use super::network::{FlowNetwork, NONE, NetworkFlow, Resource, ResourceVisit};
use super::solve::{Solver, SolverSettings};
use crate::model::{FlowSpec, Picos, Topology};
use crate::tlp::{self, RunLength, simulate};

/// Rates of the flows of one case, in bytes of payload a nanosecond.
#[derive(Debug)]
pub(crate) struct EngineRates {
    pub(crate) tlp: Vec<f64>,
    pub(crate) flow: Vec<f64>,
    /// True if the rates of packets settled.
    pub(crate) is_settled: bool,
}

impl EngineRates {
    /// Largest relative error of a flow.
    pub(crate) fn worst(&self) -> f64 {
        let pairs = self.tlp.iter().zip(&self.flow);
        pairs.map(|(tlp, flow)| (flow / tlp.max(1e-9) - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Runs both engines, packets for 100 ms after they settled.
pub(crate) fn compare(topology: &Topology, flows: &[FlowSpec]) -> EngineRates {
    let rates = FlowRates::new(topology, flows, SolverSettings::default()).expect("rates");
    let extent = RunLength::Steady { window: Picos::millis(100), most: Picos::millis(300) };
    let settings = tlp::Settings { extent, ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings).expect("packets");
    let nanos = outcome.measured.to_nanos().0.max(1) as f64;
    let rate = |bytes: Bytes| bytes.0 as f64 / nanos;
    EngineRates {
        tlp: outcome.flows.iter().map(|flow| rate(flow.bytes)).collect(),
        flow: rates.rates,
        is_settled: outcome.is_settled,
    }
}
