//! P2P memories for the payload of an RDMA export.
//!
//! The kernel checks the drive when the namespace is enabled, and the NIC only when a host connects: a
//! memory that the NIC does not reach is then left unused without a word (`nvmet_p2pmem_ns_add_p2p`,
//! Linux 7.2 `drivers/nvme/target/core.c`).

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_memory::provider::PROVIDERS;
use peerlane_reach::decide;
use peerlane_results::ExportMemory;

/// P2P memories of the machine, judged for a drive and an RDMA device; the nearest permitted one is
/// first, as the kernel chooses (`pci_p2pmem_find_many`, Linux 7.2 `drivers/pci/p2pdma.c`).
pub fn memories(fabric: &Fabric, drive: FunctionId, nic: Option<FunctionId>) -> Vec<ExportMemory> {
    let mut found: Vec<(Option<u32>, ExportMemory)> = fabric
        .iter()
        .filter(|(_, function)| function.p2pmem.is_some_and(|pool| pool.published))
        .map(|(id, function)| {
            let by_drive = decide(fabric, id, drive);
            let by_nic = nic.map(|nic| decide(fabric, id, nic));
            let name = PROVIDERS.for_function(function).map(|(_, name)| name);
            let hops =
                |reach: &peerlane_reach::Reach| reach.distance.filter(|_| reach.is_permitted());
            let both = hops(&by_drive).and_then(|drive| match &by_nic {
                Some(nic) => hops(nic).map(|nic| drive + nic),
                None => Some(drive),
            });
            let memory = ExportMemory {
                memory: name.unwrap_or_else(|| function.name.clone()),
                address: function.address.map(|address| address.to_string()),
                drive: by_drive.map,
                nic: by_nic.as_ref().map(|reach| reach.map),
                is_permitted: both.is_some(),
                reason: match &by_nic {
                    Some(nic) if by_drive.is_permitted() => format!("the NIC: {}", nic.summary()),
                    _ => format!("the drive: {}", by_drive.summary()),
                },
            };
            (both, memory)
        })
        .collect();
    found.sort_by_key(|(hops, _)| (hops.is_none(), *hops));
    found.into_iter().map(|(_, memory)| memory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "
name = 'two-switches'
iommu = 'off'
[kernel]
release = '6.12'
p2pdma = true
[cpu]
vendor = 'GenuineIntel'
family = 6
[[host_bridge]]
name = 'pci0000:00'
";

    /// Two root ports: below the first a NIC and drive `near`, below the second drive `far`.
    fn machine() -> Fabric {
        let mut text = MACHINE.to_owned();
        let mut add = |name: &str, kind: &str, under: &str, more: &str| {
            text += &format!(
                "[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\n{more}\n"
            );
        };
        for (port, devices) in [("root0", &["near", "nic", "plain"][..]), ("root1", &["far"])] {
            add(port, "root-port", "pci0000:00", "vendor = '0x8086'");
            let switch = format!("up-{port}");
            add(&switch, "upstream-port", port, "");
            for device in devices {
                add(&format!("to-{device}"), "downstream-port", &switch, "acs = 'not-redirecting'");
                let (kind, more) = match *device {
                    "nic" => ("nic", "vendor = '0x15b3'\ndriver = 'mlx5_core'"),
                    "plain" => ("nvme", "size = '1G'"),
                    _ => ("nvme", "size = '1G'\ncmb = '16M'"),
                };
                add(device, kind, &format!("to-{device}"), more);
            }
        }
        Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn memory_near_both_is_first() {
        let fabric = machine();
        let id = |name: &str| fabric.find_device(name).unwrap();
        let found = memories(&fabric, id("plain"), Some(id("nic")));
        let names: Vec<&str> = found.iter().map(|memory| memory.memory.as_str()).collect();
        assert_eq!(names, ["cmb:near", "cmb:far"]);
        assert!(found[0].is_permitted, "{found:?}");
        assert!(!found[1].is_permitted, "{found:?}");
        assert!(
            found[1].reason.starts_with("the drive: the kernel's decision is unknown"),
            "{found:?}"
        );
    }

    #[test]
    fn unknown_nic_leaves_the_drive_to_decide() {
        let fabric = machine();
        let far = fabric.find_device("far").unwrap();
        let found = memories(&fabric, far, None);
        assert_eq!((found[0].memory.as_str(), found[0].nic), ("cmb:far", None));
        assert!(found[0].is_permitted && !found[1].is_permitted, "{found:?}");
    }
}
