//! Changes between two machines: each kind by a pair of machines that shows it and one that does not.

mod facts;
mod forms;
mod matching;

use peerlane_fabric::Fabric;
use peerlane_reach::{ChangeEffect, ChangeKind, ChangedPairs, MachineChange, MachineDifference};

/// Two GPUs and a NIC below one switch, and two drives below root ports.
const MACHINE: &str = "
name = 'm'
iommu = 'off'
[cpu]
vendor = 'GenuineIntel'
family = 6
[kernel]
release = '6.8.0-45-generic'
p2pdma = true
parameters = ['pci=realloc']
modules = [{ name = 'nvidia', version = '550.54' }]
[[host_bridge]]
name = 'pci0000:00'
[[function]]
name = '0000:00:00.0'
address = '0000:00:00.0'
kind = 'other'
vendor = '0x8086'
device = '0x3c00'
[[function]]
name = '0000:00:01.0'
address = '0000:00:01.0'
kind = 'root-port'
vendor = '0x8086'
device = '0x3c01'
link_below = '32GT/s x16'
[[function]]
name = '0000:01:00.0'
address = '0000:01:00.0'
kind = 'upstream-port'
under = '0000:00:01.0'
vendor = '0x1000'
device = '0xc030'
link = { current = '32GT/s x16', maximum = '32GT/s x16' }
[[function]]
name = '0000:02:00.0'
address = '0000:02:00.0'
kind = 'downstream-port'
under = '0000:01:00.0'
vendor = '0x1000'
device = '0xc030'
link_below = '32GT/s x16'
acs = { control = 0x00 }
[[function]]
name = '0000:02:01.0'
address = '0000:02:01.0'
kind = 'downstream-port'
under = '0000:01:00.0'
vendor = '0x1000'
device = '0xc030'
link_below = '32GT/s x16'
acs = { control = 0x00 }
[[function]]
name = '0000:02:02.0'
address = '0000:02:02.0'
kind = 'downstream-port'
under = '0000:01:00.0'
vendor = '0x1000'
device = '0xc030'
link_below = '32GT/s x16'
acs = { control = 0x00 }
[[function]]
name = 'one'
address = '0000:03:00.0'
kind = 'gpu'
under = '0000:02:00.0'
vendor = '0x10de'
device = '0x2330'
driver = 'nvidia'
link = { current = '32GT/s x16', maximum = '32GT/s x16' }
bars = [{ index = 1, size = '128G', prefetchable = true }]
[[function]]
name = 'two'
address = '0000:04:00.0'
kind = 'gpu'
under = '0000:02:01.0'
vendor = '0x10de'
device = '0x2330'
driver = 'nvidia'
link = { current = '32GT/s x16', maximum = '32GT/s x16' }
bars = [{ index = 1, size = '128G', prefetchable = true }]
[[function]]
name = 'net'
address = '0000:05:00.0'
kind = 'nic'
under = '0000:02:02.0'
vendor = '0x15b3'
device = '0x1021'
driver = 'mlx5_core'
link = { current = '32GT/s x16', maximum = '32GT/s x16' }
[[function]]
name = '0000:00:02.0'
address = '0000:00:02.0'
kind = 'root-port'
vendor = '0x8086'
device = '0x3c02'
link_below = '16GT/s x4'
[[function]]
name = '0000:00:03.0'
address = '0000:00:03.0'
kind = 'root-port'
vendor = '0x8086'
device = '0x3c03'
link_below = '16GT/s x4'
[[function]]
name = 'drive'
address = '0000:06:00.0'
kind = 'nvme'
under = '0000:00:02.0'
vendor = '0x144d'
device = '0xa80a'
driver = 'nvme'
serial = 'S1'
link = { current = '16GT/s x4', maximum = '16GT/s x4' }
iommu_type = 'identity'
[[function]]
name = 'other'
address = '0000:07:00.0'
kind = 'nvme'
under = '0000:00:03.0'
vendor = '0x144d'
device = '0xa80a'
driver = 'nvme'
serial = 'S2'
link = { current = '16GT/s x4', maximum = '16GT/s x4' }
";

fn machine() -> Fabric {
    Fabric::from_toml(MACHINE).unwrap()
}

/// The machine with other text.
fn with(changes: &[(&str, &str)]) -> Fabric {
    let mut text = MACHINE.to_owned();
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
