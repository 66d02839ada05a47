//! Single flows of which packets and fluids say different rates, where the sums of all do not show it.

use peerlane_results::RateDifference;

use super::*;

/// The flow whose rates are furthest apart in a case, and what else `check` says than sums.
fn apart(record: &BenchRecord, case: usize) -> (&RateDifference, Option<&str>) {
    let case = &record.cases[case];
    let furthest = case.prediction.as_ref().and_then(|one| one.furthest.as_ref());
    let said = case.evidence.get(1).map(|one| one.evidence.showed.as_str());
    (furthest.expect("packets were simulated"), said)
}

/// Copies from a drive to its neighbour below one switch, with media as fast as no link: one peer to peer, one by host
/// memory that begins 100 ms later. They run together for less time than the first does alone, and for more than the other.
fn unlike() -> BenchRecord {
    let machine = crate::generate::fabric("tree:9").expect("notation").expect("a machine");
    let fast = [("drive.read.rate", 14.0, "GB/s"), ("drive.write.rate", 14.0, "GB/s")];
    let (bytes, start_ns) = (Bytes::mib(256), Nanos(100_000_000));
    let by_host = Flow { bytes, start_ns, ..Flow::new("d0", "d8", Path::HostPipelined) };
    let asked = workload(vec![("two", vec![Flow::new("d0", "d8", Path::P2p), by_host])]);
    run(&machine, &with(&fast), &asked, Engine::Auto).expect("it can be predicted")
}

#[test]
fn a_flow_that_packets_give_a_quarter_more_is_named_though_sums_are_the_same() {
    let record = unlike();
    let sums = &record.cases[0].evidence[0].evidence.showed;
    assert!(sums.starts_with("3 of 3 sets") && sums.contains("rates differ by 0."), "{sums}");
    let (furthest, said) = apart(&record, 0);
    assert_eq!((furthest.flow, furthest.name.as_str(), furthest.transfers), (1, "d0 to d8 (2)", 2));
    assert_eq!(furthest.from_ns, Nanos(100_000_000));
    // Until the one that began first ends.
    let until = furthest.from_ns.0 + furthest.time_ns.0;
    assert!(until.abs_diff(record.cases[0].flows[0].elapsed_ns.0) < 10_000, "{furthest:?}");
    let ratio = furthest.packets.0 as f64 / furthest.fluids.0 as f64;
    assert!(ratio > 1.2 && (ratio - 1.0 - furthest.difference).abs() < 1e-6, "{furthest:?}");
    assert!(furthest.margin.is_some_and(|least| least < 0.03), "{furthest:?}");
    let said = said.expect("it is told");
    let words = format!(
        "d0 to d8 (2) differs most: {} on packets, {:.1} % more than {} as a fluid, in the set of 2 transfers from 100.0 ms on",
        furthest.packets,
        furthest.difference * 100.0,
        furthest.fluids
    );
    assert!(said.starts_with(&words), "{said}");
}

#[test]
fn where_engines_agree_no_flow_is_told_and_the_record_has_the_one_that_differs_most() {
    let pairs = [("d0", "d9"), ("d1", "d8"), ("d2", "d7")];
    let flows = pairs.map(|(a, b)| Flow::new(a, b, Path::P2p)).to_vec();
    let record = predict(&machine("ten"), &workload(vec![("pairs", flows)]), Engine::Auto);
    let (furthest, said) = apart(&record, 0);
    assert_eq!((said, furthest.transfers), (None, 3));
    let margin = furthest.margin.expect("rates have settled");
    assert!(furthest.difference.abs() < margin && margin < 0.03, "{furthest:?}");
}

#[test]
fn what_the_sums_say_already_is_not_told_of_a_flow_again() {
    let pair =
        |(a, b)| Flow { block: Bytes::mib(1), depth: 1, ..Flow::new(a, b, Path::HostPipelined) };
    let flows = [("d0", "d9"), ("d1", "d8"), ("d2", "d7")].map(pair).to_vec();
    let record = predict(&machine("ten"), &workload(vec![("pairs", flows)]), Engine::Auto);
    let (furthest, said) = apart(&record, 0);
    assert!(furthest.difference < -0.1 && said.is_none(), "{furthest:?} {said:?}");
}

#[test]
fn without_packets_no_flow_is_named() {
    let asked = one(Flow::new("d0", "d9", Path::P2p));
    let record = predict(&machine("ten"), &asked, Engine::Flow);
    let prediction = record.cases[0].prediction.as_ref().expect("it is one");
    assert!(prediction.furthest.is_none() && record.cases[0].evidence.len() == 1);
}
