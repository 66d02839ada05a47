//! Captured trees are decided as by the kernel that they were captured from.

use std::path::Path;

use peerlane_fabric::{Fabric, FunctionKind};
use peerlane_reach::{MapType, decide};

/// The kernel's decisions between the memory of each drive that lends it and each drive, in order.
fn decisions(fabric: &Fabric) -> Vec<(MapType, Option<u32>)> {
    let drives: Vec<_> =
        fabric.iter().filter(|(_, one)| one.kind == FunctionKind::Nvme).map(|(id, _)| id).collect();
    let lenders = drives.iter().filter(|&&id| fabric.function(id).p2pmem.is_some());
    let pairs = lenders.flat_map(|&lender| drives.iter().map(move |&drive| (lender, drive)));
    let mut found: Vec<_> = pairs
        .map(|(provider, initiator)| {
            let reach = decide(fabric, provider, initiator);
            (reach.map, reach.distance)
        })
        .collect();
    // Firmware may number drives in another order than the description lists them.
    found.sort_by_key(|(map, distance)| (format!("{map:?}"), *distance));
    found
}

#[test]
fn captured_trees_match_their_kernel() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs");
    for (name, expected) in [
        ("lab-pair", MapType::BusAddress),
        ("lab-acs", MapType::NotSupported),
        ("lab-translating", MapType::BusAddress),
        ("lab-epyc", MapType::ThroughHostBridge),
        ("lab-split", MapType::NotSupported),
    ] {
        let fabric = Fabric::discover(&folder.join(name).join("tree.tar.zst")).unwrap();
        let found = decisions(&fabric);
        assert_eq!(found.len(), 3, "{name}: one lender, three drives");
        let to_others = found.iter().filter(|(_, distance)| *distance != Some(0));
        assert!(to_others.clone().all(|(map, _)| *map == expected), "{name}: {found:?}");
        assert_eq!(to_others.count(), 2, "{name}");
    }
}

#[test]
fn described_and_booted_machines_decide_alike() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for machine in ["acs", "blocks", "epyc", "pair", "split", "ten", "throttled", "translating"] {
        let described = repository.join("machines").join(format!("{machine}.toml"));
        let described = Fabric::read_machine_file(&described).unwrap();
        let booted = repository.join(format!("fixtures/sysfs/lab-{machine}/tree.tar.zst"));
        let booted = Fabric::discover(&booted).unwrap();
        assert_eq!(decisions(&described), decisions(&booted), "{machine}");
        assert_eq!(described.iommu, booted.iommu, "{machine}");
        assert_eq!(described.cpu.vendor, booted.cpu.vendor, "{machine}");
        assert_eq!(described.cpu.family, booted.cpu.family, "{machine}");
    }
}
