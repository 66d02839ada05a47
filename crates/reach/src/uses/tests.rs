use peerlane_fabric::Fabric;

use super::*;

/// Two GPUs, two drives and a network controller below one switch; `ports` is their ACS, `more` what
/// else is known of the machine.
fn machine(ports: &str, more: &str) -> Fabric {
    let mut text = format!(
        "name = 'm'\niommu = 'passthrough'\n{more}\n[cpu]\nvendor = 'GenuineIntel'\nfamily = 6\n\
         [[function]]\nname = 'root'\nkind = 'root-port'\nvendor = '0x8086'\ndevice = '0x1901'\naddress = '0000:00:01.0'\nacs = 'absent'\n\
         [[function]]\nname = 'up'\nkind = 'upstream-port'\nunder = 'root'\naddress = '0000:01:00.0'\n\
         acs = 'absent'\n"
    );
    let devices = [
        (
            "gpu-a",
            "kind = 'gpu'\nvendor = '0x1002'\ndriver = 'amdgpu'\nbars = [{ index = 0, size = '64G', prefetchable = true }]",
        ),
        (
            "gpu-b",
            "kind = 'gpu'\nvendor = '0x1002'\ndriver = 'amdgpu'\nbars = [{ index = 0, size = '64G', prefetchable = true }]",
        ),
        ("nvme-a", "kind = 'nvme'\ndriver = 'nvme'"),
        (
            "nvme-b",
            "kind = 'nvme'\ndriver = 'nvme'\np2pmem = { size = '64M', available = '64M', published = true }",
        ),
        ("nic", "kind = 'nic'\nvendor = '0x15b3'\ndriver = 'mlx5_core'"),
    ];
    for (place, (name, properties)) in devices.iter().enumerate() {
        text += &format!(
            "[[function]]\nname = 'port-{name}'\nkind = 'downstream-port'\nunder = 'up'\n\
             address = '0000:02:0{place}.0'\nacs = {ports}\n\
             [[function]]\nname = '{name}'\nunder = 'port-{name}'\nacs = 'absent'\n\
             address = '0000:0{}:00.0'\n{properties}\n",
            place + 3
        );
    }
    Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const OPEN: &str = "'absent'";
const REDIRECTING: &str = "{ control = 0x1d }";

fn states(fabric: &Fabric) -> Vec<(Use, RouteState, usize, usize)> {
    let all = answers(&judged_pairs(fabric));
    all.into_iter().map(|one| (one.of_use, one.state, one.pairs, one.of)).collect()
}

#[test]
fn uses_are_those_that_devices_allow() {
    let found = states(&machine(OPEN, "[kernel]\nrelease = '7.2.0'"));
    let direct = RouteState::Direct;
    assert!(found.contains(&(Use::NetworkToGpu, direct, 2, 2)), "{found:?}");
    assert!(found.contains(&(Use::GpuToGpu, direct, 1, 1)), "{found:?}");
    assert!(found.contains(&(Use::DriveToDrive, direct, 1, 1)), "{found:?}");
    assert!(found.contains(&(Use::NetworkToDrive, RouteState::Unknown, 1, 1)), "{found:?}");
    assert!(found.contains(&(Use::StorageToGpu, RouteState::Unknown, 4, 4)), "{found:?}");
    assert!(found.iter().all(|one| one.0 != Use::StorageToFpga), "{found:?}");
    let nothing = Fabric::from_toml("name = 'empty'").expect("a machine");
    assert_eq!(judged_pairs(&nothing), vec![]);
}

#[test]
fn redirected_pairs_use_host_memory() {
    let judged = judged_pairs(&machine(REDIRECTING, ""));
    for one in judged.iter().filter(|one| one.of_use != Use::NetworkToDrive) {
        assert_ne!(one.state, RouteState::Direct, "{one:?}");
        assert!(one.legs.iter().any(|leg| !leg.redirecting.is_empty()), "{one:?}");
    }
    let drives = judged.iter().find(|one| one.of_use == Use::DriveToDrive).expect("drives");
    assert_eq!(drives.state, RouteState::Host);
}

#[test]
fn driverless_devices_have_no_use() {
    let mut fabric = machine(OPEN, "");
    let drive = fabric.find("nvme-a").expect("a drive");
    fabric.functions[drive.0].driver = peerlane_fabric::DriverBinding::Unbound;
    let found = states(&fabric);
    assert!(found.contains(&(Use::StorageToGpu, RouteState::Impossible, 2, 4)), "{found:?}");
    assert!(found.contains(&(Use::DriveToDrive, RouteState::Impossible, 1, 1)), "{found:?}");
}

#[test]
fn old_kernels_lend_nothing_between_drives() {
    let fabric = machine(OPEN, "[kernel]\nrelease = '6.1.0'");
    let judged = judged_pairs(&fabric);
    let drives = judged.iter().find(|one| one.of_use == Use::DriveToDrive).expect("drives");
    assert_eq!(drives.state, RouteState::Host);
    assert!(drives.facts[0].contains("older than 6.2"), "{drives:?}");
}

#[test]
fn two_devices_have_their_uses_alone() {
    let fabric = machine(OPEN, "");
    let id = |name: &str| fabric.find(name).expect("a function");
    let uses = |one: &str, other: &str| {
        let judged = judged_between(&fabric, id(one), id(other));
        judged.iter().map(|one| (one.of_use, one.group.count)).collect::<Vec<_>>()
    };
    assert_eq!(uses("nic", "gpu-a"), [(Use::NetworkToGpu, 1)]);
    assert_eq!(uses("gpu-a", "nic"), [(Use::NetworkToGpu, 1)]);
    assert_eq!(uses("gpu-a", "gpu-b"), [(Use::GpuToGpu, 1)]);
    assert_eq!(uses("nvme-b", "nic"), [(Use::NetworkToDrive, 1)]);
    assert_eq!(uses("nic", "nic"), []);
}

#[test]
fn network_to_drive_takes_reliable_connections() {
    let with = |driver: &str| {
        let mut fabric = machine(OPEN, "");
        let nic = fabric.find("nic").expect("a NIC");
        fabric.functions[nic.0].driver = peerlane_fabric::DriverBinding::Bound(driver.to_owned());
        let uses: Vec<Use> = states(&fabric).into_iter().map(|one| one.0).collect();
        (uses.contains(&Use::NetworkToGpu), uses.contains(&Use::NetworkToDrive))
    };
    assert_eq!(with("mlx5_core"), (true, true));
    assert_eq!(with("efa"), (true, false), "its RDMA has no reliable connections");
    assert_eq!(with("mlx4_core"), (false, true), "it imports no memory of GPUs");
    assert_eq!(with("virtio-pci"), (false, false));
}

#[test]
fn pairs_with_some_functions_are_counted() {
    let fabric = machine(OPEN, "");
    let id = |name: &str| fabric.find(name).expect("a function");
    let of = |of_use, functions: &[&str]| -> usize {
        let functions = functions.iter().map(|name| id(name)).collect();
        let judged = judged_pairs(&fabric);
        let groups = judged.iter().filter(|one| one.of_use == of_use);
        groups.map(|one| one.group.count_with(&functions)).sum()
    };
    assert_eq!(of(Use::StorageToGpu, &["gpu-a"]), 2);
    assert_eq!(of(Use::StorageToGpu, &["gpu-a", "nvme-a"]), 3);
    assert_eq!(of(Use::GpuToGpu, &["gpu-a", "gpu-b"]), 1);
    assert_eq!(of(Use::GpuToGpu, &["nic"]), 0);
}

#[test]
fn use_names_parse_back() {
    for one in Use::ALL {
        assert_eq!(one.name().parse(), Ok(one));
    }
    assert!("gpu".parse::<Use>().is_err());
}

#[test]
fn memory_behind_redirecting_ports_comes_first() {
    let mut text = "name = 'm'\n[cpu]\nvendor = 'GenuineIntel'\nfamily = 6\n".to_owned();
    for (root, drives) in [(1, ["a", "b"]), (2, ["c", "d"])] {
        text += &format!(
            "[[function]]\nname = 'root-{root}'\nkind = 'root-port'\nvendor = '0x8086'\n\
             device = '0x1901'\naddress = '0000:00:0{root}.0'\nacs = 'absent'\n\
             [[function]]\nname = 'up-{root}'\nkind = 'upstream-port'\nunder = 'root-{root}'\n\
             acs = 'absent'\n"
        );
        for drive in drives {
            let memory = match drive {
                "b" | "d" => "p2pmem = { size = '64M', available = '64M', published = true }\n",
                _ => "",
            };
            text += &format!(
                "[[function]]\nname = 'port-{drive}'\nkind = 'downstream-port'\nunder = 'up-{root}'\n\
                 acs = {REDIRECTING}\n[[function]]\nname = '{drive}'\nkind = 'nvme'\n\
                 under = 'port-{drive}'\nacs = 'absent'\n{memory}"
            );
        }
    }
    let fabric = Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let ends = ["a", "b"].map(|name| fabric.find(name).expect("a drive"));
    let judged = judged_between(&fabric, ends[0], ends[1]);
    assert_eq!(judged[0].state, RouteState::Host);
    assert!(judged[0].facts[0].starts_with("b: "), "{judged:?}");
    assert!(judged[0].legs.iter().any(|leg| !leg.redirecting.is_empty()), "{judged:?}");
}
