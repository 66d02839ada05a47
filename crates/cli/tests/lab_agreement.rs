//! What the plan says of a machine and what the kernel answers there, for machines that span the
//! kernel's decision table.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod lab;

use lab::Lab;
use peerlane_results::{Probe, ProbeAnswer, Verdict};

/// What the plan says of the only memory and both drives, and what a probe says.
fn probes(machine: &'static str) -> Option<Vec<Probe>> {
    let mut lab = Lab::open(machine)?;
    lab.fill("a", 1 << 20);
    lab.fill("b", 1 << 20);
    lab.run("plan probe /dev/lab/a /dev/lab/b --probe");
    let plan: serde_json::Value = serde_json::from_str(&lab.text("probe.json")).expect("JSON");
    Some(serde_json::from_value(plan["probes"].clone()).expect("probes"))
}

fn agree(machine: &'static str, verdict: Verdict) {
    let Some(probes) = probes(machine) else { return };
    assert_eq!(probes.len(), 2, "{probes:?}");
    for probe in probes {
        assert_eq!((probe.predicted, probe.agrees), (verdict, Some(true)), "{probe:?}");
        let is_permitted = probe.answer == ProbeAnswer::Permitted;
        assert_eq!(is_permitted, verdict != Verdict::NotSupported, "{probe:?}");
    }
}

#[test]
fn the_kernel_turns_traffic_round_below_a_common_switch() {
    agree("pair", Verdict::BusAddress);
}

#[test]
fn the_kernel_refuses_redirected_traffic() {
    agree("acs", Verdict::NotSupported);
}
