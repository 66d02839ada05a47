//! The texts in `fixtures/lspci`: two graphics cards of a workstation whose host bridge no kernel lists.

use std::path::{Path, PathBuf};

use peerlane_fabric::{
    Acs, Bar, DriverBinding, Fabric, FunctionId, FunctionKind, IommuMode, Parent, lspci,
};
use peerlane_reach::{Fact, MapType, decide};
use peerlane_units::Bytes;

use crate::handmade::{Ids, MachineBuilder, bar};
use crate::lspci_tree;

const GIB: u64 = 1 << 30;
/// Rocket Lake, as people with this question have it.
const HOST_BRIDGE: Ids = Ids(0x8086, 0x4c43);
const SWITCH: Ids = Ids(0x10b5, 0x8747);

/// A card with a switch of its own: a GPU and its audio function below two ports.
fn card(machine: &mut MachineBuilder, slot: Parent, link: &str) {
    let up = machine.port(slot, FunctionKind::UpstreamPort, Ids(0x8086, 0xe2ff), Some(link), None);
    let inner = Some("2.5GT/s x1");
    let port = machine.port(up, FunctionKind::DownstreamPort, Ids(0x8086, 0xe2f0), None, inner);
    let ids = Ids(0x8086, 0xe211);
    let gpu = machine.endpoint(port, FunctionKind::Gpu, ids, 0x03_00_00, "2.5GT/s x1", "xe");
    let mut memory = bar(2, Bytes(16 * GIB), true);
    memory.largest = Some(Bytes(16 * GIB));
    gpu.bars = vec![bar(0, Bytes(16 << 20), false), memory];
    let port = machine.port(up, FunctionKind::DownstreamPort, Ids(0x8086, 0xe2f1), None, inner);
    let ids = Ids(0x8086, 0xe2f7);
    let audio =
        machine.endpoint(port, FunctionKind::Other, ids, 0x04_03_00, "2.5GT/s x1", "snd_hda_intel");
    audio.bars = vec![bar(0, Bytes(16 << 10), false)];
}

fn workstation(iommu: IommuMode) -> (MachineBuilder, Parent) {
    let mut machine = MachineBuilder::new("lspci", "", "7.0.0");
    machine.fabric.iommu = iommu;
    let bridge = machine.bridge(0, 0, None, HOST_BRIDGE);
    (machine, bridge)
}

/// A card at each of two root ports.
fn separate() -> Fabric {
    let (mut machine, bridge) = workstation(IommuMode::Off);
    for device in [0x4c01, 0x4c05] {
        let ids = Ids(0x8086, device);
        let slot = machine.port(bridge, FunctionKind::RootPort, ids, None, Some("16GT/s x8"));
        card(&mut machine, slot, "16GT/s x8");
    }
    machine.fabric
}

/// Both cards below one switch.
fn switched(iommu: IommuMode) -> Fabric {
    let (mut machine, bridge) = workstation(iommu);
    let ids = Ids(0x8086, 0x4c01);
    let root = machine.port(bridge, FunctionKind::RootPort, ids, None, Some("16GT/s x16"));
    let up = machine.port(root, FunctionKind::UpstreamPort, SWITCH, Some("8GT/s x16"), None);
    for _ in 0..2 {
        let slot = machine.port(up, FunctionKind::DownstreamPort, SWITCH, None, Some("8GT/s x8"));
        card(&mut machine, slot, "8GT/s x8 of 16GT/s x8");
    }
    machine.fabric
}

/// A machine as users without privileges see it: the first 64 bytes of every configuration space.
fn unprivileged(mut fabric: Fabric) -> Fabric {
    for function in &mut fabric.functions {
        function.acs = Acs::Unknown;
        function.link = None;
        for bar in &mut function.bars {
            bar.largest = None;
        }
    }
    fabric
}

fn machines() -> [(&'static str, Fabric); 4] {
    [
        ("separate-ports.txt", separate()),
        ("switch-redirecting.txt", switched(IommuMode::Translating)),
        ("switch-direct.txt", switched(IommuMode::Off)),
        ("switch-unprivileged.txt", unprivileged(switched(IommuMode::Translating))),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/lspci")
}

fn read(name: &str) -> (Fabric, [FunctionId; 2]) {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let fabric = lspci::read(&text).unwrap();
    let gpus = fabric.iter().filter(|(_, one)| one.kind == FunctionKind::Gpu).map(|(id, _)| id);
    let gpus: Vec<FunctionId> = gpus.collect();
    (fabric, gpus.try_into().unwrap())
}

#[test]
fn workstation_texts_match_their_machines() {
    for (name, machine) in machines() {
        let path = folder().join(name);
        if std::env::var_os("PEERLANE_UPDATE_FIXTURES").is_some() {
            let Some(text) = lspci_tree::printed(&machine, &["-Dvvvnn"]) else { return };
            std::fs::write(&path, text).unwrap();
        }
        let (fabric, _) = read(name);
        assert_eq!(fabric.functions.len(), machine.functions.len(), "{name}");
        for (found, expected) in fabric.functions.iter().zip(&machine.functions) {
            let (_, expected) = machine
                .iter()
                .find(|(_, one)| one.address == found.address)
                .unwrap_or_else(|| panic!("{} {}", found.name, expected.name));
            // The folder that lspci reads has addresses of its own.
            let bars = found.bars.iter().map(|&bar| Bar { address_bits: None, ..bar });
            let bars: Vec<Bar> = bars.collect();
            assert_eq!(
                (found.kind, found.acs, found.link, &found.driver, &bars),
                (expected.kind, expected.acs, expected.link, &expected.driver, &expected.bars),
                "{name}: {}",
                found.name
            );
        }
    }
}

#[test]
fn separate_root_ports_are_refused() {
    let (fabric, [one, other]) = read("separate-ports.txt");
    assert_eq!(fabric.cpu.vendor.as_deref(), Some("GenuineIntel"));
    let reach = decide(&fabric, one, other);
    assert_eq!(reach.map, MapType::NotSupported);
    let is_unlisted = |fact: &Fact| {
        matches!(fact, Fact::HostBridgeNotListed { vendor: 0x8086, device: 0x4c43, .. })
    };
    assert!(reach.facts.iter().any(is_unlisted), "{}", reach.summary());
}

#[test]
fn cards_below_redirecting_switch_are_refused() {
    let (fabric, [one, other]) = read("switch-redirecting.txt");
    let reach = decide(&fabric, one, other);
    assert_eq!(reach.map, MapType::NotSupported);
    let redirecting: Vec<&str> = reach
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::AcsRedirect { function, .. } => Some(function.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(redirecting, ["0000:04:00.0", "0000:02:00.0", "0000:08:00.0", "0000:02:01.0"]);
}

#[test]
fn cards_below_common_switch_are_direct() {
    let (fabric, [one, other]) = read("switch-direct.txt");
    let reach = decide(&fabric, one, other);
    assert_eq!((reach.map, reach.distance), (MapType::BusAddress, Some(8)));
    let gpu = fabric.function(one);
    assert_eq!(gpu.driver, DriverBinding::Bound("xe".to_owned()));
    assert_eq!(gpu.bars[1].largest, Some(Bytes(16 * GIB)));
    assert_ne!(gpu.acs, Acs::Unknown);
}

#[test]
fn text_without_privileges_leaves_acs_unknown() {
    let (fabric, [one, other]) = read("switch-unprivileged.txt");
    assert!(fabric.functions.iter().all(|function| function.acs == Acs::Unknown));
    let reach = decide(&fabric, one, other);
    assert_eq!(reach.map, MapType::Unknown, "{}", reach.summary());
}

#[test]
fn lone_switch_is_not_refused() {
    let text = std::fs::read_to_string(folder().join("switch-redirecting.txt")).unwrap();
    let fabric = lspci::read(&text[text.find("0000:01:00.0").unwrap()..]).unwrap();
    let gpus = fabric.iter().filter(|(_, one)| one.kind == FunctionKind::Gpu).map(|(id, _)| id);
    let gpus: Vec<FunctionId> = gpus.collect();
    let reach = decide(&fabric, gpus[0], gpus[1]);
    assert!(!matches!(reach.map, MapType::NotSupported), "{}", reach.summary());
}

/// The server of `fixtures/sysfs/eight-gpus`.
fn eight_gpus() -> Fabric {
    let archive =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sysfs/eight-gpus/tree.tar.zst");
    let file = std::fs::File::open(archive).unwrap();
    let content = peerlane_fabric::capture::unpack_machine(file).unwrap();
    Fabric::discover_snapshot(Path::new(archive), content).unwrap()
}

#[test]
fn server_text_matches_its_capture() {
    let machine = eight_gpus();
    let path = folder().join("eight-gpus.txt");
    if std::env::var_os("PEERLANE_UPDATE_FIXTURES").is_some() {
        let Some(text) = lspci_tree::printed(&machine, &["-Dvvvnn"]) else { return };
        let release = machine.kernel.release.as_deref().unwrap();
        let processor = "vendor_id\t: GenuineIntel\ncpu family\t: 6\n";
        let text = format!("{text}\nLinux gpu1 {release} #63 SMP x86_64 GNU/Linux\n{processor}");
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let found = lspci::read(&text).unwrap();
    assert_eq!(found.functions.len(), machine.functions.len());
    assert_eq!(found.kernel.release, machine.kernel.release);
    for (one, other) in found.functions.iter().zip(&machine.functions) {
        assert_eq!(
            (one.kind, one.acs, one.link),
            (other.kind, other.acs, other.link),
            "{}",
            one.name
        );
    }
}
