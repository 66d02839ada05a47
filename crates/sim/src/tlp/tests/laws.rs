//! Rates and latencies against formulas.

use super::*;

const LINKS: [&str; 6] =
    ["2.5GT/s x1", "5GT/s x16", "8GT/s x4", "16GT/s x4", "16GT/s x16", "32GT/s x16"];

/// One device that writes to, or reads from, another with the same link.
fn pair(link: &str, mps: u64, completion: u64) -> (Topology, Vec<NodeIndex>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let wire = Wire::pcie(speed(link), Bytes(mps));
    let memory = TargetMemory { completion: Bytes(completion), ..TargetMemory::default() };
    let device = ModelEndpoint { mps: Bytes(mps), tags: 768, memory, ..ModelEndpoint::default() };
    let kind = NodeKind::Endpoint(device);
    let nodes = ["a", "b"].map(|name| t.add_below(top, name, kind.clone(), wire));
    (t, nodes.to_vec())
}

fn micros(link: &str) -> u64 {
    match link {
        "2.5GT/s x1" => 10_000,
        _ if link.ends_with("x4") => 500,
        _ => 100,
    }
}

/// Simulates a flow between the two devices of [`pair`], and asserts its rate.
fn assert_ceiling(link: &str, (t, flow): (&Topology, FlowSpec), expected: ByteRate, what: u64) {
    let outcome = simulated(t, &[flow], &window(micros(link), 16));
    assert_near(rates(&outcome)[0], gb(expected), 1.0, &format!("{link}, {what}"));
}

#[test]
fn rates_reach_link_ceiling() {
    for link in LINKS {
        for mps in [128, 256, 512] {
            let (t, nodes) = pair(link, mps, 256);
            let flow = FlowSpec::write("w", nodes[0], nodes[1]);
            assert_ceiling(link, (&t, flow), speed(link).write_ceiling(Bytes(mps)), mps);
        }
        for completion in [64, 128, 256] {
            let (t, nodes) = pair(link, 256, completion);
            let flow = FlowSpec::read("r", nodes[0], nodes[1]);
            let expected = speed(link).read_ceiling(Bytes(completion));
            assert_ceiling(link, (&t, flow), expected, completion);
        }
        let (mut t, nodes) = pair(link, 256, 256);
        let split = RootComplex { split: Some(Bytes(64)), ..RootComplex::default() };
        let top = t.find("root").unwrap();
        t.node_mut(top).kind = NodeKind::RootComplex(split);
        let flow = FlowSpec::write("w", nodes[0], nodes[1]);
        assert_ceiling(link, (&t, flow), speed(link).write_ceiling(Bytes(64)), 64);
    }
}

#[test]
fn dllps_cost_the_opposite_direction() {
    let link = "32GT/s x16";
    let (t, nodes) = pair(link, 256, 256);
    let flows =
        [FlowSpec::write("there", nodes[0], nodes[1]), FlowSpec::write("back", nodes[1], nodes[0])];
    let outcome = simulated(&t, &flows, &window(100, 16));
    // B = R p / (p + 24 + 8 d r) with d = r = 1.
    let expected = gb(speed(link).usable_rate()) * 256.0 / (256.0 + 24.0 + 8.0);
    for rate in rates(&outcome) {
        assert_near(rate, expected, 1.0, "both ways");
    }
}

/// A reader with few tags against memory of a known latency.
fn reader(tags: u32, mrrs: u64, latency: Picos) -> (Topology, FlowSpec) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let device = ModelEndpoint { tags, mrrs: Bytes(mrrs), ..ModelEndpoint::default() };
    let reader = t.add_below(top, "reader", NodeKind::Endpoint(device), wire("16GT/s x16"));
    let memory = TargetMemory { read_latency: latency, ..TargetMemory::default() };
    let kind = NodeKind::Endpoint(ModelEndpoint { memory, ..ModelEndpoint::default() });
    let lender = t.add_below(top, "lender", kind, wire("16GT/s x16"));
    (t, FlowSpec::read("r", reader, lender))
}

/// Time of one read on an idle path: requests and completions over two links and one root complex.
fn round_trip(t: &Topology, flow: &FlowSpec, mrrs: u64) -> f64 {
    let per_byte = wire("16GT/s x16").picos_per_kib as f64 / 1024.0;
    let link = t.links()[0].wire.propagation.0 as f64;
    let node = RootComplex::default().latency.0 as f64;
    let memory = t.node(flow.memory).kind.memory().unwrap();
    let of_memory = memory.read.map_or(0.0, |rate| 1e12 / rate.0 as f64);
    // The header of a request and of the first completion is waited for at the root complex; the rest
    // of the last completion follows at the rate of the link, or of the memory, which is done with the first then.
    let request = 2.0 * 24.0 * per_byte + 2.0 * link + node;
    let answer = (276.0 + 20.0) * per_byte + 2.0 * link + node;
    let behind = (mrrs - 256) as f64 * f64::max(276.0 / 256.0 * per_byte, of_memory);
    request + memory.read_latency.0 as f64 + 256.0 * of_memory + answer + behind
}

/// Asserts the rate of a flow with single packets and with trains.
fn assert_rate(t: &Topology, flow: FlowSpec, expected: f64, what: &str) {
    let flow = [flow];
    for train in [1, 16] {
        let outcome = simulated(t, &flow, &window(500, train));
        let what = format!("{what}, trains of {}", outcome.train);
        assert_near(rates(&outcome)[0], expected, 1.0, &what);
    }
}

/// A medium takes none of the time of a tag.
#[test]
fn reads_obey_the_law_of_tags() {
    let giga = |rate: u64| Some(ByteRate(rate * 1_000_000_000));
    let fast = [(1, 512, 500), (8, 512, 1000), (16, 256, 2000), (32, 512, 3000)];
    let fast = fast.map(|(tags, mrrs, nanos)| (tags, mrrs, nanos, None, None));
    let slow = [(1, 512), (2, 512), (4, 512), (1, 4096), (2, 256), (32, 512)];
    let slow = slow
        .into_iter()
        .flat_map(|(tags, mrrs)| [1, 2, 3, 10].map(|read| (tags, mrrs, 300, giga(read), None)));
    let media = [1, 2, 4, 32]
        .into_iter()
        .flat_map(|tags| [1, 5, 50].map(|medium| (tags, 512, 300, None, giga(medium))));
    for (tags, mrrs, nanos, read, medium) in fast.into_iter().chain(slow).chain(media) {
        let (mut t, flow) = reader(tags, mrrs, Picos::nanos(nanos));
        if let NodeKind::Endpoint(lender) = &mut t.node_mut(flow.memory).kind {
            lender.memory.read = read;
        }
        if let NodeKind::Endpoint(device) = &mut t.node_mut(flow.first.initiator).kind {
            device.fetches = medium;
        }
        let law = f64::from(tags) * mrrs as f64 / round_trip(&t, &flow, mrrs) * 1e3;
        let link = speed("16GT/s x16").read_ceiling(Bytes(256));
        let limits = [Some(link), read, medium].into_iter().flatten().map(gb);
        let what = format!("{tags} tags of {mrrs} at {nanos} ns, {read:?}, medium {medium:?}");
        assert_rate(&t, flow, limits.fold(law, f64::min), &what);
    }
}

#[test]
fn writes_obey_the_law_of_credits() {
    for (headers, data, propagation) in [(8, 1 << 20, 300), (64, 256, 300), (32, 1 << 20, 500)] {
        let (mut t, nodes) = pair("32GT/s x16", 256, 256);
        let link = t.link_above(nodes[0]).unwrap();
        let wire = t.wire_mut(link);
        wire.credits.headers = headers;
        wire.credits.data = data;
        wire.propagation = Picos::nanos(propagation);
        // Cut-through: the credit of a packet is on its way back as soon as it is out of the root
        // complex, one packet after its header was in.
        let per_byte = wire.picos_per_kib as f64 / 1024.0;
        let latency = RootComplex::default().latency.0 as f64;
        let loop_time = 304.0 * per_byte + 2.0 * propagation as f64 * 1e3 + latency;
        let bytes = (u64::from(headers) * 256).min(u64::from(data) * 16) as f64;
        let expected = bytes / loop_time * 1e3;
        let flow = FlowSpec::write("w", nodes[0], nodes[1]);
        assert_rate(&t, flow, expected, &format!("{headers} headers, {data} units"));
    }
}

#[test]
fn latency_obeys_littles_law() {
    let (t, nodes, host) = devices(3, "8GT/s x4");
    for (request, depth) in [(4096, 1), (4096, 32), (131_072, 4), (131_072, 16)] {
        let flows = [
            FlowSpec::write("w0", nodes[0], nodes[2]).with(Bytes(request), depth),
            FlowSpec::write("w1", nodes[1], nodes[2]).with(Bytes(request), depth),
            FlowSpec::read("r", nodes[2], host).with(Bytes(request), depth),
        ];
        let outcome = simulated(&t, &flows, &window(10_000, 16));
        for flow in &outcome.flows {
            let times = flow.latency.steps().map(|(time, count)| time.0 as f64 * count as f64);
            let mean = times.sum::<f64>() / flow.latency.count() as f64;
            let under_way = flow.rate.0 as f64 * mean / 1e12;
            assert_near(under_way / request as f64, f64::from(depth), 1.0, "depth");
        }
    }
}

#[test]
fn iommu_misses_follow_walker_count() {
    let (mut t, nodes, host) = devices(1, "16GT/s x16");
    let iommu = Iommu {
        miss_per_mille: 1000,
        bytes_per_translation: Bytes(4096),
        walk: Picos::nanos(600),
        walkers: 2,
    };
    let top = t.find("root").unwrap();
    t.node_mut(top).kind =
        NodeKind::RootComplex(RootComplex { iommu: Some(iommu), ..RootComplex::default() });
    let outcome = simulated(&t, &[FlowSpec::write("w", nodes[0], host)], &window(500, 16));
    assert_near(rates(&outcome)[0], 2.0 * 4096.0 / 600.0, 1.0, "two walkers");
}

#[test]
fn memories_and_media_limit_rates() {
    let (mut t, nodes, host) = devices(2, "16GT/s x4");
    let slow = TargetMemory { write: Some(ByteRate(2_000_000_000)), ..TargetMemory::default() };
    let drive = ModelEndpoint { posts: Some(ByteRate(3_000_000_000)), ..ModelEndpoint::default() };
    t.node_mut(nodes[0]).kind = NodeKind::Endpoint(drive);
    t.node_mut(nodes[1]).kind =
        NodeKind::Endpoint(ModelEndpoint { memory: slow, ..ModelEndpoint::default() });
    let into_slow = simulated(&t, &[FlowSpec::write("w", nodes[0], nodes[1])], &window(500, 16));
    assert_near(rates(&into_slow)[0], 2.0, 1.0, "memory");
    let two = [FlowSpec::write("a", nodes[0], host), FlowSpec::write("b", nodes[0], host)];
    for rate in rates(&simulated(&t, &two, &window(500, 16))) {
        assert_near(rate, 1.5, 1.0, "half of a medium");
    }
    let mut bound = FlowSpec::write("w", nodes[0], host);
    bound.first.bound = Some(ByteRate(1_000_000_000));
    assert_near(rates(&simulated(&t, &[bound], &window(500, 16)))[0], 1.0, 1.0, "bound");
}

#[test]
fn legs_share_tags_equally() {
    let (mut t, nodes, host) = devices(1, "8GT/s x4");
    t.node_mut(nodes[0]).kind =
        NodeKind::Endpoint(ModelEndpoint { tags: 4, ..ModelEndpoint::default() });
    let flows = ["a", "b", "c"].map(|name| FlowSpec::read(name, nodes[0], host));
    let found = rates(&simulated(&t, &flows, &window(2_000, 1)));
    for rate in &found {
        assert_near(*rate, found[0], 1.0, "each of three");
    }
}
