//! Discovery from synthetic trees, and from the captured ones in `fixtures/sysfs/`.

use std::path::Path;

use peerlane_fabric::{Acs, Fabric, FunctionKind, IommuMode, Origin, Parent};
use peerlane_units::Bytes;

use crate::synthetic::{
    DOWNSTREAM_PORT, ENDPOINT, NVME, ONE_NAMESPACE, PORT, ROOT_PORT, Sysfs, UPSTREAM_PORT, config,
    one_drive,
};

#[test]
fn drive_below_root_port_is_found() {
    let tree = one_drive();
    let root = "sys/devices/pci0000:00/0000:00:01.0";
    let drive = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.files(root, &[("current_link_speed", "16.0 GT/s PCIe"), ("current_link_width", "4")])
        .files(
            drive,
            &[
                ("numa_node", "1"),
                ("current_link_speed", "8.0 GT/s PCIe"),
                ("current_link_width", "4"),
                ("max_link_speed", "16.0 GT/s PCIe"),
                ("max_link_width", "4"),
                ("p2pmem/size", "67108864"),
                ("p2pmem/available", "66977792"),
                ("p2pmem/published", "1"),
            ],
        )
        .link(&format!("{drive}/driver"), "../../../../bus/pci/drivers/nvme")
        .link(&format!("{drive}/iommu_group"), "../../../../kernel/iommu_groups/7")
        .files("sys/kernel/iommu_groups/7", &[("type", "DMA-FQ")])
        .files(
            &format!("{ONE_NAMESPACE}/nvme0n1p1"),
            &[("partition", "1"), ("start", "2048"), ("size", "4096")],
        )
        .files("proc/sys/kernel", &[("osrelease", "7.2.13"), ("hostname", "box")])
        .files("proc", &[("cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n")]);
    let fabric = tree.discover();
    assert_eq!(fabric.origin, Origin::Tree(tree.root().to_owned()));
    let text = fabric.to_toml();
    insta::assert_snapshot!(text, @r#"
    name = "box"
    iommu = "translating"

    [kernel]
    release = "7.2.13"
    p2pdma = true

    [cpu]
    vendor = "AuthenticAMD"
    family = 25

    [[host_bridge]]
    name = "pci0000:00"

    [[function]]
    name = "0000:00:01.0"
    kind = "root-port"
    under = "pci0000:00"
    address = "0000:00:01.0"
    vendor = "0x104c"
    device = "0x8232"
    class = "0x060400"
    driver = "none"

    [function.acs]
    control = "0x0000"

    [[function]]
    name = "nvme0"
    kind = "nvme"
    under = "0000:00:01.0"
    address = "0000:01:00.0"
    vendor = "0x1b36"
    device = "0x0010"
    class = "0x010802"
    numa_node = 1
    iommu_group = 7
    iommu_type = "DMA-FQ"
    driver = "nvme"
    controller = "nvme0"
    serial = "S1"
    model = "Drive"
    firmware = "1.0"

    [function.link]
    current = "8GT/s x4"
    maximum = "16GT/s x4"

    [function.p2pmem]
    size = "64M"
    available = 66977792
    published = true

    [[function.namespaces]]
    name = "nvme0n1"
    nsid = 1
    size = "64M"
    block_size = 512
    physical_block_size = 4096
    max_request = 1310720
    max_segments = 127
    stable_writes = false

    [[function.namespaces.partitions]]
    name = "nvme0n1p1"
    start = "1M"
    size = "2M"
    "#);
}

#[test]
fn port_types_come_from_configuration_space() {
    let tree = switch(|port_type| config(port_type, Some(0x1d)));
    let found: Vec<_> = tree.discover().functions.iter().map(|one| (one.kind, one.acs)).collect();
    let redirecting = Acs::Present { control: 0x1d };
    assert_eq!(
        found,
        [
            (FunctionKind::RootPort, redirecting),
            (FunctionKind::UpstreamPort, redirecting),
            (FunctionKind::DownstreamPort, redirecting),
            (FunctionKind::Nvme, redirecting),
        ]
    );
}

#[test]
fn unprivileged_reader_knows_ports_without_acs() {
    let tree = switch(|port_type| config(port_type, Some(0x1d))[..64].to_vec());
    let found: Vec<_> = tree.discover().functions.iter().map(|one| (one.kind, one.acs)).collect();
    assert_eq!(
        found,
        [
            (FunctionKind::RootPort, Acs::Unknown),
            (FunctionKind::UpstreamPort, Acs::Unknown),
            (FunctionKind::DownstreamPort, Acs::Unknown),
            (FunctionKind::Nvme, Acs::Unknown),
        ]
    );
}

/// Root port, switch, drive; the drive has no controller.
fn switch(config: impl Fn(u8) -> Vec<u8>) -> Sysfs {
    let tree = Sysfs::new();
    let mut at = "sys/devices/pci0000:00".to_owned();
    for (address, port_type) in [
        ("0000:00:01.0", ROOT_PORT),
        ("0000:01:00.0", UPSTREAM_PORT),
        ("0000:02:00.0", DOWNSTREAM_PORT),
    ] {
        at = format!("{at}/{address}");
        tree.function(&at, PORT, &config(port_type))
            .link(&format!("{at}/driver"), "../../bus/pci_express/drivers/pcieport");
    }
    tree.function(&format!("{at}/0000:03:00.0"), NVME, &config(ENDPOINT));
    tree
}

#[test]
fn kinds_come_from_class_and_vendor() {
    for (ids, expected) in [
        (["0x144d", "0xa80a", "0x010802"], FunctionKind::Nvme),
        (["0x10de", "0x2330", "0x030200"], FunctionKind::Gpu),
        (["0x1002", "0x74a1", "0x120000"], FunctionKind::Gpu),
        (["0x10ee", "0x6988", "0x120000"], FunctionKind::Fpga),
        (["0x10ee", "0x903f", "0x070001"], FunctionKind::Fpga),
        (["0x1172", "0x0001", "0x120000"], FunctionKind::Fpga),
        (["0x15b3", "0x1021", "0x020000"], FunctionKind::Nic),
        (["0x8086", "0x0b25", "0x088000"], FunctionKind::Other),
        (["0x1b36", "0x0001", "0x060400"], FunctionKind::OtherBridge),
        (["none", "none", "none"], FunctionKind::Other),
    ] {
        let tree = Sysfs::new();
        tree.function("sys/devices/pci0000:00/0000:00:02.0", ids, &config(ENDPOINT, None));
        assert_eq!(tree.discover().functions[0].kind, expected, "{ids:?}");
    }
}

#[test]
fn iommu_mode_follows_group_types() {
    for (types, expected) in [
        (&[][..], IommuMode::Off),
        (&["identity", "identity"], IommuMode::Passthrough),
        (&["identity", "DMA"], IommuMode::Translating),
        (&["DMA-FQ"], IommuMode::Translating),
        (&["unmanaged"], IommuMode::Unknown),
    ] {
        let tree = Sysfs::new();
        tree.folder("sys/kernel/iommu_groups");
        for (group, text) in types.iter().enumerate() {
            tree.file(&format!("sys/kernel/iommu_groups/{group}/type"), format!("{text}\n"));
        }
        assert_eq!(tree.discover().iommu, expected, "{types:?}");
    }
    assert_eq!(Sysfs::new().discover().iommu, IommuMode::Unknown);
}

#[test]
fn p2pdma_comes_from_kernel_configuration() {
    for (path, config, expected) in [
        ("boot/config-7.2.13", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n", Some(true)),
        ("usr/lib/modules/7.2.13/config", "CONFIG_PCI_P2PDMA=y\n", Some(true)),
        ("boot/config-7.2.13", "# CONFIG_PCI_P2PDMA is not set\n", Some(false)),
        ("boot/config-6.12.0", "CONFIG_PCI_P2PDMA=y\n", None),
    ] {
        let tree = Sysfs::new();
        tree.file("proc/sys/kernel/osrelease", "7.2.13\n").file(path, config);
        assert_eq!(tree.discover().kernel.has_p2pdma, expected, "{path}: {config}");
    }
    let tree = one_drive();
    let drive = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.files(&format!("{drive}/p2pmem"), &[("size", "4096"), ("available", "0")]);
    let fabric = tree.discover();
    assert_eq!(fabric.kernel.has_p2pdma, Some(true));
    let memory = fabric.functions[1].p2pmem.unwrap();
    assert!(!memory.published, "a missing file does not offer memory");
}

#[test]
fn arm_cpu_has_its_vendor() {
    let tree = Sysfs::new();
    tree.file("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n");
    assert_eq!(tree.discover().cpu.vendor.as_deref(), Some("CPU implementer 0x41"));
}

#[test]
fn nested_host_bridges_are_found() {
    let tree = Sysfs::new();
    let vmd = "sys/devices/pci0000:00/0000:00:0e.0";
    tree.function(vmd, ["0x8086", "0x9a0b", "0x010400"], &config(ENDPOINT, None))
        .function(&format!("{vmd}/pci10000:e0/10000:e0:06.0"), PORT, &config(ROOT_PORT, None))
        .function(
            "sys/devices/platform/soc/fd500000.pcie/pci0001:00/0001:00:00.0",
            PORT,
            &config(ROOT_PORT, None),
        );
    let fabric = tree.discover();
    let bridges: Vec<_> = fabric.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
    assert_eq!(bridges, ["pci0000:00", "pci10000:e0", "pci0001:00"]);
    let of = |name| fabric.bridge_of(fabric.find(name).unwrap()).0;
    assert_eq!([of("0000:00:0e.0"), of("10000:e0:06.0"), of("0001:00:00.0")], [0, 1, 2]);
}

#[test]
fn multipath_namespace_is_the_head() {
    let tree = Sysfs::new();
    let drive = "sys/devices/pci0000:00/0000:00:01.0";
    let head = "sys/devices/virtual/nvme-subsystem/nvme-subsys3/nvme3n1";
    tree.function(drive, NVME, &config(ENDPOINT, None))
        .disk(&format!("{drive}/nvme/nvme1/nvme3c1n1"))
        .disk(head);
    let fabric = tree.discover();
    let nvme = fabric.functions[0].nvme.as_ref().unwrap();
    assert_eq!(nvme.name.as_deref(), Some("nvme1"));
    assert_eq!(nvme.namespaces.len(), 1);
    assert_eq!(nvme.namespaces[0].name.as_deref(), Some("nvme3n1"));
    assert_eq!(nvme.namespaces[0].size, Bytes::mib(64));
}

#[test]
fn compressed_kernel_configuration_is_read() {
    let text = "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n";
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    gzip.extend(miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6));
    gzip.extend([0; 8]);
    let tree = Sysfs::new();
    tree.file("proc/sys/kernel/osrelease", "7.2.13\n").file("proc/config.gz", &gzip);
    assert_eq!(tree.discover().kernel.has_p2pdma, Some(true));
    let kept = peerlane_fabric::capture::take(tree.root()).unwrap().content;
    let again = Fabric::discover_snapshot(Path::new("kept"), kept).unwrap();
    assert_eq!(again.kernel.has_p2pdma, Some(true), "a capture keeps the answer");
    for damaged in [&gzip[..17], &gzip[..3], b"no gzip at all, though long enough"] {
        let tree = Sysfs::new();
        tree.file("proc/config.gz", damaged);
        assert_eq!(tree.discover().kernel.has_p2pdma, None);
    }
}

#[test]
fn mounts_are_found_through_stacks() {
    let tree = one_drive();
    let stack = "sys/devices/virtual/block";
    tree.files(ONE_NAMESPACE, &[("dev", "259:0")])
        .files(
            &format!("{ONE_NAMESPACE}/nvme0n1p1"),
            &[("partition", "1"), ("start", "2048"), ("size", "4096"), ("dev", "259:1")],
        )
        .files(&format!("{stack}/dm-0"), &[("dev", "253:0"), ("dm/uuid", "CRYPT-LUKS2-abc-home")])
        .link(&format!("{stack}/dm-0/slaves/nvme0n1p1"), "../../../nvme0n1p1")
        .files(&format!("{stack}/md127"), &[("dev", "9:127"), ("md/level", "raid1")])
        .files(&format!("{stack}/loop0"), &[("dev", "7:0")])
        .file(
            "proc/self/mountinfo",
            "22 1 253:0 / /home\\040of\\040mine rw,relatime shared:1 - ext4 /dev/mapper/home rw\n\
             23 1 0:44 / /pool ro - btrfs /dev/nvme0n1 rw\n\
             24 1 7:0 / /snap ro - squashfs /dev/loop0 ro\n\
             25 1 0:5 / /proc rw - proc proc rw\nno mount\n",
        );
    let fabric = tree.discover();
    let names: Vec<_> =
        fabric.stacked.iter().map(|one| (one.name.as_str(), one.kind.as_deref())).collect();
    assert_eq!(names, [("dm-0", Some("crypt")), ("md127", Some("raid1"))]);
    assert_eq!(
        fabric.holders("nvme0n1p1").map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["dm-0"]
    );
    let mounts: Vec<_> = fabric
        .mounts
        .iter()
        .flatten()
        .map(|one| (one.device.as_str(), one.point.as_str(), one.is_read_only))
        .collect();
    assert_eq!(mounts, [("dm-0", "/home of mine", false), ("nvme0n1", "/pool", true)]);
    assert_eq!(one_drive().discover().mounts, None, "nothing says what is mounted");
}

#[test]
fn windows_have_current_and_largest_size() {
    let tree = Sysfs::new();
    let gpu = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.function("sys/devices/pci0000:00/0000:00:01.0", PORT, &config(ROOT_PORT, None))
        .function(gpu, ["0x10de", "0x2330", "0x030200"], &config(ENDPOINT, None))
        .file(
            &format!("{gpu}/resource"),
            "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n\
             0x0000380000000000 0x000038000fffffff 0x000000000014220c\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
             0x000000000000e000 0x000000000000e07f 0x0000000000040101\nodd\n",
        )
        .file(&format!("{gpu}/resource1_resize"), "0000000000003fc0\n")
        .folder(&format!("{gpu}/drm/card0"))
        .folder(&format!("{gpu}/drm/card0-DP-1"));
    let fabric = tree.discover();
    let function = &fabric.functions[1];
    let windows: Vec<_> = function
        .bars
        .iter()
        .map(|bar| (bar.index, bar.size, bar.is_prefetchable, bar.largest))
        .collect();
    let largest = Some(Bytes::mib(8192));
    assert_eq!(windows, [(0, Bytes::mib(16), false, None), (1, Bytes::mib(256), true, largest)]);
    assert_eq!(function.kernel_names, ["card0"]);
}

#[test]
fn unreadable_facts_stay_unknown() {
    let tree = Sysfs::new();
    tree.folder("sys/devices/pci0000:00/0000:00:01.0").folder("sys/devices/pci0000:00/power");
    let fabric = tree.discover();
    assert_eq!(fabric.functions.len(), 1);
    let function = &fabric.functions[0];
    assert_eq!(
        (function.kind, function.vendor, function.acs),
        (FunctionKind::Other, None, Acs::Unknown)
    );
    assert!(matches!(function.parent, Parent::Bridge(_)));
    assert!(Fabric::discover(Path::new("/nonexistent")).is_err());
}

#[test]
fn links_outside_tree_are_ignored() {
    let outside = one_drive();
    let tree = Sysfs::new();
    let target = outside.root().join("sys/devices/pci0000:00");
    tree.link("sys/devices/pci0000:00", target.to_str().unwrap());
    let fabric = tree.discover();
    assert!(fabric.bridges.is_empty() && fabric.functions.is_empty());
}

#[test]
fn this_machine_survives_a_machine_file() {
    let mut fabric = Fabric::discover(Path::new("/")).unwrap();
    assert!(fabric.is_this_machine());
    let read = Fabric::from_toml(&fabric.to_toml()).unwrap();
    assert!(!read.is_this_machine(), "what comes from a file may not move data");
    fabric.origin = Origin::Description;
    assert_eq!(read, fabric);
}

#[test]
fn every_captured_tree_matches_its_topology() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let fabric = Fabric::discover(&path.join("tree.tar.zst")).unwrap();
        let expected = path.join("topology.toml");
        if std::env::var_os("PEERLANE_UPDATE_FIXTURES").is_some() {
            std::fs::write(&expected, fabric.to_toml()).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap();
        assert_eq!(fabric.to_toml(), expected, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "there are captured trees in {}", folder.display());
}

#[test]
fn libraries_are_found_by_name() {
    let tree = Sysfs::new();
    assert_eq!(tree.discover().libraries, None, "a tree without the folder says nothing");
    tree.folder("usr/lib");
    assert_eq!(tree.discover().libraries, Some(Vec::new()));
    tree.link("usr/lib/x86_64-linux-gnu/libcufile.so.0", "/outside/libcufile.so.1.13.1");
    tree.file("usr/local/cuda-12.8/targets/x86_64-linux/lib/libcuda.so.1", "");
    tree.folder("opt/xilinx/xrt/lib/libxrt_coreutil.so.2");
    tree.file("usr/lib/libc.so.6", "");
    let found = ["libcuda.so.1", "libcufile.so.0", "libcufile.so.1.13.1"].map(str::to_owned);
    assert_eq!(tree.discover().libraries, Some(found.into()), "a folder is no library");
    let captured = peerlane_fabric::capture::take(tree.root()).unwrap();
    assert!(captured.content.iter().all(|(path, _)| !path.ends_with("libc.so.6")));
    let again = Fabric::discover_snapshot(tree.root(), captured.content).unwrap();
    assert_eq!(again.libraries, tree.discover().libraries, "a capture has them too");
}
