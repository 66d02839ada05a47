//! The passthrough node of an NVMe namespace (`/dev/ng0n1`) as sysfs shows it, with its block device.
//!
//! Both are of one namespace and carry the same numbers: node and disk lie in one directory, that of
//! the controller or, for a multipath head, that of the subsystem (`nvme_add_ns_cdev` and
//! `nvme_add_ns_head_cdev` in drivers/nvme/host). Partitions have no node.

use std::path::Path;

use super::tree::Tree;
use super::{BlockDevice, DiscoverError};

/// A passthrough node.
#[derive(Debug, Clone, PartialEq)]
pub struct PassthroughNode {
    /// Kernel name, `ng0n1`.
    pub name: String,
    /// Namespace identifier.
    pub nsid: Option<u32>,
    /// Bytes of metadata with each block, from Linux 6.8 on.
    pub metadata: Option<u32>,
    /// The command set: 0 is that of blocks, NVM; from Linux 6.8 on.
    pub command_set: Option<u32>,
    /// Most bytes that the kernel asks one write-zeroes command for; zero where it asks for none.
    pub zeroes_max: u64,
    /// The block device of the same namespace.
    pub block: BlockDevice,
}

impl PassthroughNode {
    /// Reads the passthrough node with number `major`:`minor` below `root`; `None` for a character
    /// device that is something else.
    ///
    /// # Errors
    /// When its block device is not there or cannot be read.
    pub fn read(root: &Path, major: u32, minor: u32) -> Result<Option<Self>, DiscoverError> {
        let tree = Tree::new(root);
        let link = Path::new("sys/dev/char").join(format!("{major}:{minor}"));
        let Some(at) = tree.link(&link).ok().flatten() else { return Ok(None) };
        let Some(name) = at.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
        let (Some(disk_name), Some(folder)) = (block_name(name), at.parent()) else {
            return Ok(None);
        };
        let disk = folder.join(disk_name);
        let number = tree.word(&disk.join("dev"));
        let number = number.as_deref().and_then(|text| text.split_once(':'));
        let number =
            number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = number.ok_or_else(|| DiscoverError::NoSuchBlockDevice {
            root: root.to_owned(),
            major,
            minor,
        })?;
        Ok(Some(Self {
            name: name.to_owned(),
            nsid: tree.number(&disk.join("nsid")),
            metadata: tree.number(&disk.join("metadata_bytes")),
            command_set: tree.number(&disk.join("csi")),
            zeroes_max: tree.number(&disk.join("queue/write_zeroes_max_bytes")).unwrap_or(0),
            block: BlockDevice::read(root, major, minor)?,
        }))
    }
}

/// `nvme0n1` for `ng0n1`; `None` for a name that is not a passthrough node's.
pub fn block_name(node: &str) -> Option<String> {
    let (controller, namespace) = node.strip_prefix("ng")?.split_once('n')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(controller) && is_number(namespace)).then(|| format!("nvme{controller}n{namespace}"))
}

/// `ng0n1` for the whole disk `nvme0n1`; `None` for a partition and for other disks.
pub fn passthrough_name(disk: &str) -> Option<String> {
    let node = format!("ng{}", disk.strip_prefix("nvme")?);
    block_name(&node).map(|_| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_and_disk_share_numbers() {
        for (node, disk) in [("ng0n1", "nvme0n1"), ("ng12n3", "nvme12n3")] {
            assert_eq!(block_name(node).as_deref(), Some(disk));
            assert_eq!(passthrough_name(disk).as_deref(), Some(node));
        }
        for name in ["ng", "ng0", "ngn1", "ng0n", "ng0n1p1", "ng0c0n1", "nvme0n1", "ng+1n1"] {
            assert_eq!(block_name(name), None, "{name}");
        }
        for name in ["nvme0n1p1", "nvme0c0n1", "nvme0", "sda", "ng0n1"] {
            assert_eq!(passthrough_name(name), None, "{name}");
        }
    }
}
