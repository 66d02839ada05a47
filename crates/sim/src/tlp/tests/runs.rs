use super::*;

/// Writes, reads, a relay and an open flow, all over one switch.
fn mixture() -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let complex = RootComplex { hol: Coupling::new(0.5), ..RootComplex::default() };
    let top = t.add("root", NodeKind::RootComplex(complex));
    let bare = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let host = t.add_below(top, "host", NodeKind::HostMemory(HostMemory::default()), bare);
    let hub = t.add_below(top, "switch", switch(), wire("16GT/s x8"));
    let drives: Vec<NodeIndex> = (0..6)
        .map(|i| {
            let above = if i < 4 { hub } else { top };
            t.add_below(above, format!("d{i}"), endpoint(), wire("16GT/s x4"))
        })
        .collect();
    let mut open = FlowSpec::write("open", drives[5], drives[0]).with(Bytes::kib(16), 8);
    open.arrival = Arrival::Open { rate: ByteRate(500_000_000) };
    let mut slow = FlowSpec::read("slow", drives[4], host).with(Bytes::kib(64), 4);
    slow.first.latency = Picos::micros(80);
    let flows = vec![
        FlowSpec::write("w", drives[0], drives[4]),
        FlowSpec::read("r", drives[1], drives[5]),
        FlowSpec::relay("relay", drives[2], host, drives[3]),
        open,
        slow,
    ];
    (t, flows)
}

fn figures(outcome: &TlpOutcome) -> impl PartialEq + std::fmt::Debug + use<> {
    let flows: Vec<_> = outcome.flows.iter().map(|f| (f.bytes, f.latency.clone())).collect();
    (flows, outcome.links.clone(), outcome.memories.clone(), outcome.events)
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let (t, flows) = mixture();
    let settings = window(500, 8);
    let one = simulated(&t, &flows, &settings);
    assert_eq!(figures(&one), figures(&simulated(&t, &flows, &settings)));
    let other = Settings { seed: 1, ..settings };
    assert_ne!(figures(&one), figures(&simulated(&t, &flows, &other)));
}

#[test]
fn wheel_and_heap_give_the_same_figures_to_the_last_bit() {
    let (t, flows) = mixture();
    for packets in [1, 16] {
        let wheel = window(300, packets);
        let heap = Settings { queue: Queue::Heap, ..wheel.clone() };
        let (wheel, heap) = (simulated(&t, &flows, &wheel), simulated(&t, &flows, &heap));
        assert_eq!(figures(&wheel), figures(&heap));
    }
}

#[test]
fn flows_with_an_end_move_all_their_bytes_and_stop() {
    let (t, mut flows) = mixture();
    for (number, flow) in (1u64..).zip(&mut flows) {
        flow.bytes = Bytes(number * 1_000_001);
        flow.start = Picos::micros(number * 10);
    }
    let extent = Extent::Whole { most: Picos::millis(100) };
    let outcome = simulated(&t, &flows, &Settings { extent, ..Settings::default() });
    for (flow, found) in flows.iter().zip(&outcome.flows) {
        assert_eq!(found.bytes, flow.bytes, "{}", flow.name);
        let (first, last) = (found.first_done.unwrap(), found.last_done.unwrap());
        assert!(flow.start < first && first <= last && last <= outcome.measured, "{}", flow.name);
        assert_eq!(found.latency.count(), flow.bytes.0.div_ceil(flow.request.0));
    }
}

#[test]
fn trains_change_rates_by_less_than_a_percent() {
    let (t, flows) = mixture();
    let [one, sixteen] =
        [1, 16].map(|packets| rates(&simulated(&t, &flows, &window(5_000, packets))));
    for ((flow, one), sixteen) in flows.iter().zip(one).zip(sixteen) {
        // Which commands come in the window is the same; which end in it is not.
        let allowed = if flow.name == "open" { 5.0 } else { 1.0 };
        assert_near(sixteen, one, allowed, &flow.name);
    }
}

#[test]
fn automatic_trains_end_with_two_lengths_that_agree() {
    let (t, flows) = mixture();
    let settings = Settings { train: Train::Auto, ..window(5_000, 1) };
    let outcome = simulated(&t, &flows[..3], &settings);
    assert!(outcome.train_difference.unwrap() <= 0.005 || outcome.train == 1);
}

#[test]
fn a_window_ends_when_both_halves_say_the_same() {
    let (t, nodes, _) = devices(2, "8GT/s x4");
    let extent = Extent::Even {
        after: Picos::ZERO,
        brief: Picos::millis(2),
        least: Picos::millis(2),
        window: Picos::millis(32),
        most: Picos::millis(50),
    };
    let settings = Settings { extent, train: Train::Fixed(16), ..Settings::default() };
    let steady = FlowSpec::write("w", nodes[0], nodes[1]);
    let outcome = simulated(&t, std::slice::from_ref(&steady), &settings);
    assert_eq!(outcome.measured, Picos::millis(2), "every command takes as long");
    let arrival = Arrival::Open { rate: ByteRate(3_200_000_000) };
    let outcome = simulated(&t, &[FlowSpec { arrival, ..steady }], &settings);
    assert!(outcome.measured > Picos::millis(2), "queues grow and shrink");
}

/// One flow over one link is a server with random arrivals and constant service, M/D/1: the mean wait
/// is `S rho / (2 (1 - rho))` (Pollaczek and Khinchine).
#[test]
fn an_open_flow_moves_what_is_asked_and_waits_as_queueing_theory_says() {
    let (t, nodes, _) = devices(2, "8GT/s x4");
    let ceiling = speed("8GT/s x4").write_ceiling(Bytes(256));
    let at = |percent: u64| {
        let mut flow = FlowSpec::write("w", nodes[0], nodes[1]).with(Bytes::kib(16), 1024);
        let rate = ByteRate(ceiling.0 / 100 * percent);
        flow.arrival = Arrival::Open { rate };
        let settings = Settings { seed: 3, ..window(400_000, 16) };
        let outcome = simulated(&t, &[flow], &settings);
        assert_near(rates(&outcome)[0], gb(rate), 1.5, "rate");
        let latency = outcome.flows[0].latency.clone();
        (rates(&outcome)[0] / gb(ceiling), latency)
    };
    let ((light_load, light), (heavy_load, heavy)) = (at(30), at(80));
    let service = 16_384.0 / gb(ceiling) * 1e3;
    let wait = |load: f64| service * load / (2.0 * (1.0 - load));
    let grown = heavy.mean().0 as f64 - light.mean().0 as f64;
    assert_near(grown, wait(heavy_load) - wait(light_load), 4.0, "wait");
    assert!(heavy.quantile(0.99) > heavy.quantile(0.5));
}

#[test]
fn a_device_takes_less_than_64_kib() {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let mut drives = Vec::new();
    for number in 0..8 {
        let hub = t.add_below(top, format!("switch{number}"), switch(), wire("8GT/s x16"));
        let names = (0..16).map(|i| format!("d{number}-{i}"));
        drives.extend(names.map(|name| t.add_below(hub, name, endpoint(), wire("8GT/s x4"))));
    }
    let count = drives.len();
    let relay = |i: usize| {
        FlowSpec::relay("r", drives[i], drives[(i + 40) % count], drives[(i + 80) % count])
    };
    let flows: Vec<FlowSpec> = (0..count).map(relay).collect();
    let outcome = simulate(&t, &flows, &window(200, 1)).unwrap();
    let each = outcome.memory.0 / count as u64;
    assert!(each <= 64 << 10, "{each} bytes for each of {count} devices");
}
