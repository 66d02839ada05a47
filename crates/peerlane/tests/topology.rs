//! The answer on every pair, read from the record of a machine, is the one that is decided for the pair alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use peerlane::machines::{self, LookDepth, MachineSource};
use peerlane::topology::{Topology, TopologyPair};
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::decide;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../fabric/tests/suite/random.rs"]
mod random;

/// The decision on one pair, in the words of the record.
fn decided(fabric: &Fabric, memory: FunctionId, initiator: FunctionId) -> TopologyPair {
    let found = decide(fabric, memory, initiator);
    let name = |&id: &FunctionId| fabric.function(id).name.clone();
    TopologyPair {
        verdict: found.map,
        distance: found.distance,
        redirecting: found.redirecting.iter().map(name).collect(),
        conditions: found.conditions.clone(),
        needs: found.needs.iter().map(|need| need.in_words(fabric)).collect(),
    }
}

/// Compares every pair of a machine, and returns their number.
fn compare(fabric: &Fabric) -> Result<usize, TestCaseError> {
    let written = serde_json::to_string(&Topology::new(fabric).unwrap()).unwrap();
    let record: Topology = serde_json::from_str(&written).unwrap();
    let initiators: Vec<FunctionId> =
        fabric.iter().map(|(id, _)| id).filter(|&id| fabric.moves_payload(id)).collect();
    let mut pairs = 0;
    for memory in fabric.memories() {
        for &initiator in &initiators {
            let [one, other] = [memory.function, initiator].map(|id| &fabric.function(id).name);
            let expected = decided(fabric, memory.function, initiator);
            prop_assert_eq!(record.pair(one, other), Some(expected), "{} of {}", other, one);
            pairs += 1;
        }
    }
    Ok(pairs)
}

/// A machine with many devices that are alike: some host bridges, and ports and devices below them.
fn trees() -> impl Strategy<Value = Fabric> {
    let bridge = (
        select(vec!["", "one/", "two/"]),
        select(vec!["whole", "whole", "whole", "partial", "assumed"]),
        select(vec!["8086:29c0", "8086:3c00", "8086:2030", "1ae0:0001", ""]),
    );
    let kind = select(vec!["upstream-port", "downstream-port", "gpu", "gpu", "nvme", "nic"]);
    let acs = select(vec!["absent", "absent", "absent", "redirect", "unknown"]);
    let functions = vec((any::<Index>(), kind, acs, any::<bool>()), 1..40);
    let cpu = select(vec!["AuthenticAMD", "GenuineIntel", ""]);
    (vec(bridge, 1..4), functions, cpu).prop_map(|(bridges, functions, cpu)| {
        let mut text = "name = 'tree'\n".to_owned();
        if !cpu.is_empty() {
            let _ = writeln!(text, "cpu = {{ vendor = '{cpu}', family = 23 }}");
        }
        let mut places: Vec<String> = Vec::new();
        for (number, (machine, root_bus, _)) in bridges.iter().enumerate() {
            let name = format!("{machine}pci{number:04x}:00");
            let _ = write!(text, "[[host_bridge]]\nname = '{name}'\nroot_bus = '{root_bus}'\n");
            places.push(name);
        }
        for (number, (.., ids)) in bridges.iter().enumerate() {
            let under = &places[number];
            let _ = write!(
                text,
                "[[function]]\nname = 'h{number}'\nkind = 'other'\nunder = '{under}'\naddress = '{number:04x}:00:00.0'\n"
            );
            if let Some((vendor, device)) = ids.split_once(':') {
                let _ = write!(text, "vendor = '0x{vendor}'\ndevice = '0x{device}'\n");
            }
        }
        for (number, (place, kind, acs, has_memory)) in functions.iter().enumerate() {
            let under = place.get(&places);
            let _ = write!(
                text,
                "[[function]]\nname = 'f{number}'\nkind = '{kind}'\nunder = '{under}'\nacs = '{acs}'\n"
            );
            if kind.ends_with("port") {
                places.push(format!("f{number}"));
            }
            if *kind == "gpu" {
                text += "vendor = '0x10de'\n";
            } else if *has_memory {
                text += "p2pmem = { size = '1M', published = true }\n";
            }
        }
        Fabric::from_toml(&text).unwrap()
    })
}

proptest! {
    #[test]
    fn pairs_of_random_machines_match_their_decision(fabric in random::fabric()) {
        compare(&fabric)?;
    }

    #[test]
    fn pairs_of_trees_match_their_decision(fabric in trees()) {
        compare(&fabric)?;
    }
}

/// The files of a folder with one of these endings, at any depth.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

#[test]
fn pairs_of_files_match_their_decision() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    files(&repository.join("machines"), &[".toml"], &mut all);
    files(&repository.join("fixtures/sysfs"), &[".tar.zst", "topology.toml"], &mut all);
    files(&repository.join("fixtures/lspci"), &[".txt"], &mut all);
    files(&repository.join("fixtures/nccl"), &[".xml"], &mut all);
    let (mut machines, mut pairs) = (0, 0);
    for path in all {
        let source = MachineSource::Described(&path);
        let Ok(fabric) = machines::read(source, LookDepth::Quiet) else { continue };
        pairs += compare(&fabric).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        machines += 1;
    }
    assert!(machines > 60 && pairs > 1500, "{pairs} pairs of {machines} machines");
}

/// A machine with a switch below each of some root buses, and four GPUs below each of its ports.
fn large(buses: usize, ports: usize) -> Fabric {
    let mut tree = "cpu = { vendor = 'GenuineIntel', family = 6 }\n".to_owned();
    for bus in 0..buses {
        tree += &format!("pci{bus:04x}:00 host-bridge\n h{bus} other 8086:29c0\n");
        tree +=
            &format!(" r{bus} root-port acs = 'redirect'\n  u{bus} upstream-port acs = 'absent'\n");
        for port in 0..ports {
            tree += &format!("   d{bus}-{port} downstream-port acs = 'redirect'\n");
            for gpu in 0..4 {
                tree += &format!("    g{bus}-{port}-{gpu} gpu acs = 'absent'\n");
            }
        }
    }
    peerlane_testing::machine(&tree)
}

#[test]
fn record_grows_with_functions() {
    let length = |fabric: &Fabric| {
        let record = Topology::new(fabric).unwrap();
        let numbers = record.reach.iter().map(|row| row.memories.len() + row.initiators.len());
        record.reach.len() + numbers.sum::<usize>()
    };
    let (few, many) = (large(4, 8), large(16, 8));
    assert!(compare(&few).unwrap() > 16_000);
    let (short, long) = (length(&few), length(&many));
    assert!(long < 5 * short, "{short} for four root buses, {long} for sixteen");
}
