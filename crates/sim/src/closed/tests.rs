use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::*;
use crate::model::tests::star;
use crate::model::{HostMemory, ModelEndpoint, NodeIndex, Picos, Wire};

/// Two devices below a root complex.
fn pair(mps: Bytes, endpoint: &ModelEndpoint) -> (Topology, NodeIndex, NodeIndex) {
    let wire = Wire::pcie(LinkSpeed { megatransfers: 8_000, width: 4 }, mps);
    let (topology, devices, _) = star(2, endpoint, HostMemory::default(), wire);
    (topology, devices[0], devices[1])
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{found} instead of {expected}");
}

#[test]
fn link_and_headers_bound_writes() {
    // PCIe headers of 24 bytes on 3.94 GB/s less 1/376 for SKP ordered sets: pcie-bench's arithmetic.
    for (mps, expected) in [(128, 3.31), (256, 3.59)] {
        let endpoint = ModelEndpoint { mps: Bytes(mps), ..ModelEndpoint::default() };
        let (topology, a, b) = pair(Bytes(mps), &endpoint);
        let flow = FlowSpec::write("w", a, b).with(Bytes::kib(128), 256);
        let closed = Closed::for_flow(&topology, &flow).unwrap();
        near(closed.rate(), expected, 0.002);
        assert!(
            matches!(closed.bounds[0].by, By::Resource(ResourceOrigin::Link(..))),
            "{closed:?}"
        );
    }
}

#[test]
fn reads_are_bound_by_few_tags() {
    let endpoint = ModelEndpoint { tags: 4, ..ModelEndpoint::default() };
    let (topology, a, b) = pair(Bytes(256), &endpoint);
    let flow = FlowSpec::read("r", a, b).with(Bytes::kib(128), 256);
    let closed = Closed::for_flow(&topology, &flow).unwrap();
    assert_eq!(closed.bounds[0].by, By::Resource(ResourceOrigin::Tags(a)));
    // 4 x 512 bytes in flight; at least 400 ns for the memory and 300 for the root complex, twice.
    assert!(closed.rate() < 2048.0 / 700.0 && closed.rate() > 2048.0 / 1500.0, "{closed:?}");
}

#[test]
fn depth_bounds_flows_below_the_knee() {
    let (topology, a, b) = pair(Bytes(256), &ModelEndpoint::default());
    let mut flow = FlowSpec::write("w", a, b).with(Bytes::kib(4), 1);
    flow.first.latency = Picos::micros(80);
    let closed = Closed::for_flow(&topology, &flow).unwrap();
    assert_eq!(closed.bounds[0].by, By::Depth);
    near(closed.rate(), 4096.0 / closed.latency, 1e-9);
    let below = (1..1000).take_while(|&depth| f64::from(depth) < closed.knee).last().unwrap();
    for (depth, is_enough) in [(below, false), (below + 1, true)] {
        let at = Closed::for_flow(&topology, &flow.clone().with(Bytes::kib(4), depth)).unwrap();
        assert_eq!(matches!(at.bounds[0].by, By::Resource(_)), is_enough, "{depth} {at:?}");
    }
}

#[test]
fn arrivals_and_legs_are_bounds() {
    let (topology, a, b) = pair(Bytes(256), &ModelEndpoint::default());
    let mut flow = FlowSpec::write("w", a, b);
    flow.arrival = Arrival::Paced { rate: ByteRate(1_000_000_000) };
    assert_eq!(Closed::for_flow(&topology, &flow).unwrap().bounds[0].by, By::Arrival);
    flow.first.bound = Some(ByteRate(500_000_000));
    let closed = Closed::for_flow(&topology, &flow).unwrap();
    assert_eq!(closed.bounds[0].by, By::Leg(0));
    near(closed.rate(), 0.5, 1e-9);
}
