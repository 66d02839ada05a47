//! Verdicts on machines that topology XML of NCCL and RCCL describes: where the text leaves facts open, no
//! verdict is claimed.

use std::path::Path;

use peerlane_fabric::{Acs, Fabric, FunctionId, FunctionKind, nccl};
use peerlane_reach::{MapType, decide};

fn read(name: &str) -> Fabric {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nccl");
    nccl::read(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

/// Every pair of GPUs and NICs.
fn pairs(fabric: &Fabric) -> Vec<(FunctionId, FunctionId)> {
    let is_end = |id: &FunctionId| {
        matches!(fabric.function(*id).kind, FunctionKind::Gpu | FunctionKind::Nic)
    };
    let ends: Vec<FunctionId> = fabric.iter().map(|(id, _)| id).filter(is_end).collect();
    let with = |&one| ends.iter().map(move |&other| (one, other));
    ends.iter().flat_map(with).filter(|(one, other)| one != other).collect()
}

fn top(fabric: &Fabric, id: FunctionId) -> FunctionId {
    fabric.upward(id).last().unwrap_or(id)
}

#[test]
fn intel_servers_leave_every_pair_open() {
    for name in ["h100.xml", "workstation.xml"] {
        let fabric = read(name);
        for (one, other) in pairs(&fabric) {
            let reach = decide(&fabric, one, other);
            let is_open = matches!(reach.map, MapType::Unknown | MapType::Conditional);
            assert!(is_open, "{name}: {}", reach.summary());
        }
    }
}

#[test]
fn amd_processors_forward_between_switches() {
    let fabric = read("mi300.xml");
    for (one, other) in pairs(&fabric) {
        let reach = decide(&fabric, one, other);
        if top(&fabric, one) == top(&fabric, other) {
            assert_eq!(reach.map, MapType::Unknown, "{}", reach.summary());
        } else {
            assert_eq!(reach.map, MapType::ThroughHostBridge, "{}", reach.summary());
        }
    }
}

#[test]
fn distances_count_the_ports_between() {
    let mut fabric = read("h100.xml");
    let distance = |fabric: &Fabric, one: &str, other: &str| {
        decide(fabric, fabric.find(one).unwrap(), fabric.find(other).unwrap()).distance
    };
    for function in &mut fabric.functions {
        function.acs = Acs::Absent;
    }
    assert_eq!(distance(&fabric, "0000:1c:00.0", "0000:1e:00.0"), Some(4), "one switch");
    fabric.cpu.vendor = Some("AuthenticAMD".to_owned());
    fabric.cpu.family = Some(0x19);
    assert_eq!(distance(&fabric, "0000:1c:00.0", "0000:4a:00.0"), Some(8), "two switches");
}
