//! Layers between a system and the hardware, and parts of devices: found, kept by captures, written.

use std::path::Path;

use peerlane_fabric::{Environment, Fabric, TreeEntry, capture};

use crate::synthetic::{ENDPOINT, Sysfs, config};

const NVIDIA: [&str; 3] = ["0x10de", "0x20b5", "0x030200"];

/// The environment of a tree; its capture and a tree written from it must give the same.
fn environment(tree: &Sysfs) -> Environment {
    let found = tree.discover();
    let captured = capture::take(tree.root()).unwrap().content;
    let again = Fabric::discover_snapshot(Path::new("captured"), captured).unwrap();
    assert_eq!(again.environment, found.environment, "of a capture");
    let written = peerlane_testing::sysfs_tree(&found).unwrap();
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
fn hypervisor_needs_flag_then_name() {
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
fn xen_guest_is_named_unlike_dom0() {
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
fn device_or_flag_shows_encrypted_guest() {
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
fn virtual_functions_and_mig_survive_captures() {
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
    let written = peerlane_testing::sysfs_tree(&found).unwrap();
    let written = Fabric::discover_snapshot(Path::new("written"), written).unwrap();
    assert_eq!(capture::unlisted(tree.root()).unwrap(), Vec::<std::path::PathBuf>::new());
    for fabric in [found, captured, written] {
        let instances: Vec<_> = fabric.functions.iter().map(|one| one.mig_instances).collect();
        assert_eq!(instances, [Some(2), None, Some(0)]);
        let owners: Vec<_> = fabric.functions.iter().map(|one| one.physical_function).collect();
        assert_eq!(owners, [None, Some("0000:41:00.0".parse().unwrap()), None]);
    }
}

/// NVIDIA's driver and the settings of cuFile of a tree, of its capture, and of a tree written from
/// it.
fn gpu_stack(tree: &Sysfs) -> [Fabric; 3] {
    let found = tree.discover();
    assert_eq!(capture::unlisted(tree.root()).unwrap(), Vec::<std::path::PathBuf>::new());
    let captured = capture::take(tree.root()).unwrap().content;
    for (path, entry) in captured.iter() {
        let text = match entry {
            TreeEntry::File { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            TreeEntry::Link(target) => target.display().to_string(),
            TreeEntry::Folder(_) => String::new(),
        };
        assert!(!text.contains("SECRET"), "{}: {text}", path.display());
    }
    let captured = Fabric::discover_snapshot(Path::new("captured"), captured).unwrap();
    let written = peerlane_testing::sysfs_tree(&found).unwrap();
    let written = Fabric::discover_snapshot(Path::new("written"), written).unwrap();
    assert_eq!((&written.nvidia, &written.cufile), (&found.nvidia, &found.cufile));
    assert_eq!(written.libraries, found.libraries);
    [found, captured, written]
}

#[test]
fn nvidia_driver_survives_captures() {
    let tree = Sysfs::new();
    assert_eq!(tree.discover().nvidia, None);
    let driver = "proc/driver/nvidia";
    let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  \
                   (root@SECRET)  Tue Apr 22 2025\nGCC version:  gcc SECRET\n";
    let parameters = "DeviceFileMode: 438\nEnableResizableBar: 1\nRegistryDwords: \
                      \"RmForceDisableIomapWC=1;Name=SECRET;\"\nRmMsg: \"SECRET\"\n";
    tree.file(&format!("{driver}/version"), version).file(&format!("{driver}/params"), parameters);
    for fabric in gpu_stack(&tree) {
        let driver = fabric.nvidia.expect("a driver");
        assert_eq!((driver.is_open, driver.version.as_deref()), (Some(true), Some("570.133.20")));
        assert_eq!(driver.registry_key("rmforcedisableiomapwc"), Some("1"));
        assert_eq!(driver.parameters.len(), 2);
    }
}

#[test]
fn cufile_settings_survive_captures() {
    let tree = Sysfs::new();
    tree.folder("usr/lib/x86_64-linux-gnu");
    assert_eq!(tree.discover().cufile, None);
    let settings = r#"{ // SECRET
        "logging": { "dir": "/home/SECRET" },
        "properties": { "use_pci_p2pdma": true, "rdma_peer_type": "SECRET",
                        "rdma_dev_addr_list": [ "SECRET-1", "SECRET-2" ] },
        "denylist": { "mounts": [ "/SECRET", "/data" ], "devices": [ "/dev/SECRET" ],
                      "drivers": [ "nvme", "SECRET" ] } }"#;
    tree.file("usr/local/cuda-12.8/gds/cufile.json", settings)
        .link("etc/alternatives/cufile.json", "/usr/local/cuda-12.8/gds/cufile.json")
        .link("etc/cufile.json", "/etc/alternatives/cufile.json")
        .link("usr/lib/x86_64-linux-gnu/libcufile.so.0", "libcufile.so.1.13.1");
    for fabric in gpu_stack(&tree) {
        let found = fabric.cufile.as_ref().expect("settings");
        assert_eq!(found.flag("properties.use_pci_p2pdma"), Some(true));
        assert_eq!(found.number("properties.rdma_dev_addr_list"), Some(2));
        assert_eq!(found.list("denylist.mounts")[1], "/data");
        assert_eq!(found.list("denylist.drivers")[0], "nvme");
        assert_eq!(fabric.cufile_version(), Some((1, 13)));
        assert_eq!(fabric.libraries.as_ref().map(Vec::len), Some(2));
    }
}

#[test]
fn unreadable_cufile_settings_are_a_problem() {
    let problem = |tree: &Sysfs| {
        let found = gpu_stack_problem(tree);
        assert_eq!(tree.discover().cufile.map(|one| one.problem), Some(Some(found.clone())));
        found
    };
    let tree = Sysfs::new();
    tree.file("etc/cufile.json", "{\n\"SECRET\" 1}");
    assert_eq!(problem(&tree), "line 2: expected `:`");
    let tree = Sysfs::new();
    tree.link("etc/cufile.json", "/home/SECRET/cufile.json");
    assert_eq!(problem(&tree), "it is a link to a place that is not read");
    let tree = Sysfs::new();
    tree.folder("etc/cufile.json");
    assert_eq!(problem(&tree), "cannot be read: is not a regular file");
}

/// The problem of a tree's settings; a capture shows only that there is one.
fn gpu_stack_problem(tree: &Sysfs) -> String {
    let captured = capture::take(tree.root()).unwrap().content;
    assert!(!format!("{captured:?}").contains("SECRET"));
    let captured = Fabric::discover_snapshot(Path::new("captured"), captured).unwrap();
    let is_file = !tree.root().join("etc/cufile.json").is_dir();
    assert_eq!(captured.cufile.is_some_and(|found| found.problem.is_some()), is_file);
    tree.discover().cufile.and_then(|found| found.problem).expect("a problem")
}

#[test]
fn nvidia_fs_drivers_survive_captures() {
    const LIST: &str = "proc/driver/nvidia-fs/modules";
    const USERS: &str = "sys/module/nvidia_fs/refcnt";
    let registered = |list: &str, users: &str| {
        let tree = Sysfs::new();
        tree.file(LIST, list).folder("sys/module/nvidia_fs");
        if !users.is_empty() {
            tree.file(USERS, users);
        }
        let found = gpu_stack(&tree).map(|fabric| fabric.kernel.nvidia_fs_nvme);
        assert_eq!((found[1], found[2]), (found[0], found[0]), "{list:?} {users:?}");
        found[0]
    };
    assert_eq!(registered("nvme: SECRET\nwekafsio: 1\n", "3\n"), Some(true));
    assert_eq!(registered("nvme_rdma: 1\nwekafsio: 1\n", "1\n"), Some(false));
    assert_eq!(registered("wekafsio: 1\nSECRET: 1\n", ""), Some(false));
    assert_eq!(registered("wekafsio: 1\n", "0\n"), None, "nobody uses the module");
    assert_eq!(registered("nvme: 1\n", "0\n"), Some(true));
    assert_eq!(Sysfs::new().discover().kernel.nvidia_fs_nvme, None);
}

#[test]
fn missing_udev_is_told_from_unseen() {
    let tree = Sysfs::new();
    assert_eq!(environment(&tree).has_udev, None, "a tree without /run");
    tree.folder("run/lock");
    assert_eq!(environment(&tree).has_udev, Some(false));
    tree.folder("run/udev/data");
    assert_eq!(environment(&tree).has_udev, Some(true));
}
