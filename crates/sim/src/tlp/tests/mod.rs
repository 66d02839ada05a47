//! The engine against formulas, against itself, and on cases with a known answer.

mod cases;
mod few_commands;
mod laws;
mod relays;
mod runs;

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::*;
use crate::model::*;

pub(super) fn speed(text: &str) -> LinkSpeed {
    text.parse().unwrap()
}

pub(super) fn wire(text: &str) -> Wire {
    Wire::pcie(speed(text), Bytes(256))
}

pub(super) fn endpoint() -> NodeKind {
    NodeKind::Endpoint(ModelEndpoint::default())
}

pub(super) fn root() -> NodeKind {
    NodeKind::RootComplex(RootComplex::default())
}

pub(super) fn switch() -> NodeKind {
    NodeKind::Switch(Switch::default())
}

/// A root complex with host memory and devices behind this link.
pub(super) fn devices(count: usize, link: &str) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let nodes = (0..count).map(|i| t.add_below(top, format!("d{i}"), endpoint(), wire(link)));
    let nodes: Vec<NodeIndex> = nodes.collect();
    let bare = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let host = t.add_below(top, "host", NodeKind::HostMemory(HostMemory::default()), bare);
    (t, nodes, host)
}

/// A window of so many microseconds, with trains of so many packets.
pub(super) fn window(micros: u64, packets: u32) -> Settings {
    Settings {
        train: TrainSizes::Fixed(packets),
        extent: RunLength::Steady { window: Picos::micros(micros), most: Picos::millis(100) },
        ..Settings::default()
    }
}

pub(super) fn simulated(t: &Topology, flows: &[FlowSpec], settings: &Settings) -> TlpOutcome {
    let outcome = simulate(t, flows, settings).unwrap();
    assert!(outcome.is_settled, "not settled after {}", outcome.warm_up);
    outcome
}

#[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
pub(super) fn gb(rate: ByteRate) -> f64 {
    rate.0 as f64 / 1e9
}

pub(super) fn rates(outcome: &TlpOutcome) -> Vec<f64> {
    outcome.flows.iter().map(|flow| gb(flow.rate)).collect()
}

pub(super) fn assert_near(found: f64, expected: f64, percent: f64, what: &str) {
    let error = (found / expected - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{what}: {found:.4} is {error:+.2} % off {expected:.4}");
}
