use peerlane_fabric::Fabric;

use super::*;
use crate::model::{ModelParameters, NodeKind, Topology};

fn generated(notation: &str) -> (Fabric, Topology) {
    let fabric = fabric(notation).expect("a notation").expect(notation);
    let topology = Topology::from_fabric(&fabric, &ModelParameters::default()).expect(notation);
    (fabric, topology)
}

#[test]
fn pairs_have_a_path() {
    for (notation, devices) in [("tree:100", 100), ("servers:4", 64), ("pods:3:7", 63)] {
        let (fabric, topology) = generated(notation);
        let is_device = |kind: &NodeKind| matches!(kind, NodeKind::Endpoint(_));
        let found = topology.nodes().iter().filter(|node| is_device(&node.kind)).count();
        assert_eq!(found, devices, "{notation}");
        let (lenders, mut draws) = (LenderNames::from_fabric(&fabric), Draws::new(1));
        for _ in 0..50 {
            let [source, target] = lenders.pair(&mut draws).map(|name| topology.find(name));
            assert!(topology.path(source.unwrap(), target.unwrap()).is_ok(), "{notation}");
        }
    }
}

#[test]
fn machines_are_apart() {
    let (servers, topology) = generated("servers:3");
    let ends = ["s0/d1", "s1/d1"].map(|name| topology.find(name).expect(name));
    assert!(topology.path(ends[0], ends[1]).is_err());
    let found = workload("random:200:5", &servers).expect("a notation").expect("a workload");
    assert_eq!(found.cases[0].flows.len(), 200);
    for flow in &found.cases[0].flows {
        let machine = |name: &str| name.split_once('/').map(|(machine, _)| machine.to_owned());
        assert_ne!(flow.source, flow.target);
        assert_eq!(machine(&flow.source), machine(&flow.target));
    }
}

#[test]
fn wrong_notations_are_refused() {
    assert!(fabric("ten").is_none() && fabric("forest:3").is_none());
    for wrong in
        ["tree:", "tree:1", "tree:x", "tree:5:1", "tree:99999", "servers:0", "pods:3:", "pods:-1"]
    {
        let error = fabric(wrong).expect("a notation").map(|_| ());
        assert!(error.is_err_and(|error| error.to_string().contains(wrong)), "{wrong}");
    }
    let bare = Fabric::from_toml("name = \"x\"").expect("a machine");
    assert!(workload("random:3", &bare).expect("a notation").is_err());
    assert!(workload("crowd.toml", &bare).is_none());
}
