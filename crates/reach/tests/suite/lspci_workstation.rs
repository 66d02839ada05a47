//! The texts in `fixtures/lspci`: two graphics cards of a workstation whose host bridge no kernel lists.

use std::path::{Path, PathBuf};

use peerlane_fabric::{
    Acs, Bar, DriverBinding, Fabric, FunctionId, FunctionKind, IommuMode, lspci,
};
use peerlane_reach::{Fact, MapType, decide};
use peerlane_units::Bytes;

use crate::lspci_tree;

const GIB: u64 = 1 << 30;

/// A card with a switch of its own: a GPU and its audio function below two ports; `bus` is that of the switch.
fn card(bus: u8, link: &str) -> String {
    let [inner, gpu, audio] = [1, 2, 3].map(|below| bus + below);
    format!(
        "
                0000:{bus:02x}:00.0 upstream-port @ 8086:e2ff {link}; PORT
                  0000:{inner:02x}:00.0 downstream-port @ 8086:e2f0 link_below = '2.5GT/s x1'; PORT
                    0000:{gpu:02x}:00.0 gpu @ 8086:e211 class = '0x030000'; link = '2.5GT/s x1'; driver = 'xe'; BARS
                  0000:{inner:02x}:01.0 downstream-port @ 8086:e2f1 link_below = '2.5GT/s x1'; PORT
                    0000:{audio:02x}:00.0 other @ 8086:e2f7 class = '0x040300'; link = '2.5GT/s x1'; \
                        driver = 'snd_hda_intel'; bars = [{{ index = 0, size = '16K' }}]"
    )
}

/// Rocket Lake, as people with this question have it.
fn workstation(iommu: IommuMode, ports: &str) -> Fabric {
    const BARS: &str = "bars = [{ index = 0, size = '16M' }, \
                        { index = 2, size = '16G', prefetchable = true, largest = '16G' }]";
    let tree = format!(
        "name = 'lspci'
         kernel.release = '7.0.0'
         pci0000:00 host-bridge
           0000:00:00.0 other @ 8086:4c43 class = '0x060000'; driver = 'none'{ports}"
    );
    let tree = tree.replace("PORT", "class = '0x060400'; driver = 'pcieport'");
    let mut fabric = peerlane_testing::machine(&tree.replace("BARS", BARS));
    fabric.iommu = iommu;
    let translates = iommu == IommuMode::Translating;
    for (group, function) in (0..).zip(&mut fabric.functions) {
        function.iommu_group = translates.then_some(group);
        function.acs = match function.kind {
            // Linux sets these bits on every port that has them once it finds an IOMMU.
            FunctionKind::RootPort | FunctionKind::DownstreamPort => {
                Acs::Present { control: if translates { 0x1d } else { 0 } }
            }
            _ => Acs::Absent,
        };
    }
    fabric
}

/// A card at each of two root ports.
fn separate() -> Fabric {
    let (one, other) = (card(1, "link = '16GT/s x8'"), card(5, "link = '16GT/s x8'"));
    workstation(
        IommuMode::Off,
        &format!(
            "
           0000:00:01.0 root-port @ 8086:4c01 link_below = '16GT/s x8'; PORT{one}
           0000:00:02.0 root-port @ 8086:4c05 link_below = '16GT/s x8'; PORT{other}"
        ),
    )
}

/// Both cards below one switch.
fn switched(iommu: IommuMode) -> Fabric {
    let link = "link = { current = '8GT/s x8', maximum = '16GT/s x8' }";
    let (one, other) = (card(3, link), card(7, link));
    workstation(
        iommu,
        &format!(
            "
           0000:00:01.0 root-port @ 8086:4c01 link_below = '16GT/s x16'; PORT
             0000:01:00.0 upstream-port @ 10b5:8747 link = '8GT/s x16'; PORT
               0000:02:00.0 downstream-port @ 10b5:8747 link_below = '8GT/s x8'; PORT{one}
               0000:02:01.0 downstream-port @ 10b5:8747 link_below = '8GT/s x8'; PORT{other}"
        ),
    )
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
