//! Values of the gauges on fixtures and described machines.

use peerlane_fabric::{Acs, Fabric, lspci};
use peerlane_reach::{MapType, decide};
use peerlane_report::machine::openmetrics;
use std::collections::BTreeMap;

use crate::{fixture, fixtures};

/// The samples of one family: labels as they stand in the text, and value.
fn samples(text: &str, family: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(family));
    let samples = lines.filter(|rest| rest.starts_with(['{', ' ']));
    samples
        .map(|rest| {
            let (labels, value) = rest.rsplit_once(' ').expect("a value");
            (labels.to_owned(), value.parse().expect("a whole number"))
        })
        .collect()
}

fn value(text: &str, series: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn described(text: &str) -> String {
    openmetrics(&Fabric::from_toml(text).expect("a machine"))
}

#[test]
fn small_machine_has_these_gauges() {
    insta::assert_snapshot!(openmetrics(&fixture("lab-pair")));
}

#[test]
fn series_are_unique_and_end_marked() {
    for (name, fabric) in fixtures() {
        let text = openmetrics(&fabric);
        assert!(text.ends_with("\n# EOF\n"), "{name}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut series: Vec<_> = lines.filter_map(|line| line.rsplit_once(' ')).collect();
        series.sort_unstable();
        assert!(series.windows(2).all(|two| two[0].0 != two[1].0), "{name}");
    }
}

#[test]
fn pair_gauges_follow_single_decisions() {
    for (name, fabric) in fixtures() {
        let text = openmetrics(&fabric);
        let permitted = samples(&text, "peerlane_pair_permitted");
        let direct = samples(&text, "peerlane_pair_direct");
        let initiators = || fabric.iter().filter(|(id, _)| fabric.moves_payload(*id));
        let mut counted = 0;
        for memory in fabric.memories() {
            for (id, initiator) in initiators().filter(|(id, _)| *id != memory.function) {
                let map = match fabric.kernel.has_p2pdma {
                    Some(false) => MapType::NotSupported,
                    _ => decide(&fabric, memory.function, id).map,
                };
                let (initiator, memory) =
                    (initiator.address, fabric.function(memory.function).address);
                let (initiator, memory) = (initiator.expect("captured"), memory.expect("captured"));
                let labels = format!("{{initiator=\"{initiator}\",memory=\"{memory}\"}}");
                let expected = match map {
                    MapType::BusAddress => (Some(1), Some(1)),
                    MapType::ThroughHostBridge => (Some(1), Some(0)),
                    MapType::NotSupported => (Some(0), Some(0)),
                    MapType::Conditional => (None, Some(0)),
                    MapType::Unknown => (None, None),
                };
                let found = (permitted.get(&labels).copied(), direct.get(&labels).copied());
                assert_eq!(found, expected, "{name}: {labels}");
                counted += 1;
            }
        }
        assert_eq!(samples(&text, "peerlane_pairs").values().sum::<u64>(), counted, "{name}");
        assert!(permitted.len() as u64 <= counted && direct.len() as u64 <= counted, "{name}");
    }
}

#[test]
fn downgraded_link_is_one() {
    let machine = |current: &str, kind: &str| {
        openmetrics(&peerlane_testing::machine(&format!(
            "r root-port link_below = '16GT/s x16'
               a {kind} link = {{ current = '{current}', maximum = '32GT/s x16' }}"
        )))
    };
    let gauge = |text: &str, kind: &str| {
        let labels = |name: &str| {
            format!(
                "{name}{{device=\"a\",name=\"{}\",kind=\"{kind}\"}}",
                if kind == "gpu" { "gpu:0" } else { "a" }
            )
        };
        let read = |name: &str| value(text, &labels(name));
        (
            read("peerlane_link_downgraded"),
            read("peerlane_link_lanes"),
            read("peerlane_link_max_lanes"),
        )
    };
    let (whole, slow, narrow) = ("16GT/s x16", "2.5GT/s x16", "16GT/s x8");
    assert_eq!(gauge(&machine(whole, "nic"), "nic"), (Some(0), Some(16), Some(16)));
    assert_eq!(gauge(&machine(slow, "nic"), "nic"), (Some(1), Some(16), Some(16)));
    assert_eq!(gauge(&machine(narrow, "nic"), "nic"), (Some(1), Some(8), Some(16)));
    // An idle GPU slows its link and keeps the width.
    assert_eq!(gauge(&machine(slow, "gpu"), "gpu"), (None, Some(16), Some(16)));
    assert_eq!(gauge(&machine(narrow, "gpu"), "gpu"), (Some(1), Some(8), Some(16)));
    let rate = "peerlane_link_max_bytes_per_second{device=\"a\",name=\"a\",kind=\"nic\"}";
    assert_eq!(value(&machine(slow, "nic"), rate), Some(31_507_692_307));
}

#[test]
fn unreadable_facts_are_counted_not_guessed() {
    let mut fabric = fixture("lab-pair");
    let facts = |fabric: &Fabric| samples(&openmetrics(fabric), "peerlane_unknown_facts");
    assert!(facts(&fabric).values().all(|&number| number == 0), "{:?}", facts(&fabric));
    for function in &mut fabric.functions {
        function.acs = Acs::Unknown;
        function.link = None;
    }
    fabric.cpu.vendor = None;
    fabric.kernel.has_p2pdma = None;
    let text = openmetrics(&fabric);
    for family in ["acs_redirects", "pair_permitted", "pair_direct", "link_lanes", "kernel_p2pdma"]
    {
        assert!(samples(&text, &format!("peerlane_{family}")).is_empty(), "{family}");
    }
    assert_eq!(value(&text, "peerlane_pairs{verdict=\"unknown\"}"), Some(2));
    // Eight functions are on the way of payload; the links are those of the switch and of three drives.
    for (fact, number) in [("acs", 8), ("class", 0), ("cpu", 1), ("link", 4), ("p2pdma", 1)] {
        assert_eq!(facts(&fabric)[&format!("{{fact=\"{fact}\"}}")], number, "{fact}");
    }
}

#[test]
fn conditional_pairs_are_never_direct() {
    let mut fabric = fixture("lab-split");
    fabric.cpu.vendor = None;
    let text = openmetrics(&fabric);
    assert_eq!(value(&text, "peerlane_pairs{verdict=\"conditional\"}"), Some(2));
    assert!(samples(&text, "peerlane_pair_permitted").is_empty());
    let direct = samples(&text, "peerlane_pair_direct");
    assert_eq!(direct.into_values().collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn text_without_classes_is_unknown() {
    let picture = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0  Drive [144d:a80a]\n";
    let text = openmetrics(&lspci::read(picture).expect("a machine"));
    let class = value(&text, "peerlane_unknown_facts{fact=\"class\"}");
    assert!(class.is_some_and(|number| number > 0), "{text}");
}

#[test]
fn kernel_without_p2pdma_permits_nothing() {
    let mut fabric = fixture("lab-pair");
    fabric.kernel.has_p2pdma = Some(false);
    let text = openmetrics(&fabric);
    assert_eq!(value(&text, "peerlane_kernel_p2pdma"), Some(0));
    let permitted = samples(&text, "peerlane_pair_permitted");
    assert_eq!(permitted.into_values().collect::<Vec<_>>(), [0, 0]);
    assert_eq!(value(&text, "peerlane_pairs{verdict=\"refused\"}"), Some(2));
}

/// Drives with memory below one switch.
fn drives(count: usize) -> String {
    let drive = |at| format!(" d{at} downstream-port\n  n{at} nvme p2pmem = {{ size = '64M' }}\n");
    let drives: String = (0..count).map(drive).collect();
    openmetrics(&peerlane_testing::machine(&format!("u upstream-port\n{drives}")))
}

#[test]
fn many_pairs_are_only_counted() {
    // 64 * 63 pairs are listed, 65 * 64 are not.
    for (count, listed) in [(64, 4032), (65, 0)] {
        let text = drives(count);
        assert_eq!(samples(&text, "peerlane_pair_permitted").len(), listed);
        let all: u64 = samples(&text, "peerlane_pairs").values().sum();
        assert_eq!(all, (count * (count - 1)) as u64);
    }
}

#[test]
fn hostile_names_stay_in_labels() {
    let text = described(
        "name = 'm'\n[[function]]\nname = \"a\\\"} 1\\nforged 1\\\\\"\nkind = 'nvme'\n\
         p2pmem = { size = '64M' }\n",
    );
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    assert!(text.contains("device=\"a\\\"} 1\\\\u{a}forged 1\\\\\""), "{text}");
}
