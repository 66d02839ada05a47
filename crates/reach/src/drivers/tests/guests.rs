//! Two devices for one virtual machine.

use peerlane_fabric::Fabric;

use super::super::{GuestVerdict, guest};
use super::{DriverAnswer, device, id, machine};

const HELD: &str = "vendor = '0x10de';device = '0x2330';driver = 'vfio-pci'";
const DRIVE: &str = "driver = 'vfio-pci'";
const NEW: &str = "iommu = 'translating'\n[kernel]\nrelease = '7.2.6'";

fn verdict(fabric: &Fabric) -> GuestVerdict {
    guest(fabric, id(fabric, "a"), id(fabric, "b"))
}

fn pair(system: &str, a: &str, b: (&str, &str), groups: [&str; 2]) -> GuestVerdict {
    let grouped = |rest: &str, group: &str| match group {
        "" => rest.to_owned(),
        group => format!("{rest};iommu_group = {group}"),
    };
    let a = device("a", "p0", "gpu", &grouped(a, groups[0]));
    let b = device("b", "p1", b.0, &grouped(b.1, groups[1]));
    verdict(&machine(system, &(a + &b)))
}

#[track_caller]
fn says(found: &GuestVerdict, words: &str) {
    let text = [found.reasons.join("\n"), found.needs.join("\n")].join("\n");
    assert!(text.contains(words), "{words}: {text}");
}

#[test]
fn new_kernels_allow_passed_devices() {
    let found = pair(NEW, HELD, ("nvme", DRIVE), ["3", "4"]);
    assert_eq!((found.verdict, found.needs.len()), (DriverAnswer::Possible, 0), "{found:?}");
    says(&found, "groups of their own, 3 and 4");
    says(&found, "cloud-hypervisor #8895");
    says(&found, "openvmm");
}

#[test]
fn nvidia_pairs_need_a_clique() {
    let found = pair(NEW, HELD, ("gpu", HELD), ["3", "4"]);
    assert_eq!(found.verdict, DriverAnswer::Conditional);
    says(&found, "x-nv-gpudirect-clique=0");
}

#[test]
fn old_kernels_need_the_older_container() {
    let old = "iommu = 'translating'\n[kernel]\nrelease = '6.12.0'";
    let found = pair(old, HELD, ("nvme", DRIVE), ["3", "4"]);
    assert_eq!(found.verdict, DriverAnswer::Conditional);
    says(&found, "VFIO_IOMMU_MAP_DMA");
}

#[test]
fn missing_facts_leave_it_open() {
    let unknown = pair("iommu = 'translating'", HELD, ("nvme", DRIVE), ["3", "4"]);
    assert_eq!(unknown.verdict, DriverAnswer::NotKnown);
    says(&unknown, "uname -r");
    let groups = pair(NEW, HELD, ("nvme", DRIVE), ["", ""]);
    assert_eq!(groups.verdict, DriverAnswer::NotKnown);
    says(&groups, "readlink");
}

#[test]
fn shared_groups_go_together() {
    let found = pair(NEW, HELD, ("nvme", DRIVE), ["3", "3"]);
    assert_eq!(found.verdict, DriverAnswer::Possible);
    says(&found, "both are in IOMMU group 3");
    let third = device("c", "p2", "nic", "driver = 'igb';iommu_group = 3");
    let a = device("a", "p0", "gpu", &format!("{HELD};iommu_group = 3"));
    let b = device("b", "p1", "nvme", &format!("{DRIVE};iommu_group = 3"));
    let found = verdict(&machine(NEW, &(a + &b + &third)));
    assert_eq!(found.verdict, DriverAnswer::Conditional);
    says(&found, "take c from their drivers");
}

#[test]
fn bound_devices_must_change_hands() {
    let found = pair(NEW, &HELD.replace("vfio-pci", "nvidia"), ("nvme", DRIVE), ["3", "4"]);
    assert_eq!(found.verdict, DriverAnswer::Conditional);
    says(&found, "driverctl set-override a vfio-pci");
}

#[test]
fn redirection_goes_through_the_iommu() {
    let ports = ["q0", "q1"].map(|name| device(name, "up", "downstream-port", "acs = 'redirect'"));
    let a = device("a", "q0", "gpu", &format!("{HELD};iommu_group = 3"));
    let b = device("b", "q1", "nvme", &format!("{DRIVE};iommu_group = 4"));
    let found = verdict(&machine(NEW, &(ports.concat() + &a + &b)));
    says(&found, "redirect (ACS), so packets go through the root complex");
    let found = pair(NEW, HELD, ("nvme", DRIVE), ["3", "4"]);
    says(&found, "no port redirects");
}

#[test]
fn without_iommu_nothing_is_passed() {
    let found = pair("iommu = 'off'", HELD, ("nvme", DRIVE), ["3", "4"]);
    assert_eq!(found.verdict, DriverAnswer::Refused);
    let inside = format!("{NEW}\n[environment]\nhypervisor = 'KVM'");
    let found = pair(&inside, HELD, ("nvme", DRIVE), ["3", "4"]);
    assert_eq!(found.verdict, DriverAnswer::NotKnown);
    says(&found, "KVM");
    let fabric = machine(NEW, &device("a", "p0", "nvme", DRIVE));
    assert_eq!(guest(&fabric, id(&fabric, "a"), id(&fabric, "up")).verdict, DriverAnswer::Refused);
}
