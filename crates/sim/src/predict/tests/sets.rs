//! Percentiles of flows that are active in several sets, and what is said of flows that are in no window.

use super::*;
use crate::generate::{fabric, workload as generated};

fn flow(source: &str, gigabytes: u64, start: u64) -> Flow {
    Flow {
        bytes: Bytes::kib(128 * 7_629 * gigabytes),
        start_ns: Nanos::seconds(start),
        ..Flow::new(source, "d9", Path::P2p)
    }
}

fn medians(record: &BenchRecord) -> Vec<f64> {
    record.cases[0].flows.iter().map(|flow| flow.block.p50_ns.0 as f64).collect()
}

#[test]
fn flows_that_join_later_have_percentiles_and_so_have_those_that_they_join() {
    let ten = machine("ten");
    let joining = ["d1", "d2", "d3", "d4", "d5"].map(|source| flow(source, 1, 2));
    let flows: Vec<Flow> = std::iter::once(flow("d0", 40, 0)).chain(joining).collect();
    let record = predict(&ten, &workload(vec![("six", flows)]), Engine::Auto);
    let alone = predict(&ten, &one(flow("d0", 40, 0)), Engine::Auto);
    assert_eq!(record.cases[0].warnings, []);
    let (medians, alone) = (medians(&record), medians(&alone)[0]);
    // Most of the long one is moved while it is alone; in one of forty commands it is one of six.
    assert!((medians[0] / alone - 1.0).abs() < 0.02, "{medians:?} {alone}");
    assert!(medians[1..].iter().all(|median| median / alone > 4.0), "{medians:?} {alone}");
    let long = &record.cases[0].flows[0].block;
    assert!(long.p90_ns.0 as f64 / alone < 1.1 && long.p99_ns.0 as f64 / alone > 4.0, "{long:?}");
    assert_eq!(
        record.summaries[0].block.p99_ns,
        record.cases[0].flows[1].block.p99_ns.max(long.p99_ns)
    );
}

#[test]
fn flows_that_do_the_same_one_after_the_other_have_the_same_percentiles() {
    let flows = vec![flow("d0", 1, 0), flow("d0", 1, 9)];
    let record = predict(&machine("ten"), &workload(vec![("two", flows)]), Engine::Auto);
    let medians = medians(&record);
    assert!(medians[0] > 0.0 && medians[0] == medians[1], "{medians:?}");
}

#[test]
fn flows_in_no_window_are_told() {
    let machine = fabric("servers:30").expect("notation").expect("a machine");
    let asked = generated("random:110", &machine).expect("notation").expect("a workload");
    let record = predict(&machine, &asked, Engine::Tlp);
    let flows = &record.cases[0].flows;
    let none = flows.iter().filter(|flow| flow.block.count == 0).count();
    assert!(none > 0, "all are in a window: nothing to tell");
    let told = &record.cases[0].warnings;
    let is_told = |warning: &Warning| matches!(warning, Warning::NotSimulated { transfers, of: 110, .. } if *transfers as usize == none);
    assert!(told.iter().any(is_told), "{none}: {told:?}");
}
