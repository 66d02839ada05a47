//! Packet settings of a workload's drives, from their configuration spaces.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use peerlane_fabric::{Bdf, NoPackets, PacketSettings as Found};
use peerlane_results::{DevicePackets, EndpointFacts, Packets};

use super::case::PlannedCase;

/// The drives of these cases, each once, as typed.
pub(super) fn device_packets(root: &Path, cases: &[PlannedCase<'_>]) -> Vec<DevicePackets> {
    let flows = cases.iter().flat_map(|case| &case.flows);
    let ends = flows.flat_map(|planned| {
        let (flow, source, target) = (planned.flow(), planned.source(), planned.target());
        [source.map(|facts| (&flow.source, facts)), target.map(|facts| (&flow.target, facts))]
    });
    let mut seen = BTreeSet::new();
    let first = ends.flatten().filter(|(typed, _)| seen.insert(typed.as_str()));
    first.map(|(typed, facts)| one(root, typed, facts)).collect()
}

fn one(root: &Path, typed: &str, facts: &EndpointFacts) -> DevicePackets {
    let address: Option<Bdf> = facts.address.as_ref().and_then(|address| address.parse().ok());
    let found = match address {
        Some(address) => Found::read(root, address).map_err(|error| reason(&error)),
        None => Err("nothing says which PCI function serves it".to_owned()),
    };
    let (packets, reason) = match found {
        Ok(Found { payload, request, tags }) => (Some(Packets { payload, request, tags }), None),
        Err(reason) => (None, Some(reason)),
    };
    DevicePackets { device: typed.to_owned(), address: facts.address.clone(), packets, reason }
}

fn reason(error: &NoPackets) -> String {
    match error.source() {
        Some(answer) => format!("{error}: {answer}"),
        None => error.to_string(),
    }
}
