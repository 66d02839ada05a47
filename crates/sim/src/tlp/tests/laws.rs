use super::*;
use crate::flow::{self, rates::Rates};

const LINKS: [&str; 6] =
    ["2.5GT/s x1", "5GT/s x16", "8GT/s x4", "16GT/s x4", "16GT/s x16", "32GT/s x16"];

/// One device that writes to, or reads from, another with the same link.
fn pair(link: &str, mps: u64, completion: u64) -> (Topology, Vec<NodeIndex>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let wire = Wire::pcie(speed(link), Bytes(mps));
    let memory = Memory { completion: Bytes(completion), ..Memory::default() };
    let device = Endpoint { mps: Bytes(mps), tags: 768, memory, ..Endpoint::default() };
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

#[test]
fn writes_reach_the_ceiling_of_their_link() {
    for link in LINKS {
        for mps in [128, 256, 512] {
            let (t, nodes) = pair(link, mps, 256);
            let flow = FlowSpec::write("w", nodes[0], nodes[1]);
            let outcome = simulated(&t, &[flow], &window(micros(link), 16));
            let expected = gb(speed(link).write_ceiling(Bytes(mps)));
            assert_near(rates(&outcome)[0], expected, 1.0, &format!("{link} MPS {mps}"));
        }
    }
}

#[test]
fn writes_cut_by_the_root_complex_reach_the_ceiling_of_the_pieces() {
    for link in LINKS {
        let (mut t, nodes) = pair(link, 256, 256);
        let split = RootComplex { split: Some(Bytes(64)), ..RootComplex::default() };
        let top = t.find("root").unwrap();
        t.node_mut(top).kind = NodeKind::RootComplex(split);
        let flow = FlowSpec::write("w", nodes[0], nodes[1]);
        let outcome = simulated(&t, &[flow], &window(micros(link), 16));
        let expected = gb(speed(link).write_ceiling(Bytes(64)));
        assert_near(rates(&outcome)[0], expected, 1.0, link);
    }
}

#[test]
fn reads_reach_the_ceiling_of_their_link() {
    for link in LINKS {
        for completion in [64, 128, 256] {
            let (t, nodes) = pair(link, 256, completion);
            let flow = FlowSpec::read("r", nodes[0], nodes[1]);
            let outcome = simulated(&t, &[flow], &window(micros(link), 16));
            let expected = gb(speed(link).read_ceiling(Bytes(completion)));
            assert_near(rates(&outcome)[0], expected, 1.0, &format!("{link} c={completion}"));
        }
    }
}

#[test]
fn acknowledgements_cost_the_direction_opposite_to_the_packets() {
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
    let device = Endpoint { tags, mrrs: Bytes(mrrs), ..Endpoint::default() };
    let reader = t.add_below(top, "reader", NodeKind::Endpoint(device), wire("16GT/s x16"));
    let memory = Memory { read_latency: latency, ..Memory::default() };
    let kind = NodeKind::Endpoint(Endpoint { memory, ..Endpoint::default() });
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

/// Asserts the rate of a flow as a fluid, and on packets one by one and in trains.
fn assert_by_both(t: &Topology, flow: FlowSpec, expected: f64, what: &str) {
    let flow = [flow];
    let fluid = Rates::of(t, &flow, flow::solve::Settings::default()).unwrap();
    assert_near(fluid.solution.rates[0], expected, 1.0, &format!("{what}, fluid"));
    for train in [1, 16] {
        let outcome = simulated(t, &flow, &window(500, train));
        let what = format!("{what}, trains of {}", outcome.train);
        assert_near(rates(&outcome)[0], expected, 1.0, &what);
    }
}

#[test]
fn reads_obey_the_law_of_tags() {
    let fast = [(1, 512, 500), (8, 512, 1000), (16, 256, 2000), (32, 512, 3000)];
    let slow = [(1, 512), (2, 512), (4, 512), (1, 4096), (2, 256), (32, 512)];
    let fast = fast.map(|(tags, mrrs, nanos)| (tags, mrrs, nanos, None));
    let slow = slow.into_iter().flat_map(|(tags, mrrs)| {
        [1, 2, 3, 10].map(|giga| (tags, mrrs, 300, Some(ByteRate(giga * 1_000_000_000))))
    });
    for (tags, mrrs, nanos, read) in fast.into_iter().chain(slow) {
        let (mut t, flow) = reader(tags, mrrs, Picos::nanos(nanos));
        if let NodeKind::Endpoint(lender) = &mut t.node_mut(flow.memory).kind {
            lender.memory.read = read;
        }
        let law = f64::from(tags) * mrrs as f64 / round_trip(&t, &flow, mrrs) * 1e3;
        let link = speed("16GT/s x16").read_ceiling(Bytes(256));
        let expected = law.min(gb(read.unwrap_or(link).min(link)));
        let what = format!("{tags} tags of {mrrs} at {nanos} ns, memory of {read:?}");
        assert_by_both(&t, flow, expected, &what);
    }
}

#[test]
fn a_medium_holds_no_tags_while_it_takes_what_was_read() {
    let (mrrs, latency) = (512, Picos::nanos(300));
    for (tags, giga) in
        [1, 2, 4, 32].into_iter().flat_map(|tags| [1, 5, 50].map(|giga| (tags, giga)))
    {
        let (mut t, flow) = reader(tags, mrrs, latency);
        let law = f64::from(tags) * mrrs as f64 / round_trip(&t, &flow, mrrs) * 1e3;
        let medium = ByteRate(giga * 1_000_000_000);
        if let NodeKind::Endpoint(device) = &mut t.node_mut(flow.first.initiator).kind {
            device.fetches = Some(medium);
        }
        let expected = law.min(gb(medium)).min(gb(speed("16GT/s x16").read_ceiling(Bytes(256))));
        assert_by_both(&t, flow, expected, &format!("{tags} tags, a medium of {giga} GB/s"));
    }
}

#[test]
fn writes_obey_the_law_of_credits() {
    for (headers, data, propagation) in [(8, 1 << 20, 300), (64, 256, 300), (32, 1 << 20, 500)] {
        let (mut t, nodes) = pair("32GT/s x16", 256, 256);
        let link = t.link_above(nodes[0]).unwrap();
        let wire = t.wire_mut(link);
        wire.credits.posted_headers = headers;
        wire.credits.posted_data = data;
        wire.propagation = Picos::nanos(propagation);
        // Cut-through: the credit of a packet is on its way back as soon as it is out of the root
        // complex, one packet after its header was in.
        let per_byte = wire.picos_per_kib as f64 / 1024.0;
        let latency = RootComplex::default().latency.0 as f64;
        let loop_time =
            24.0 * per_byte + 2.0 * propagation as f64 * 1e3 + latency + 280.0 * per_byte;
        let bytes = (u64::from(headers) * 256).min(u64::from(data) * 16) as f64;
        let expected = bytes / loop_time * 1e3;
        for train in [1, 16] {
            let flow = FlowSpec::write("w", nodes[0], nodes[1]);
            let outcome = simulated(&t, &[flow], &window(200, train));
            let what = format!("{headers} headers, {data} units, trains of {}", outcome.train);
            assert_near(rates(&outcome)[0], expected, 1.0, &what);
        }
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
            let inside = flow.rate.0 as f64 * flow.latency.mean().0 as f64 / 1e12;
            let expected = f64::from(depth) * request as f64;
            assert_near(inside, expected, 1.0, &format!("{depth} x {request}"));
        }
    }
}

#[test]
fn misses_of_translation_obey_the_law_of_walkers() {
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
fn memories_and_media_are_no_faster_than_they_say() {
    let (mut t, nodes, host) = devices(2, "16GT/s x4");
    let slow = Memory { write: Some(ByteRate(2_000_000_000)), ..Memory::default() };
    let drive = Endpoint { posts: Some(ByteRate(3_000_000_000)), ..Endpoint::default() };
    t.node_mut(nodes[0]).kind = NodeKind::Endpoint(drive);
    t.node_mut(nodes[1]).kind =
        NodeKind::Endpoint(Endpoint { memory: slow, ..Endpoint::default() });
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
