//! Changes between two machines: each kind by a pair of machines that shows it and one that does not.

mod facts;
mod forms;
mod matching;

use peerlane_fabric::Fabric;
use peerlane_reach::{ChangeEffect, ChangeKind, ChangedPairs, MachineChange, MachineDifference};

/// Two GPUs and a NIC below one switch, and two drives below root ports.
const MACHINE: &str = "
    iommu = 'off'
    [cpu]
    vendor = 'GenuineIntel'
    family = 6
    [kernel]
    release = '6.8.0-45-generic'
    p2pdma = true
    parameters = ['pci=realloc']
    modules = [{ name = 'nvidia', version = '550.54' }]
    pci0000:00 host-bridge
      0000:00:00.0 other @ 8086:3c00
      0000:00:01.0 root-port @ 8086:3c01 link_below = '32GT/s x16'
        0000:01:00.0 upstream-port @ 1000:c030 X16
          0000:02:00.0 downstream-port @ 1000:c030 link_below = '32GT/s x16'; acs = { control = 0x00 }
            one gpu @0000:03:00.0 10de:2330 driver = 'nvidia'; X16; BAR1
          0000:02:01.0 downstream-port @ 1000:c030 link_below = '32GT/s x16'; acs = { control = 0x00 }
            two gpu @0000:04:00.0 10de:2330 driver = 'nvidia'; X16; BAR1
          0000:02:02.0 downstream-port @ 1000:c030 link_below = '32GT/s x16'; acs = { control = 0x00 }
            net nic @0000:05:00.0 15b3:1021 driver = 'mlx5_core'; X16
      0000:00:02.0 root-port @ 8086:3c02 link_below = '16GT/s x4'
        drive nvme @0000:06:00.0 144d:a80a driver = 'nvme'; serial = 'S1'; X4; iommu_type = 'identity'
      0000:00:03.0 root-port @ 8086:3c03 link_below = '16GT/s x4'
        other nvme @0000:07:00.0 144d:a80a driver = 'nvme'; serial = 'S2'; X4";

/// The text of the machine.
fn text() -> String {
    let text = peerlane_testing::machine_text(MACHINE);
    text.replace("X16", "link = { current = '32GT/s x16', maximum = '32GT/s x16' }")
        .replace("X4", "link = { current = '16GT/s x4', maximum = '16GT/s x4' }")
        .replace("BAR1", "bars = [{ index = 1, size = '128G', prefetchable = true }]")
}

fn machine() -> Fabric {
    Fabric::from_toml(&text()).unwrap()
}

/// The machine with other text.
fn with(changes: &[(&str, &str)]) -> Fabric {
    let mut text = text();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Fabric::from_toml(&text).unwrap()
}

/// The machine with other facts of one function.
fn on(name: &str, change: impl Fn(&mut peerlane_fabric::Function)) -> Fabric {
    let mut fabric = machine();
    let id = fabric.find(name).unwrap();
    change(&mut fabric.functions[id.0]);
    fabric
}

fn difference(after: &Fabric) -> MachineDifference {
    MachineDifference::new(&machine(), after)
}

fn kinds(found: &MachineDifference) -> Vec<(ChangeKind, ChangeEffect)> {
    found.changes.iter().map(|change| (change.kind, change.effect)).collect()
}

/// The only change, which has the other effect the other way round.
fn only(after: &Fabric) -> MachineChange {
    let found = difference(after);
    assert_eq!(found.uncompared, []);
    let [change] = &found.changes[..] else { panic!("{:#?}", found.changes) };
    let back = MachineDifference::new(after, &machine());
    assert_eq!((&back.changes[0].before, &back.changes[0].after), (&change.after, &change.before));
    change.clone()
}

fn words(change: &MachineChange) -> (ChangeKind, ChangeEffect, &str, &str) {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    (change.kind, change.effect, before.unwrap_or_default(), after.unwrap_or_default())
}

/// Pairs whose verdict changed.
fn pairs(found: &MachineDifference) -> Vec<&ChangedPairs> {
    found.changes.iter().filter_map(|change| change.pairs.as_ref()).collect()
}
