//! Layers between a system and the hardware, and parts of devices: found, kept by captures, written.

use std::path::Path;

use peerlane_fabric::{Environment, Fabric, capture};

use crate::synthetic::{ENDPOINT, Sysfs, config};

const NVIDIA: [&str; 3] = ["0x10de", "0x20b5", "0x030200"];

/// The environment of a tree, which its capture and what is written of it must give, too.
fn environment(tree: &Sysfs) -> Environment {
    let found = tree.discover();
    let captured = capture::take(tree.root()).unwrap().content;
    let again = Fabric::discover_snapshot(Path::new("captured"), captured).unwrap();
    assert_eq!(again.environment, found.environment, "of a capture");
    let written = found.to_snapshot().unwrap();
    let again = Fabric::discover_snapshot(Path::new("written"), written).unwrap();
    assert_eq!(again.environment, found.environment, "of what is written");
    assert_eq!(capture::unlisted(tree.root()).unwrap(), Vec::<std::path::PathBuf>::new());
    found.environment
}

fn machine(vendor: &str, product: &str, flags: Option<&str>) -> Sysfs {
    let tree = Sysfs::new();
    let names = [("sys_vendor", vendor), ("product_name", product)];
    tree.files("sys/devices/virtual/dmi/id", &names);
    let flags = flags.map(|flags| format!("flags\t\t: {flags}\n")).unwrap_or_default();
    tree.file("proc/cpuinfo", format!("vendor_id\t: GenuineIntel\n{flags}\nflags\t\t: fpu\n"));
    tree
}

#[test]
fn hypervisor_is_by_flag_then_by_name() {
    let (on, off) = (Some("fpu hypervisor lahf_lm"), Some("fpu lahf_lm"));
    for (vendor, product, flags, expected) in [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", on, Some("QEMU")),
        ("Red Hat", "KVM", on, Some("KVM")),
        ("VMware, Inc.", "VMware7,1", on, Some("VMware")),
        ("innotek GmbH", "VirtualBox", on, Some("VirtualBox")),
        ("Amazon EC2", "p5.48xlarge", on, Some("Amazon EC2")),
        ("Amazon EC2", "m5.metal", off, None),
        ("Amazon EC2", "m5.metal", Some(""), None),
        ("Amazon EC2", "c7g.metal", None, None),
        ("Google", "Google Compute Engine", on, Some("Google Compute Engine")),
        ("Microsoft Corporation", "Virtual Machine", on, Some("Microsoft Hyper-V")),
        ("Microsoft Corporation", "Surface", off, None),
        ("Supermicro", "SYS-821GE-TNHR", off, None),
        ("Supermicro", "SYS-821GE-TNHR", on, Some("unknown")),
    ] {
        let found = environment(&machine(vendor, product, flags)).hypervisor;
        assert_eq!(found.as_deref(), expected, "{vendor} {product} {flags:?}");
    }
    let arm = Sysfs::new();
    arm.file("proc/cpuinfo", "CPU implementer\t: 0x41\nFeatures\t: fp\n");
    assert_eq!(environment(&arm).hypervisor, None);
    arm.files("sys/devices/virtual/dmi/id", &[("sys_vendor", "QEMU")]);
    assert_eq!(environment(&arm).hypervisor.as_deref(), Some("QEMU"));
}

#[test]
fn xen_guest_is_named_and_its_owner_is_not() {
    let tree = machine("Supermicro", "X", Some("hypervisor"));
    tree.files("sys/hypervisor", &[("type", "xen")]);
    assert_eq!(environment(&tree).hypervisor.as_deref(), Some("Xen"));
    tree.files("sys/hypervisor/properties", &[("features", "00002fff")]);
    assert_eq!(tree.discover().environment.hypervisor, None, "the domain that has the hardware");
}

#[test]
fn containers_are_told_by_their_files() {
    for (path, expected) in [
        (".dockerenv", "docker"),
        ("run/.containerenv", "podman"),
        ("run/systemd/container", "systemd"),
    ] {
        let tree = Sysfs::new();
        tree.file(path, "SECRET");
        assert_eq!(environment(&tree).container.as_deref(), Some(expected));
        let captured = capture::take(tree.root()).unwrap().content;
        let text = format!("{:?}", captured.get(Path::new(path)));
        assert!(text.contains("bytes: []"), "{text}");
    }
    for path in ["run/secrets/kubernetes.io", "var/run/secrets/kubernetes.io"] {
        let tree = Sysfs::new();
        tree.folder(path).file(&format!("{path}/serviceaccount/token"), "SECRET");
        tree.file("run/.containerenv", "");
        assert_eq!(environment(&tree).container.as_deref(), Some("kubernetes"));
        let captured = capture::take(tree.root()).unwrap().content;
        assert!(captured.iter().all(|(path, _)| !path.ends_with("token")));
    }
    assert_eq!(environment(&Sysfs::new()), Environment::default());
}

#[test]
fn encrypted_guests_are_told_by_device_or_flag() {
    for (path, expected) in [
        ("sys/class/misc/tdx_guest", "TDX"),
        ("sys/class/misc/sev-guest", "SEV-SNP"),
        ("sys/devices/system/cpu/sev/vmpl", "SEV-SNP"),
    ] {
        let tree = Sysfs::new();
        tree.link(path, "../../devices/virtual/misc/x");
        assert_eq!(environment(&tree).confidential.as_deref(), Some(expected));
    }
    let tree = machine("QEMU", "PC", Some("fpu hypervisor tdx_guest"));
    assert_eq!(environment(&tree).confidential.as_deref(), Some("TDX"));
}

#[test]
fn virtual_functions_and_mig_instances_survive_captures() {
    let tree = Sysfs::new();
    let bridge = "sys/devices/pci0000:40";
    tree.function(&format!("{bridge}/0000:41:00.0"), NVIDIA, &config(ENDPOINT, None));
    tree.function(&format!("{bridge}/0000:41:00.4"), NVIDIA, &config(ENDPOINT, None));
    tree.function(&format!("{bridge}/0000:42:00.0"), NVIDIA, &config(ENDPOINT, None));
    tree.link(&format!("{bridge}/0000:41:00.4/physfn"), "../0000:41:00.0");
    let driver = "proc/driver/nvidia";
    let about = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-SECRET\nDevice Minor: \t 3\n";
    tree.file(&format!("{driver}/gpus/0000:41:00.0/information"), about);
    let about = "Model: \t\t NVIDIA A100\nDevice Minor: \t 0\n";
    tree.file(&format!("{driver}/gpus/0000:42:00.0/information"), about);
    tree.folder(&format!("{driver}/capabilities/gpu3/mig/gi1/ci0"))
        .folder(&format!("{driver}/capabilities/gpu3/mig/gi2"))
        .folder(&format!("{driver}/capabilities/gpu3/mig/giant"))
        .folder(&format!("{driver}/capabilities/gpu0/mig"));
    let found = tree.discover();
    let captured = capture::take(tree.root()).unwrap().content;
    for (path, entry) in captured.iter() {
        assert!(!format!("{entry:?}").contains("SECRET"), "{}", path.display());
    }
    let captured = Fabric::discover_snapshot(Path::new("captured"), captured).unwrap();
    let written = found.to_snapshot().unwrap();
    let written = Fabric::discover_snapshot(Path::new("written"), written).unwrap();
    assert_eq!(capture::unlisted(tree.root()).unwrap(), Vec::<std::path::PathBuf>::new());
    for fabric in [found, captured, written] {
        let instances: Vec<_> = fabric.functions.iter().map(|one| one.mig_instances).collect();
        assert_eq!(instances, [Some(2), None, Some(0)]);
        let owners: Vec<_> = fabric.functions.iter().map(|one| one.physical_function).collect();
        assert_eq!(owners, [None, Some("0000:41:00.0".parse().unwrap()), None]);
    }
}
