use peerlane_fabric::Fabric;

use super::*;

/// Two GPUs, two drives and a network controller below one switch; `ports` is their ACS, `more`
/// further facts of the machine.
fn machine(ports: &str, more: &str) -> Fabric {
    let gpu = "1002: driver = 'amdgpu'; bars = [{ index = 0, size = '64G', prefetchable = true }]";
    peerlane_testing::machine(&format!(
        "iommu = 'passthrough'
         {more}
         [cpu]
         vendor = 'GenuineIntel'
         family = 6
         root root-port 8086:1901 @0000:00:01.0 acs = 'absent'
           up upstream-port @0000:01:00.0 acs = 'absent'
             port-gpu-a downstream-port @0000:02:00.0 acs = {ports}
               gpu-a gpu @0000:03:00.0 {gpu}; acs = 'absent'
             port-gpu-b downstream-port @0000:02:01.0 acs = {ports}
               gpu-b gpu @0000:04:00.0 {gpu}; acs = 'absent'
             port-nvme-a downstream-port @0000:02:02.0 acs = {ports}
               nvme-a nvme @0000:05:00.0 driver = 'nvme'; acs = 'absent'
             port-nvme-b downstream-port @0000:02:03.0 acs = {ports}
               nvme-b nvme @0000:06:00.0 driver = 'nvme'; acs = 'absent'; {LENT}
             port-nic downstream-port @0000:02:04.0 acs = {ports}
               nic nic 15b3: @0000:07:00.0 driver = 'mlx5_core'; acs = 'absent'"
    ))
}

/// Memory that a drive lends.
const LENT: &str = "p2pmem = { size = '64M', available = '64M', published = true }";
const OPEN: &str = "'absent'";
const REDIRECTING: &str = "{ control = 0x1d }";

fn states(fabric: &Fabric) -> Vec<(Use, RouteState, u64, u64)> {
    let all = answers(fabric, &judged_pairs(fabric));
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
    let mut tree = "cpu = { vendor = 'GenuineIntel', family = 6 }".to_owned();
    for (root, one, lender) in [(1, 'a', 'b'), (2, 'c', 'd')] {
        tree += &format!(
            "
            root-{root} root-port 8086:1901 @0000:00:0{root}.0 acs = 'absent'
              up-{root} upstream-port acs = 'absent'
                port-{one} downstream-port acs = {REDIRECTING}
                  {one} nvme acs = 'absent'
                port-{lender} downstream-port acs = {REDIRECTING}
                  {lender} nvme acs = 'absent'; {LENT}"
        );
    }
    let fabric = peerlane_testing::machine(&tree);
    let ends = ["a", "b"].map(|name| fabric.find(name).expect("a drive"));
    let judged = judged_between(&fabric, ends[0], ends[1]);
    assert_eq!(judged[0].state, RouteState::Host);
    assert!(judged[0].facts[0].starts_with("b: "), "{judged:?}");
    assert!(judged[0].legs.iter().any(|leg| !leg.redirecting.is_empty()), "{judged:?}");
}
