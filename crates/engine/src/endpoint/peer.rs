//! Why peer-to-peer requests cannot work on an endpoint, whatever the memory.
//!
//! Names what is known to fail in Linux 7.2 (`facts` of the block layer and of file systems); what
//! is not named stays possible, and the probe before a copy decides. Order: the kernel, then the
//! file system, then the device.

use peerlane_fabric::{BlockDevice, Kernel, passthrough_name};

use crate::failure::Role;

/// First kernel whose `p2pmem/allocate` can be mapped (`Documentation/ABI/testing/sysfs-bus-pci`).
const ALLOCATE_SINCE: (u32, u32) = (6, 2);
/// First kernel known to pass peer-to-peer pages through NVMe multipath heads.
const MULTIPATH_SINCE: (u32, u32) = (7, 2);

/// What of a file matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileTraits {
    pub(super) is_direct: bool,
    pub(super) is_encrypted: bool,
    pub(super) is_verity: bool,
    pub(super) is_compressed: bool,
    /// btrfs: data without checksums.
    pub(super) is_nodatacow: bool,
}

/// Why the kernel offers no peer-to-peer memory to programs at all.
pub(crate) fn kernel_refusal(kernel: &Kernel) -> Option<String> {
    let release = kernel.release.as_deref().unwrap_or("unknown");
    if kernel.has_p2pdma == Some(false) {
        return Some(format!("kernel {release} is built without CONFIG_PCI_P2PDMA"));
    }
    (kernel.version()? < ALLOCATE_SINCE).then(|| {
        format!("kernel {release} is older than 6.2, the first with mappable peer-to-peer memory")
    })
}

/// Why the file system does not take peer-to-peer pages for direct I/O.
pub(super) fn file_refusal(kind: &str, file: FileTraits) -> Option<String> {
    let reason = match kind {
        _ if file.is_encrypted => "the file is encrypted: the CPU must read its content",
        _ if file.is_verity => "the file has fs-verity: the CPU must read its content",
        _ if file.is_compressed => "the file is compressed: the CPU must read its content",
        _ if !file.is_direct => "direct I/O is not possible there",
        "btrfs" if !file.is_nodatacow => "btrfs computes checksums of the data with the CPU",
        "overlay" | "fuse" | "fuseblk" | "virtiofs" | "nfs" | "nfs4" | "ceph" | "cifs" | "smb3"
        | "9p" | "afs" => "the file system does not pass peer-to-peer pages on",
        "vfat" | "msdos" | "ocfs2" | "nilfs2" | "jfs" | "udf" | "hfs" | "hfsplus" | "affs" => {
            "its direct I/O does not take peer-to-peer pages"
        }
        "zfs" | "bcachefs" => "it computes checksums of the data with the CPU",
        _ => return None,
    };
    Some(format!("{kind}: {reason}"))
}

/// Why the queue of a device does not take peer-to-peer pages.
pub(super) fn device_refusal(
    device: &BlockDevice,
    kernel: &Kernel,
    role: Role,
    file_system: Option<&str>,
) -> Option<String> {
    let name = &device.name;
    if let Some(what) = not_nvme(name) {
        return Some(format!("{name} is {what}: its queue takes no peer-to-peer pages"));
    }
    if is_old_head(device, kernel) {
        let release = kernel.release.as_deref().unwrap_or_default();
        return Some(format!(
            "{name} is an NVMe multipath head, which takes no peer-to-peer pages before Linux 7.2 \
             (this is {release}): boot with nvme_core.multipath=N on the kernel's command line{}",
            way_by_node(device, file_system)
        ));
    }
    if device.function.is_none() {
        return Some(format!("{name} is served by no PCI function of this machine"));
    }
    if let Some(integrity) = device.integrity {
        let (is_on, file) = match role {
            Role::Source => (integrity.read_verify, "read_verify"),
            Role::Target => (integrity.write_generate, "write_generate"),
        };
        if is_on {
            let disk = device.partition.as_ref().map_or(name, |partition| &partition.disk);
            return Some(format!(
                "the CPU checks protection information of {name}: \
                 echo 0 > /sys/block/{disk}/integrity/{file}"
            ));
        }
    }
    (device.stable_writes && file_system == Some("xfs")).then(|| {
        format!("XFS bounces direct I/O through host memory on {name}, which has stable writes")
    })
}

/// Whether a device is a multipath head on a kernel whose heads take no peer-to-peer pages.
pub(super) fn is_old_head(device: &BlockDevice, kernel: &Kernel) -> bool {
    device.is_multipath_head && kernel.version().is_some_and(|version| version < MULTIPATH_SINCE)
}

/// The other way round a multipath head: commands pick a path themselves, and go by its queue.
fn way_by_node(device: &BlockDevice, file_system: Option<&str>) -> String {
    match passthrough_name(&device.name).filter(|_| file_system.is_none()) {
        Some(node) => format!(", or name its passthrough node /dev/{node} in its place"),
        None => String::new(),
    }
}

/// Why commands of a passthrough node do not take peer-to-peer pages.
///
/// Multipath heads do on every kernel: a command goes by the queue of a path, not by that of the head
/// (`nvme_ns_head_chr_uring_cmd` in drivers/nvme/host/ioctl.c).
pub(super) fn passthrough_refusal(device: &BlockDevice) -> Option<String> {
    let name = &device.name;
    device
        .function
        .is_none()
        .then(|| format!("{name} is served by no PCI function of this machine, or by several"))
}

/// What a block device is that is not NVMe, by its kernel name.
fn not_nvme(name: &str) -> Option<&'static str> {
    if name.starts_with("nvme") {
        return None;
    }
    const KINDS: &[(&str, &str)] = &[
        ("dm-", "a device-mapper device"),
        ("loop", "a loop device"),
        ("md", "an md array, whose members are not judged one by one"),
        ("vd", "a virtio disk"),
        ("xvd", "a Xen disk"),
        ("sd", "a SCSI or SATA disk"),
        ("sr", "an optical drive"),
        ("nbd", "a network block device"),
        ("rbd", "a network block device"),
        ("ublk", "a user-space block device"),
        ("zram", "compressed memory"),
        ("ram", "a RAM disk"),
        ("pmem", "persistent memory"),
        ("mmcblk", "a memory card"),
        ("bcache", "a bcache device"),
    ];
    let known = KINDS.iter().find(|(prefix, _)| name.starts_with(prefix));
    Some(known.map_or("not an NVMe drive", |&(_, what)| what))
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{Integrity, QueueLimits};
    use peerlane_units::Bytes;

    use super::*;

    const PLAIN: FileTraits = FileTraits {
        is_direct: true,
        is_encrypted: false,
        is_verity: false,
        is_compressed: false,
        is_nodatacow: false,
    };

    fn drive(name: &str) -> BlockDevice {
        BlockDevice {
            name: name.to_owned(),
            size: Bytes::mib(64),
            limits: QueueLimits::default(),
            read_only: false,
            partition: None,
            partitions: Vec::new(),
            holders: Vec::new(),
            slaves: Vec::new(),
            function: "0000:03:00.0".parse().ok(),
            controller: Some("nvme0".to_owned()),
            integrity: None,
            stable_writes: false,
            is_multipath_head: false,
        }
    }

    fn kernel(release: &str) -> Kernel {
        Kernel { release: Some(release.to_owned()), has_p2pdma: Some(true) }
    }

    #[test]
    fn file_systems_that_take_peer_pages_are_not_refused() {
        for kind in ["ext4", "xfs", "ext2", "f2fs", "exfat", "never-heard-of"] {
            assert_eq!(file_refusal(kind, PLAIN), None, "{kind}");
        }
        assert_eq!(file_refusal("btrfs", FileTraits { is_nodatacow: true, ..PLAIN }), None);
    }

    #[test]
    fn file_systems_that_touch_the_data_are_refused_by_name() {
        for kind in ["btrfs", "overlay", "nfs4", "vfat", "zfs"] {
            let reason = file_refusal(kind, PLAIN).expect("a reason");
            assert!(reason.starts_with(kind), "{reason}");
        }
        let encrypted = FileTraits { is_encrypted: true, ..PLAIN };
        assert!(file_refusal("ext4", encrypted).is_some_and(|why| why.contains("encrypted")));
        let buffered = FileTraits { is_direct: false, ..PLAIN };
        assert!(file_refusal("ext4", buffered).is_some_and(|why| why.contains("direct I/O")));
    }

    #[test]
    fn queues_that_are_not_nvme_are_refused_by_name() {
        for name in ["dm-0", "loop3", "vda", "md0", "sda1", "zram0", "strange"] {
            let reason = device_refusal(&drive(name), &kernel("7.2.13"), Role::Source, None);
            assert!(reason.is_some_and(|reason| reason.starts_with(name)), "{name}");
        }
        assert_eq!(device_refusal(&drive("nvme0n1"), &kernel("7.2.13"), Role::Source, None), None);
    }

    #[test]
    fn multipath_heads_are_refused_before_7_2_only() {
        let head = BlockDevice { is_multipath_head: true, ..drive("nvme0n1") };
        let refusal = |file_system| {
            device_refusal(&head, &kernel("6.18.15"), Role::Target, file_system).expect("a reason")
        };
        for words in ["multipath head", "6.18.15", "nvme_core.multipath=N", "/dev/ng0n1"] {
            assert!(refusal(None).contains(words), "{words}: {}", refusal(None));
        }
        assert!(!refusal(Some("ext4")).contains("/dev/ng"), "a file has no passthrough node");
        assert_eq!(passthrough_refusal(&head), None);
        assert_eq!(device_refusal(&head, &kernel("7.2.13"), Role::Target, None), None);
    }

    #[test]
    fn protection_information_is_refused_in_the_direction_it_works_in() {
        let integrity = Some(Integrity { write_generate: true, read_verify: false });
        let drive = BlockDevice { integrity, ..drive("nvme0n1") };
        assert_eq!(device_refusal(&drive, &kernel("7.2.13"), Role::Source, None), None);
        let reason = device_refusal(&drive, &kernel("7.2.13"), Role::Target, None);
        assert!(reason.is_some_and(|reason| reason.ends_with("integrity/write_generate")));
    }

    #[test]
    fn kernels_without_the_interface_are_refused() {
        assert!(kernel_refusal(&kernel("6.1.0-30-amd64")).is_some());
        assert_eq!(kernel_refusal(&kernel("6.8.0-149-generic")), None);
        let without = Kernel { has_p2pdma: Some(false), ..kernel("6.12.107") };
        assert!(kernel_refusal(&without).is_some_and(|why| why.contains("CONFIG_PCI_P2PDMA")));
        assert_eq!(kernel_refusal(&Kernel::default()), None, "unknown is not refused");
    }
}
