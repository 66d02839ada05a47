//! Rules for memory of drives and cards, for vfio, and for ends without a driver.

use super::super::{environment_notes, nature, rules};
use super::{DriverAnswer, answers, device, id, machine, only};

const LENDER: &str = "driver = 'nvme'\n[function.p2pmem]\nsize = '64M'";
const DRIVE: &str = "driver = 'nvme'";
const GPU: &str = "vendor = '0x10de';device = '0x2330';driver = 'nvidia'";
const CARD: &str = "vendor = '0x10ee';device = '0x6988';driver = 'xocl'";

fn pair(system: &str, a: (&str, &str), b: (&str, &str)) -> peerlane_fabric::Fabric {
    machine(system, &(device("a", "p0", a.0, a.1) + &device("b", "p1", b.0, b.1)))
}

#[test]
fn owners_without_memory_have_no_rules() {
    for provider in [("nic", "driver = 'mlx5_core'"), ("nvme", DRIVE), ("other", "driver = 'ahci'")]
    {
        assert!(answers(&pair("", provider, ("gpu", GPU))).is_empty(), "{provider:?}");
    }
    let fabric = pair("", ("gpu", GPU), ("nvme", DRIVE));
    let gpu = id(&fabric, "a");
    assert!(
        rules(&fabric, gpu, gpu).is_empty() && rules(&fabric, gpu, id(&fabric, "up")).is_empty()
    );
}

#[test]
fn drives_lend_what_is_published() {
    let rule = only(&pair("", ("nvme", LENDER), ("nvme", DRIVE)), DriverAnswer::Possible, "lends");
    assert_eq!((rule.driver.as_str(), rule.asks_kernel), ("nvme", Some(true)));
    let found = answers(&pair("", ("nvme", LENDER), ("nic", "driver = 'mlx5_core'")));
    let expected = [
        ("nvmet_rdma".to_owned(), DriverAnswer::Conditional),
        ("ib_core".to_owned(), DriverAnswer::NotKnown),
    ];
    assert_eq!(found, expected);
    only(&pair("", ("nvme", LENDER), ("gpu", GPU)), DriverAnswer::NotKnown, "no public report");
}

#[test]
fn network_without_rdma_reaches_no_cmb() {
    for (driver, lends) in [("virtio-pci", LENDER), ("e1000e", LENDER), ("efa", LENDER)] {
        let nic = format!("driver = '{driver}'");
        let fabric = pair("", ("nvme", lends), ("nic", &nic));
        only(&fabric, DriverAnswer::Refused, "uses no memory of devices");
    }
}

#[test]
fn target_rule_names_its_export() {
    let found = super::rules_of(&pair("", ("nvme", LENDER), ("nic", "driver = 'mlx5_core'")));
    let command = "`peerlane export DRIVE --transport rdma --p2pmem cmb:a`";
    assert!(found[0].reason.contains(command), "{}", found[0].reason);
}

#[test]
fn pasted_drives_may_lend() {
    let mut fabric = pair("", ("nvme", DRIVE), ("nvme", DRIVE));
    fabric.origin = peerlane_fabric::Origin::Text;
    only(&fabric, DriverAnswer::Conditional, "not shown");
}

#[test]
fn cards_lend_where_switched_on() {
    let card = |p2p: &str| format!("{CARD};{p2p}");
    let on = card("fpga_p2p = true");
    only(&pair("", ("fpga", &on), ("nvme", DRIVE)), DriverAnswer::Possible, "p2p_enable is 1");
    let off = card("fpga_p2p = false");
    only(&pair("", ("fpga", &off), ("nvme", DRIVE)), DriverAnswer::Refused, "p2p_enable of a is 0");
    only(&pair("", ("fpga", CARD), ("nvme", DRIVE)), DriverAnswer::Conditional, "not shown");
    only(&pair("", ("fpga", &on), ("fpga", &on)), DriverAnswer::Conditional, "imports the buffer");
    only(&pair("", ("fpga", &on), ("gpu", GPU)), DriverAnswer::NotKnown, "nothing public");
}

#[test]
fn unbound_ends_are_refused() {
    let unbound = "vendor = '0x10de';device = '0x2330';driver = 'none'";
    only(&pair("", ("gpu", unbound), ("nvme", DRIVE)), DriverAnswer::Refused, "bound to gpu:0");
    only(&pair("", ("gpu", GPU), ("nvme", "driver = 'none'")), DriverAnswer::Refused, "bound to b");
}

#[test]
fn hidden_drivers_make_no_promise() {
    let xe = "vendor = '0x8086';device = '0xe20b'";
    let system = "[kernel]\nrelease = '7.2.0'";
    only(
        &pair(system, ("gpu", xe), ("gpu", xe)),
        DriverAnswer::Conditional,
        "bound to a is not shown",
    );
}

#[test]
fn vfio_needs_a_new_kernel() {
    let held = "vendor = '0x10de';device = '0x2330';driver = 'vfio-pci'";
    let both = |release: &str| {
        let system = format!("[kernel]\n{release}");
        pair(&system, ("gpu", held), ("nvme", "driver = 'vfio-pci'"))
    };
    only(&both("release = '7.1.0'"), DriverAnswer::Possible, "iommufd maps the window");
    only(&both("release = '6.19.2'"), DriverAnswer::Conditional, "702809dabdec, in 7.0.11");
    only(&both("release = '6.12.0'"), DriverAnswer::Conditional, "older container");
    only(&both(""), DriverAnswer::Conditional, "uname -r");
    let nic = |driver: &str, release: &str| {
        let system = format!("[kernel]\nrelease = '{release}'");
        pair(&system, ("gpu", held), ("nic", &format!("driver = '{driver}'")))
    };
    let rule = only(&nic("mlx5_core", "7.2.0"), DriverAnswer::Possible, "revoke");
    assert_eq!(rule.asks_kernel, Some(true));
    only(&nic("mlx5_core", "6.12.0"), DriverAnswer::Refused, "since Linux 6.19");
    only(&nic("bnxt_en", "7.2.0"), DriverAnswer::Refused, "for good");
    only(&nic("ice", "7.1.0"), DriverAnswer::Possible, "revoke");
    only(&nic("ice", "6.19.2"), DriverAnswer::Refused, "keeps all of those out");
    only(
        &pair("", ("gpu", GPU), ("nvme", "driver = 'vfio-pci'")),
        DriverAnswer::Refused,
        "held by nvidia",
    );
}

/// NVIDIA/NV-Kernels #583 and CVE-2026-64042: single fixes after 6.19.
#[test]
fn vfio_kernels_without_fixes_are_flagged() {
    let rule = |release: &str| {
        let held = "vendor = '0x10de';device = '0x2330';driver = 'vfio-pci'";
        let system = format!("[kernel]\nrelease = '{release}'");
        let nic = ("nic", "driver = 'mlx5_core'");
        let rule =
            only(&pair(&system, ("gpu", held), nic), DriverAnswer::Conditional, "1a8a5227f229");
        assert!(rule.source.contains("NV-Kernels #583"), "{rule:?}");
        rule.reason
    };
    for unreserved in ["6.19.14", "7.0.0-28-generic", "7.0.10"] {
        assert!(rule(unreserved).contains("702809dabdec"), "{unreserved}");
    }
    assert!(!rule("7.0.11").contains("702809dabdec"));
    assert!(rule("7.0.13").contains("stable releases not known"));
}

#[test]
fn unknown_devices_are_not_known() {
    let accelerator = "vendor = '0x1da3';driver = 'habanalabs'\n[[function.bars]]\nindex = 4\n\
                       size = '32768M'\nprefetchable = true";
    only(
        &pair("", ("other", accelerator), ("nvme", DRIVE)),
        DriverAnswer::NotKnown,
        "nothing public",
    );
}

#[test]
fn parts_of_devices_are_named() {
    let text = |rest: &str| {
        let fabric = pair("", ("gpu", &format!("{GPU};{rest}")), ("nvme", DRIVE));
        nature(&fabric, id(&fabric, "a"))
    };
    let virt = text("physical_function = '0000:41:00.0'").expect("a part");
    assert_eq!(virt, "an SR-IOV virtual function of 0000:41:00.0 (a vGPU)");
    let mig = text("mig_instances = 3").expect("a part");
    let expected = "divided into 3 MIG instances, which have no PCI function of their own and no peer \
                    access between them";
    assert_eq!(mig, expected);
    assert!(text("mig_instances = 1").is_some_and(|one| one.contains("1 MIG instance, ")));
    assert_eq!(text("mig_instances = 0"), None);
    assert_eq!(text(""), None);
}

#[test]
fn environments_are_named() {
    let notes = |text: &str| {
        environment_notes(&machine(
            &format!("[environment]\n{text}"),
            &device("a", "p0", "gpu", GPU),
        ))
    };
    assert!(notes("").is_empty());
    assert!(
        notes("hypervisor = 'KVM'")[0].starts_with("this is the hypervisor's topology (KVM): ")
    );
    assert!(notes("hypervisor = 'unknown'")[0].starts_with("this is the hypervisor's topology: "));
    assert!(notes("container = 'docker'")[0].contains("container (docker)"));
    let both = notes("hypervisor = 'KVM'\nconfidential = 'TDX'");
    assert!(
        both.len() == 2 && both[1].contains("(TDX)") && both[1].contains("swiotlb"),
        "{both:?}"
    );
}
