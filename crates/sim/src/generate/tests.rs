use super::*;
use crate::model::{NodeKind, Parameters, Topology};
use peerlane_fabric::Fabric;

#[test]
fn machines_have_the_devices_that_were_asked_for_and_paths_within_groups() {
    for machine in [tree(3), tree(100), servers(4), pods(3, 7)] {
        let mut draws = Draws::new(1);
        for _ in 0..50 {
            let (source, target) = machine.pair(&mut draws);
            assert!(machine.topology.path(source, target).is_ok());
        }
    }
    assert_eq!(tree(100).groups[0].len(), 100);
    assert_eq!(servers(4).groups.iter().map(Vec::len).sum::<usize>(), 64);
}

/// Links of PCIe, by their speed, and devices: what a notation must keep of a generator.
fn census(topology: &Topology) -> (usize, Vec<String>) {
    let devices = topology.nodes().iter();
    let devices = devices.filter(|node| matches!(node.kind, NodeKind::Endpoint(_))).count();
    let speeds = topology.links().iter().filter_map(|link| link.wire.speed);
    let mut speeds: Vec<String> = speeds.map(|speed| speed.to_string()).collect();
    speeds.sort();
    (devices, speeds)
}

#[test]
fn a_notation_gives_the_machine_of_its_generator_and_nothing_joins_machines() {
    for (notation, machine) in [
        ("tree:9", tree(9)),
        ("tree:100", tree(100)),
        ("servers:3", servers(3)),
        ("pods:2:7", pods(2, 7)),
        ("pods:1", pods(1, 0)),
    ] {
        let fabric = fabric(notation).expect("a notation").expect(notation);
        let topology = Topology::from_fabric(&fabric, &Parameters::default()).expect(notation);
        assert_eq!(census(&topology), census(&machine.topology), "{notation}");
        assert_eq!(topology.links().len(), machine.topology.links().len(), "{notation}");
    }
    let two = fabric("servers:2").expect("a notation").expect("two");
    let topology = Topology::from_fabric(&two, &Parameters::default()).expect("two");
    let ends = ["s0/d1", "s0/d2", "s1/d1"].map(|name| topology.find(name).expect(name));
    assert!(topology.path(ends[0], ends[1]).is_ok());
    assert!(topology.path(ends[0], ends[2]).is_err(), "servers are apart");
}

#[test]
fn a_generated_workload_stays_within_machines() {
    let servers = fabric("servers:3").expect("a notation").expect("three");
    let found = workload("random:200:5", &servers).expect("a notation").expect("a workload");
    assert_eq!(found.cases[0].flows.len(), 200);
    for flow in &found.cases[0].flows {
        let machine = |name: &str| name.split_once('/').map(|(machine, _)| machine.to_owned());
        assert_ne!(flow.source, flow.target);
        assert_eq!(machine(&flow.source), machine(&flow.target));
    }
}

#[test]
fn what_is_no_notation_is_a_name_and_what_is_a_wrong_one_is_refused() {
    assert!(fabric("ten").is_none() && fabric("forest:3").is_none());
    for wrong in
        ["tree:", "tree:1", "tree:x", "tree:5:1", "tree:99999", "servers:0", "pods:3:", "pods:-1"]
    {
        let error = fabric(wrong).expect("it begins like one").map(|_| ());
        assert!(error.is_err_and(|error| error.to_string().contains(wrong)), "{wrong}");
    }
    let bare = Fabric::from_toml("name = \"x\"").expect("a machine");
    assert!(workload("random:3", &bare).expect("a notation").is_err());
    assert!(workload("crowd.toml", &bare).is_none());
}
