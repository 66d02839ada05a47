//! What is written down of commands: all of a window, and nothing else.

use std::collections::BTreeMap;

use super::*;

/// A relay through a third device beside a write and a read of host memory, at different depths.
fn crowd() -> (Topology, Vec<FlowSpec>) {
    let (t, nodes, host) = devices(5, "8GT/s x4");
    let mut paced = FlowSpec::read("r", nodes[4], host).with(Bytes::kib(96), 8);
    paced.arrival = Arrival::Paced { rate: ByteRate(500_000_000) };
    let mut relay = FlowSpec::relay("b", nodes[0], nodes[2], nodes[1]).with(Bytes::kib(128), 4);
    relay.first.latency = Picos::micros(80);
    let flows = vec![relay, FlowSpec::write("w", nodes[3], host).with(Bytes::kib(64), 3), paced];
    (t, flows)
}

fn logged(log: usize, settings: Settings) -> (Vec<FlowSpec>, TlpOutcome) {
    let (t, flows) = crowd();
    let outcome = simulate(&t, &flows, &Settings { log, ..settings }).unwrap();
    (flows, outcome)
}

fn commands(outcome: &TlpOutcome) -> &Commands {
    outcome.commands.as_ref().expect("a log was asked for")
}

/// Legs by flow and slot, in order.
fn by_slot(commands: &Commands) -> BTreeMap<(usize, u32), Vec<CommandLeg>> {
    let mut slots: BTreeMap<_, Vec<CommandLeg>> = BTreeMap::new();
    for leg in &commands.legs {
        slots.entry((leg.flow, leg.slot)).or_default().push(*leg);
    }
    slots
}

/// Bytes of last legs of a flow that arrived in the window.
fn moved(specs: &[FlowSpec], commands: &Commands, flow: usize) -> u64 {
    let is_last =
        |leg: &&CommandLeg| leg.flow == flow && leg.is_second == specs[flow].second.is_some();
    commands.legs.iter().filter(is_last).map(|leg| leg.moved).sum()
}

#[test]
fn what_is_written_down_adds_up_to_what_the_window_moved() {
    // So short that commands at its edges count.
    for micros in [150, 3_000] {
        let (specs, outcome) = logged(1 << 16, window(micros, 4));
        let log = commands(&outcome);
        let end = outcome.warm_up.0 + outcome.measured.0;
        assert_eq!(log.left_out, [0; 3]);
        for (flow, found) in outcome.flows.iter().enumerate() {
            assert_eq!(Bytes(moved(&specs, log, flow)), found.bytes, "flow {flow}");
            let is_relay = specs[flow].second.is_some();
            let ended = log
                .legs
                .iter()
                .filter(|leg| leg.flow == flow && leg.is_second == is_relay && leg.end.is_some());
            assert_eq!(ended.count() as u64, found.latency.count(), "flow {flow}");
        }
        for leg in &log.legs {
            assert!(leg.moved <= leg.bytes && leg.begin.0 <= end, "{leg:?}");
            assert!(leg.end.is_none_or(|at| outcome.warm_up < at && at.0 <= end), "{leg:?}");
            let is_whole = leg.begin >= outcome.warm_up && leg.end.is_some();
            assert!(!is_whole || leg.moved == leg.bytes, "{leg:?}");
        }
        assert!(log.legs.iter().any(|leg| leg.moved < leg.bytes), "commands at the edges");
    }
}

#[test]
fn a_slot_holds_one_command_at_a_time_and_its_legs_follow_each_other() {
    let (specs, outcome) = logged(1 << 16, window(3_000, 4));
    let slots = by_slot(commands(&outcome));
    let used = |flow: usize| slots.keys().filter(|(of, _)| *of == flow).count();
    assert_eq!((used(0), used(1)), (4, 3), "all slots of those that are not paced");
    for ((flow, slot), legs) in slots {
        let is_relay = specs[flow].second.is_some();
        assert!(slot < specs[flow].depth);
        for pair in legs.windows(2) {
            let end = pair[0].end.expect("something follows it");
            assert!(end <= pair[1].begin, "{pair:?}");
            if is_relay && !pair[0].is_second {
                assert_eq!((end, pair[0].number), (pair[1].begin, pair[1].number), "{pair:?}");
                assert!(pair[1].is_second, "{pair:?}");
            } else {
                assert!(!pair[1].is_second && pair[0].number < pair[1].number, "{pair:?}");
            }
        }
    }
}

#[test]
fn writing_down_changes_nothing_and_nothing_is_written_down_unasked() {
    let (_, plain) = logged(0, window(500, 4));
    let (_, with_log) = logged(1 << 16, window(500, 4));
    assert_eq!(plain.commands, None);
    assert_eq!((plain.events, plain.warm_up), (with_log.events, with_log.warm_up));
    for (one, other) in plain.flows.iter().zip(&with_log.flows) {
        assert_eq!((one.bytes, &one.latency), (other.bytes, &other.latency));
    }
    let (_, again) = logged(1 << 16, window(500, 4));
    assert_eq!(with_log.commands, again.commands);
}

#[test]
fn a_full_log_has_whole_commands_and_counts_the_others() {
    let (specs, outcome) = logged(1 << 16, window(3_000, 4));
    let all = commands(&outcome);
    let (_, outcome) = logged(101, window(3_000, 4));
    let log = commands(&outcome);
    assert!((100..=101).contains(&log.legs.len()), "{}", log.legs.len());
    let left_out: u64 = log.left_out.iter().sum();
    assert_eq!(log.legs.len() as u64 + left_out, all.legs.len() as u64);
    assert!(log.legs.iter().all(|leg| all.legs.contains(leg)));
    let latest = log.legs.iter().filter_map(|leg| leg.end).max().unwrap();
    // Of a relay that was begun the second leg is there, too.
    for leg in log.legs.iter().filter(|leg| specs[leg.flow].second.is_some() && !leg.is_second) {
        let second = |other: &&CommandLeg| {
            other.is_second && (other.flow, other.number) == (leg.flow, leg.number)
        };
        let is_there = log.legs.iter().any(|other| second(&other));
        assert!(is_there || leg.end.is_none(), "{leg:?} of {latest}");
    }
}

#[test]
fn a_run_from_its_begin_to_its_end_is_written_down_whole() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let mut relay = FlowSpec::relay("b", nodes[0], host, nodes[1]).with(Bytes::kib(64), 3);
    relay.bytes = Bytes::kib(64 * 10 + 4);
    let extent = Extent::Whole { most: Picos::millis(100) };
    let settings = Settings { extent, train: Train::Fixed(4), log: 1000, ..Settings::default() };
    let outcome = simulate(&t, &[relay.clone()], &settings).unwrap();
    let log = commands(&outcome);
    assert_eq!(log.legs.len(), 22);
    assert!(log.legs.iter().all(|leg| leg.end.is_some() && leg.moved == leg.bytes));
    assert_eq!(Bytes(moved(&[relay.clone()], log, 0)), relay.bytes);
    assert_eq!(log.legs.iter().map(|leg| leg.number).max(), Some(10));
}
