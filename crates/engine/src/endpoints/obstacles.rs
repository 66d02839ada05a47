//! Reasons why peer-to-peer requests cannot work on an endpoint, whatever the memory, with advice.
//!
//! Names the cases known to fail in Linux 7.2 (docs/files.md lists them, and those that were tried
//! in the lab). Any other case stays possible, and the probe before a copy decides. Order: the
//! kernel, then the file system, then the device.

use peerlane_fabric::{BlockDevice, Kernel, passthrough_name};
use peerlane_reach::{MD_LEVELS, MD_SINCE, MULTIPATH_SINCE};

use super::layer::Layer;
use crate::io::failure::Role;

/// Traits of a file that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileTraits {
    pub(super) is_direct: bool,
    pub(super) is_encrypted: bool,
    pub(super) is_verity: bool,
    pub(super) is_compressed: bool,
    /// btrfs: data without checksums.
    pub(super) is_nodatacow: bool,
    /// btrfs: on more than one device.
    pub(super) is_spread: bool,
    /// ext4: data goes through the journal, and so through the page cache.
    pub(super) is_journaled: bool,
}

/// An obstacle to peer-to-peer requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    /// Reason, with the name of the file system or device.
    pub(super) reason: String,
    /// Change that would make it possible.
    pub(super) way_out: Option<String>,
}

impl Obstacle {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), way_out: None }
    }

    fn way_out(self, way_out: impl Into<String>) -> Self {
        Self { way_out: Some(way_out.into()), ..self }
    }
}

/// Returns the reason why the file system does not take peer-to-peer pages for direct I/O.
pub(super) fn file_refusal(kind: &str, file: FileTraits) -> Option<Obstacle> {
    let (reason, way_out) = match kind {
        _ if file.is_encrypted => (
            "files there are encrypted: the CPU must read their content",
            "use a directory without an encryption policy",
        ),
        _ if file.is_verity => (
            "the file has fs-verity: the CPU must read its content",
            "use a copy of it without fs-verity",
        ),
        _ if file.is_compressed => (
            "the file is compressed: the CPU must read its content",
            "use a directory without compression (`chattr -c`)",
        ),
        _ if file.is_journaled => (
            "data goes through the journal, and so through the page cache",
            "mount it with data=ordered, and `chattr -j` the directory and the file",
        ),
        "tmpfs" | "ramfs" | "rootfs" | "hugetlbfs" => {
            ("its content lies in host memory", "use a file on a drive")
        }
        "ext4" if !file.is_direct => (
            "no direct I/O to this file: its data lies in its inode (inline_data), or the CPU reads it",
            "use a file of more than one block, on ext4 without inline_data",
        ),
        _ if !file.is_direct => {
            ("direct I/O is not possible there", "use ext4 or XFS on the drive")
        }
        "btrfs" if !file.is_nodatacow => (
            "the CPU computes checksums of the data",
            "use a file that was made in a directory with `chattr +C`",
        ),
        "btrfs" if file.is_spread => (
            "it has several devices, of which the kernel asks only one whether it takes such pages",
            "use a file system on one drive",
        ),
        "overlay" => (
            "the file system does not pass peer-to-peer pages on",
            "name the file by its path in the lower or upper directory",
        ),
        "fuse" | "fuseblk" | "virtiofs" | "nfs" | "nfs4" | "ceph" | "cifs" | "smb3" | "9p"
        | "afs" => (
            "the file system does not pass peer-to-peer pages on",
            "use a file system on a drive of this machine",
        ),
        "vfat" | "msdos" | "ocfs2" | "nilfs2" | "jfs" | "udf" | "hfs" | "hfsplus" | "affs" => (
            "its direct I/O does not take peer-to-peer pages",
            "use ext4, XFS or exFAT on the drive",
        ),
        "zfs" | "bcachefs" => {
            ("the CPU computes checksums of the data", "use ext4 or XFS on the drive")
        }
        _ => return None,
    };
    Some(Obstacle::new(format!("{kind}: {reason}")).way_out(way_out))
}

/// Returns the reason why the queue of a device does not take peer-to-peer pages.
pub(super) fn device_refusal(
    device: &BlockDevice,
    layer: &Layer,
    kernel: &Kernel,
    role: Role,
    file_system: Option<&str>,
) -> Option<Obstacle> {
    let name = &device.name;
    if let Some(obstacle) = layer_refusal(name, layer, kernel, role) {
        return Some(obstacle);
    }
    if matches!(layer, Layer::Md { .. }) {
        return stable_writes(device, file_system);
    }
    if is_old_head(device, kernel) {
        let release = kernel.release.as_deref().unwrap_or_default();
        return Some(
            Obstacle::new(format!(
                "{name} is an NVMe multipath head, which takes no peer-to-peer pages before Linux 7.2 \
                 (this is {release})"
            ))
            .way_out(format!(
                "boot with nvme_core.multipath=N on the kernel's command line{}",
                way_by_node(device, file_system)
            )),
        );
    }
    if device.function.is_none() {
        return Some(Obstacle::new(no_function(name)));
    }
    protection(device, role).or_else(|| stable_writes(device, file_system))
}

/// The refusal of a device that no PCI function serves.
pub(crate) fn no_function(name: &str) -> String {
    format!("{name} is served by no PCI function of this machine")
}

/// Returns the obstacle of a layer that never takes them, whatever lies below.
fn layer_refusal(name: &str, layer: &Layer, kernel: &Kernel, role: Role) -> Option<Obstacle> {
    let what = layer.describe();
    let queue =
        || Obstacle::new(format!("{name} is {what}: its queue takes no peer-to-peer pages"));
    let way_out = match layer {
        Layer::Nvme { network } => match network.as_ref().map(|far| far.transport.as_str()) {
            None | Some("rdma") => return None,
            Some(_) => "use a drive of this machine",
        },
        Layer::DeviceMapper { .. } => "use a drive or partition without device mapper",
        Layer::Loop { .. } => "name the file itself",
        Layer::Md { level, members } => {
            return array(name, level, members, kernel, role).or_else(|| {
                members
                    .is_empty()
                    .then(|| Obstacle::new(format!("{name} is {what}, members unknown")))
            });
        }
        Layer::Other(_) => "use an NVMe drive",
    };
    Some(queue().way_out(way_out))
}

/// An md array passes pages on if its level does and every member takes them.
fn array(
    name: &str,
    level: &str,
    members: &[BlockDevice],
    kernel: &Kernel,
    role: Role,
) -> Option<Obstacle> {
    let what = format!("{name} is an md array ({level})");
    if !MD_LEVELS.contains(&level) {
        let reason = format!("{what}: only raid0, raid1 and raid10 pass peer-to-peer pages on");
        return Some(
            Obstacle::new(reason).way_out("use an array of one of these levels, or a drive"),
        );
    }
    if kernel.version().is_some_and(|version| version < MD_SINCE) {
        let release = kernel.release.as_deref().unwrap_or_default();
        let reason = format!(
            "{what}, which passes no peer-to-peer pages on before Linux 7.2 (this is {release})"
        );
        return Some(
            Obstacle::new(reason).way_out("boot Linux 7.2 or later, or use a single drive"),
        );
    }
    members.iter().find_map(|member| {
        // An array of arrays or mappings is left to a user of one to try.
        let plain = Layer::Nvme { network: None };
        let layer =
            if member.name.starts_with("nvme") { plain } else { Layer::Other("no NVMe drive") };
        let below = device_refusal(member, &layer, kernel, role, None)?;
        Some(Obstacle { reason: format!("{what} of which {}", below.reason), ..below })
    })
}

/// True when a device is a multipath head on a kernel whose heads take no peer-to-peer pages.
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

/// Returns the reason why commands of a passthrough node do not take peer-to-peer pages.
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

/// Returns the obstacle of protection information: if the CPU makes or checks it, the CPU reads
/// the payload.
fn protection(device: &BlockDevice, role: Role) -> Option<Obstacle> {
    let integrity = device.integrity?;
    // A target is read, too, into the memory: by the proof.
    let at_work = [
        ("write_generate", "makes", integrity.write_generate && role == Role::Target),
        ("read_verify", "checks", integrity.read_verify),
    ];
    let is_on = |&&(_, _, is_on): &&(&str, &str, bool)| is_on;
    let (_, what, _) = at_work.iter().find(is_on)?;
    let name = &device.name;
    let disk = device.partition.as_ref().map_or(name, |partition| &partition.disk);
    let switch = |(file, ..): &(&str, _, _)| format!("echo 0 > /sys/block/{disk}/integrity/{file}");
    let way_out: Vec<String> = at_work.iter().filter(is_on).map(switch).collect();
    let reason = format!("the CPU {what} protection information of {name}");
    Some(Obstacle::new(reason).way_out(way_out.join("; ")))
}

/// XFS copies writes to such a device (`IOMAP_DIO_BOUNCE`).
fn stable_writes(device: &BlockDevice, file_system: Option<&str>) -> Option<Obstacle> {
    (device.stable_writes && file_system == Some("xfs")).then(|| {
        let name = &device.name;
        let reason = format!(
            "XFS bounces direct I/O through host memory on {name}, which has stable writes"
        );
        Obstacle::new(reason).way_out("use ext4 there, or a drive without stable writes")
    })
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::Integrity;
    use peerlane_units::Bytes;

    use peerlane_results::NetworkFacts;

    use super::*;

    const PLAIN: FileTraits = FileTraits {
        is_direct: true,
        is_encrypted: false,
        is_verity: false,
        is_compressed: false,
        is_nodatacow: false,
        is_spread: false,
        is_journaled: false,
    };

    fn drive(name: &str) -> BlockDevice {
        BlockDevice {
            name: name.to_owned(),
            size: Bytes::mib(64),
            function: "0000:03:00.0".parse().ok(),
            controller: Some("nvme0".to_owned()),
            ..BlockDevice::default()
        }
    }

    fn kernel(release: &str) -> Kernel {
        Kernel { release: Some(release.to_owned()), has_p2pdma: Some(true), ..Kernel::default() }
    }

    const NVME: Layer = Layer::Nvme { network: None };

    fn refused(device: &BlockDevice, layer: &Layer, release: &str, role: Role) -> Option<String> {
        device_refusal(device, layer, &kernel(release), role, None).map(|obstacle| obstacle.reason)
    }

    #[test]
    fn file_systems_that_take_peer_pages_are_not_refused() {
        for kind in ["ext4", "xfs", "ext2", "f2fs", "exfat", "never-heard-of"] {
            assert_eq!(file_refusal(kind, PLAIN), None, "{kind}");
        }
        let nodatacow = FileTraits { is_nodatacow: true, ..PLAIN };
        assert_eq!(file_refusal("btrfs", nodatacow), None);
        let spread = file_refusal("btrfs", FileTraits { is_spread: true, ..nodatacow });
        assert!(spread.is_some_and(|found| found.reason.contains("several devices")));
    }

    #[test]
    fn data_touching_file_systems_are_refused() {
        for kind in ["btrfs", "overlay", "nfs4", "vfat", "zfs", "tmpfs"] {
            let Obstacle { reason, way_out } = file_refusal(kind, PLAIN).expect("a reason");
            assert!(reason.starts_with(&format!("{kind}: ")), "{reason}");
            assert!(way_out.is_some_and(|way| way.starts_with("use ") || way.starts_with("name ")));
        }
    }

    #[test]
    fn cpu_touched_files_are_refused() {
        let cases = [
            (FileTraits { is_encrypted: true, ..PLAIN }, "encrypted", "encryption policy"),
            (FileTraits { is_verity: true, ..PLAIN }, "fs-verity", "without fs-verity"),
            (FileTraits { is_compressed: true, ..PLAIN }, "compressed", "chattr -c"),
            (FileTraits { is_journaled: true, ..PLAIN }, "journal", "data=ordered"),
            (FileTraits { is_direct: false, ..PLAIN }, "direct I/O", "inline_data"),
        ];
        for (traits, reason, way_out) in cases {
            let found = file_refusal("ext4", traits).expect("an obstacle");
            assert!(found.reason.contains(reason), "{found:?}");
            assert!(found.way_out.as_ref().is_some_and(|way| way.contains(way_out)), "{found:?}");
        }
    }

    #[test]
    fn foreign_queues_are_refused_by_kind() {
        let far = NetworkFacts { transport: "tcp".to_owned(), address: None, subsystem: None };
        let tcp = Layer::Nvme { network: Some(far) };
        let (name, maker) = (Some("home".to_owned()), Some("LVM".to_owned()));
        let mapped = Layer::DeviceMapper { name, maker };
        let cases = [
            (tcp, "an NVMe namespace over tcp", "this machine"),
            (mapped, "a device-mapper device (home, LVM)", "device mapper"),
            (Layer::Loop { shows: Some("/a.img".to_owned()) }, "a loop device on /a.img", "itself"),
            (Layer::Other("a virtio disk"), "a virtio disk", "an NVMe drive"),
        ];
        for (layer, what, way_out) in cases {
            let found = device_refusal(&drive("x"), &layer, &kernel("7.2.13"), Role::Source, None);
            let found = found.expect("an obstacle");
            let reason = format!("x is {what}: its queue takes no peer-to-peer pages");
            assert_eq!(found.reason, reason);
            assert!(found.way_out.as_ref().is_some_and(|way| way.ends_with(way_out)), "{found:?}");
        }
        assert_eq!(refused(&drive("nvme0n1"), &NVME, "7.2.13", Role::Source), None);
    }

    #[test]
    fn array_follows_level_kernel_worst_member() {
        let array = |level: &str, members: Vec<BlockDevice>| {
            let level = level.to_owned();
            Layer::Md { level, members }
        };
        let md = BlockDevice { function: None, ..drive("md0") };
        let pair = || vec![drive("nvme0n1"), drive("nvme1n1")];
        for level in ["raid0", "raid1", "raid10"] {
            assert_eq!(
                refused(&md, &array(level, pair()), "7.2.13", Role::Target),
                None,
                "{level}"
            );
        }
        let refusals = [
            (array("raid5", pair()), "7.2.13", "md0 is an md array (raid5): only raid0,"),
            (array("raid1", pair()), "6.18.15", "before Linux 7.2 (this is 6.18.15)"),
            (array("raid1", vec![drive("nvme0n1"), drive("sda")]), "7.2.13", "of which sda is"),
            (array("raid1", Vec::new()), "7.2.13", "members unknown"),
        ];
        for (layer, release, part) in refusals {
            let reason = refused(&md, &layer, release, Role::Target).expect("a reason");
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn xfs_refused_where_bouncing_but_not_ext4() {
        let stable = BlockDevice { stable_writes: true, ..drive("nvme0n1") };
        let on = |kind| device_refusal(&stable, &NVME, &kernel("7.2.13"), Role::Target, Some(kind));
        assert!(on("xfs").is_some_and(|found| found.reason.contains("stable writes")));
        assert_eq!(on("ext4"), None);
    }

    #[test]
    fn multipath_heads_are_refused_before_7_2_only() {
        let head = BlockDevice { is_multipath_head: true, ..drive("nvme0n1") };
        let refusal = |file_system| {
            let refused =
                device_refusal(&head, &NVME, &kernel("6.18.15"), Role::Target, file_system);
            let Obstacle { reason, way_out } = refused.expect("a reason");
            format!("{reason}: {}", way_out.expect("a way out"))
        };
        for words in ["multipath head", "6.18.15", "nvme_core.multipath=N", "/dev/ng0n1"] {
            assert!(refusal(None).contains(words), "{words}: {}", refusal(None));
        }
        assert!(!refusal(Some("ext4")).contains("/dev/ng"), "a file has no passthrough node");
        assert_eq!(passthrough_refusal(&head), None);
        assert_eq!(refused(&head, &NVME, "7.2.13", Role::Target), None);
    }

    #[test]
    fn cpu_protection_information_is_refused() {
        let with = |write_generate, read_verify| {
            let integrity = Some(Integrity { write_generate, read_verify });
            BlockDevice { integrity, ..drive("nvme0n1") }
        };
        let off = |device: &BlockDevice, role| {
            let found = device_refusal(device, &NVME, &kernel("7.2.13"), role, None);
            found.map(|found| found.way_out.expect("a way out"))
        };
        let (write, read) = ("write_generate", "read_verify");
        let echo = |file| format!("echo 0 > /sys/block/nvme0n1/integrity/{file}");
        assert_eq!(off(&with(true, false), Role::Source), None, "a source is not written");
        assert_eq!(off(&with(true, false), Role::Target), Some(echo(write)));
        assert_eq!(off(&with(false, true), Role::Source), Some(echo(read)));
        assert_eq!(
            off(&with(false, true), Role::Target),
            Some(echo(read)),
            "a target is read, too"
        );
        let both = format!("{}; {}", echo(write), echo(read));
        assert_eq!(off(&with(true, true), Role::Target), Some(both));
        assert_eq!(off(&with(false, false), Role::Target), None);
    }
}
