//! Block devices as sysfs shows them.

use peerlane_fabric::{DiscoverError, Fabric, Integrity, ParentDisk, PassthroughNode};
use peerlane_units::Bytes;

use crate::synthetic::{ENDPOINT, NVME, ONE_NAMESPACE, Sysfs, config, one_drive};

#[test]
fn drive_has_function_and_request_limits() {
    let block = one_drive().block(259, 0).unwrap();
    assert_eq!(block.name, "nvme0n1");
    assert_eq!(block.size, Bytes::mib(64));
    assert_eq!(block.limits.logical_block, Bytes(512));
    assert_eq!(block.limits.physical_block, Bytes(4096));
    assert_eq!(block.limits.max_request, Some(Bytes::kib(1280)));
    assert_eq!(block.limits.max_segments, Some(127));
    assert_eq!(block.function.map(|at| at.to_string()).as_deref(), Some("0000:01:00.0"));
    assert_eq!(block.controller.as_deref(), Some("nvme0"));
    assert_eq!((block.partition, block.integrity), (None, None));
    assert!(!block.read_only && !block.stable_writes && !block.is_multipath_head);
    assert!(block.holders.is_empty() && block.slaves.is_empty() && block.partitions.is_empty());
}

#[test]
fn write_settings_and_integrity_are_read() {
    let tree = one_drive();
    tree.files(ONE_NAMESPACE, &[("ro", "1"), ("queue/stable_writes", "1")]).files(
        &format!("{ONE_NAMESPACE}/integrity"),
        &[("format", "T10-DIF-TYPE1-CRC"), ("write_generate", "1"), ("read_verify", "0")],
    );
    let block = tree.block(259, 0).unwrap();
    assert!(block.read_only && block.stable_writes);
    let integrity = Integrity { write_generate: true, read_verify: false };
    assert_eq!(block.integrity, Some(integrity));
    tree.file(&format!("{ONE_NAMESPACE}/integrity/format"), "none\n");
    assert_eq!(tree.block(259, 0).unwrap().integrity, None);
}

/// Two partitions; one of them carries `dm-0`, the disk carries `md0`.
fn partitioned() -> Sysfs {
    let tree = one_drive();
    for (minor, start, holder) in [(1, 2048, Some("dm-0")), (2, 65536, None)] {
        let name = format!("nvme0n1p{minor}");
        let at = format!("{ONE_NAMESPACE}/{name}");
        tree.files(&at, &[("partition", "1"), ("size", "4096"), ("ro", "0")])
            .file(&format!("{at}/start"), format!("{start}\n"))
            .folder(&format!("{at}/holders"))
            .link(
                &format!("sys/dev/block/259:{minor}"),
                &format!("../../devices/{}/{name}", ONE_NAMESPACE.replace("sys/devices/", "")),
            );
        if let Some(holder) = holder {
            tree.link(&format!("{at}/holders/{holder}"), "../../anywhere");
        }
    }
    tree.link(&format!("{ONE_NAMESPACE}/holders/md0"), "../../anywhere");
    tree
}

#[test]
fn disk_has_holders_of_partitions() {
    let disk = partitioned().block(259, 0).unwrap();
    assert_eq!(disk.holders, ["dm-0", "md0"]);
    let partitions: Vec<_> =
        disk.partitions.iter().map(|one| (one.name.as_str(), one.start, one.size)).collect();
    let size = Bytes::mib(2);
    let expected = [("nvme0n1p1", Bytes::mib(1), size), ("nvme0n1p2", Bytes::mib(32), size)];
    assert_eq!(partitions, expected);
}

#[test]
fn partition_inherits_disk_limits_and_holders() {
    let tree = partitioned();
    let first = tree.block(259, 1).unwrap();
    assert_eq!(first.holders, ["dm-0", "md0"]);
    assert_eq!(
        first.partition,
        Some(ParentDisk { disk: "nvme0n1".to_owned(), start: Bytes::mib(1) })
    );
    assert_eq!(first.limits.max_segments, Some(127));
    assert_eq!(first.controller.as_deref(), Some("nvme0"));
    assert_eq!(first.size, Bytes::mib(2));
    assert_eq!(tree.block(259, 2).unwrap().holders, ["md0"], "not what holds its neighbour");
}

#[test]
fn stacked_device_has_slaves_without_function() {
    let tree = Sysfs::new();
    let at = "sys/devices/virtual/block/dm-0";
    tree.disk(at)
        .link(&format!("{at}/slaves/nvme0n1p1"), "../../anywhere")
        .link("sys/dev/block/252:0", "../../devices/virtual/block/dm-0");
    let block = tree.block(252, 0).unwrap();
    assert_eq!(block.slaves, ["nvme0n1p1"]);
    assert_eq!((block.function, block.controller), (None, None));
}

#[test]
fn multipath_head_needs_single_controller() {
    let tree = Sysfs::new();
    let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    let drive = "pci0000:00/0000:00:01.0";
    tree.function(&format!("sys/devices/{drive}"), NVME, &config(ENDPOINT, None))
        .disk(&format!("{subsystem}/nvme0n1"))
        .link(&format!("{subsystem}/nvme0"), &format!("../../../{drive}/nvme/nvme0"))
        .link("sys/dev/block/259:0", "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
    let block = tree.block(259, 0).unwrap();
    assert!(block.is_multipath_head);
    assert_eq!(block.function.map(|at| at.to_string()).as_deref(), Some("0000:00:01.0"));
    assert_eq!(block.controller.as_deref(), Some("nvme0"));
    tree.link(&format!("{subsystem}/nvme1"), &format!("../../../{drive}/nvme/nvme1"));
    let block = tree.block(259, 0).unwrap();
    assert_eq!((block.function, block.controller), (None, None));
}

#[test]
fn unknown_device_number_is_named() {
    let tree = one_drive();
    let error = tree.block(8, 1).unwrap_err();
    assert!(matches!(error, DiscoverError::NoSuchBlockDevice { major: 8, minor: 1, .. }));
    tree.link("sys/dev/block/8:1", "../../../../etc");
    assert!(matches!(tree.block(8, 1), Err(DiscoverError::NoSuchBlockDevice { .. })));
}

#[test]
fn malformed_size_is_an_error() {
    for text in ["", "x", "-1", "18446744073709551615"] {
        let tree = one_drive();
        tree.file(&format!("{ONE_NAMESPACE}/size"), text);
        assert!(matches!(tree.block(259, 0), Err(DiscoverError::Malformed { .. })), "{text}");
    }
}

#[test]
fn passthrough_node_finds_block_device() {
    let tree = one_drive();
    let controller = ONE_NAMESPACE.strip_suffix("/nvme0n1").unwrap();
    let link = |minor: u32, name: &str| {
        let below = controller.strip_prefix("sys/").unwrap();
        tree.link(&format!("sys/dev/char/250:{minor}"), &format!("../../{below}/{name}"));
    };
    link(0, "ng0n1");
    link(1, "ng0n2");
    link(2, "hwmon1");
    tree.files(
        ONE_NAMESPACE,
        &[("dev", "259:0"), ("nsid", "5"), ("metadata_bytes", "8"), ("csi", "0")],
    )
    .file(&format!("{ONE_NAMESPACE}/queue/write_zeroes_max_bytes"), "131072\n");
    let read = |minor| PassthroughNode::read(tree.root(), 250, minor);
    let node = read(0).unwrap().expect("a passthrough node");
    assert_eq!((node.name.as_str(), node.block.name.as_str()), ("ng0n1", "nvme0n1"));
    assert_eq!((node.nsid, node.metadata, node.command_set), (Some(5), Some(8), Some(0)));
    assert_eq!((node.zeroes_max, node.block.size), (131_072, Bytes::mib(64)));
    assert!(matches!(read(1), Err(DiscoverError::NoSuchBlockDevice { .. })), "no block device");
    assert_eq!(read(2).unwrap(), None, "another character device");
    assert_eq!(read(9).unwrap(), None, "nothing");
    let fabric = Fabric::discover(tree.root()).unwrap();
    assert!(fabric.find("ng0n1").is_some());
    assert_eq!(fabric.find("ng0n1"), fabric.find("nvme0n1"));
    assert_eq!(fabric.find("ng0n9"), None);
}
