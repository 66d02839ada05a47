//! Packet settings of a function, out of its configuration space.
//!
//! Leaves out the settings that it could have, and those of ports on the way: the kernel gives both
//! ends of a path one payload size. Only root reads beyond the first 64 bytes, where these
//! registers lie.

use std::path::{Path, PathBuf};

use peerlane_units::Bytes;

use super::config_space::{ConfigSpace, DeviceControl, NoControl};
use super::tree::Tree;
use crate::Bdf;

/// Packet settings of a function (PCIe 6.0 7.5.3.4 and 7.5.3.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSettings {
    /// Largest payload of a packet that it sends.
    pub payload: Bytes,
    /// Most that one read request asks for.
    pub request: Bytes,
    /// Read requests that it may have under way.
    pub tags: u32,
}

/// The reason why the packet settings of a function are unknown.
#[derive(Debug, thiserror::Error)]
pub enum NoPackets {
    /// Its configuration space cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The bytes end before the registers.
    #[error("{path} shows {length} bytes, which end before these registers: root sees all")]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Bytes that were read.
        length: usize,
    },
    /// It has no such registers.
    #[error("{path} has no registers of PCIe")]
    NotPcie {
        /// The file.
        path: PathBuf,
    },
    /// A value that the specification reserves.
    #[error("{path} has a reserved size of packets, as a device that does not answer")]
    Reserved {
        /// The file.
        path: PathBuf,
    },
}

impl PacketSettings {
    /// Reads the packet settings of the function at `address` below `root`.
    ///
    /// # Errors
    /// When its configuration space cannot be read as far as that, or has no such registers.
    pub fn read(root: &Path, address: Bdf) -> Result<Self, NoPackets> {
        let tree = Tree::new(root);
        let link = Path::new("sys/bus/pci/devices").join(address.to_string());
        let failed = |at: &Path, source| NoPackets::Read { path: tree.full(at), source };
        let folder = tree.link(&link).map_err(|source| failed(&link, source))?;
        let at = folder.unwrap_or(link).join("config");
        let bytes = tree.bytes(&at).map_err(|source| failed(&at, source))?;
        let path = tree.full(&at);
        match ConfigSpace(&bytes).control() {
            Ok(control) => Self::from_control(control).ok_or(NoPackets::Reserved { path }),
            Err(NoControl::Unreadable) => Err(NoPackets::CutOff { path, length: bytes.len() }),
            Err(NoControl::NotPcie) => Err(NoPackets::NotPcie { path }),
        }
    }

    fn from_control(control: DeviceControl) -> Option<Self> {
        // 128 bytes, doubled up to five times; six and seven are reserved.
        let size = |code: u16| (code < 6).then(|| Bytes(128 << code));
        let has = |register: u16, bit: u16| register >> bit & 1 == 1;
        let tags = if has(control.second, 12) {
            768
        } else if has(control.first, 8) {
            256
        } else {
            32
        };
        Some(Self {
            payload: size(control.first >> 5 & 7)?,
            request: size(control.first >> 12 & 7)?,
            tags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with one function, whose registers of PCIe are at 0x40.
    fn planted(first: u16, second: u16, length: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("sys/devices/pci0000:00/0000:00:03.0");
        std::fs::create_dir_all(&folder).expect("room");
        let devices = root.path().join("sys/bus/pci/devices");
        std::fs::create_dir_all(&devices).expect("room");
        let target = "../../../devices/pci0000:00/0000:00:03.0";
        std::os::unix::fs::symlink(target, devices.join("0000:00:03.0")).expect("room");
        let mut bytes = vec![0; 256];
        bytes[0x06] = 0x10;
        bytes[0x34] = 0x40;
        bytes[0x40..0x44].copy_from_slice(&[0x10, 0, 2, 0]);
        bytes[0x48..0x4a].copy_from_slice(&first.to_le_bytes());
        bytes[0x68..0x6a].copy_from_slice(&second.to_le_bytes());
        std::fs::write(folder.join("config"), &bytes[..length]).expect("room");
        root
    }

    fn read(root: &tempfile::TempDir) -> Result<PacketSettings, NoPackets> {
        PacketSettings::read(root.path(), "0000:00:03.0".parse().expect("an address"))
    }

    #[test]
    fn sizes_and_tags_follow_control_registers() {
        for (first, second, payload, request, tags) in [
            (0x2910, 0, 128, 512, 256),
            (0x2830, 0, 256, 512, 32),
            (0x5850, 0x1000, 512, 4096, 768),
        ] {
            let found = read(&planted(first, second, 256)).expect("it is there");
            let expected =
                PacketSettings { payload: Bytes(payload), request: Bytes(request), tags };
            assert_eq!(found, expected, "{first:x}");
        }
    }

    #[test]
    fn unreadable_registers_give_a_reason() {
        let said = |root| read(&root).expect_err("a reason").to_string();
        assert!(said(planted(0x2910, 0, 64)).contains("shows 64 bytes"));
        assert!(said(planted(0xffff, 0, 256)).contains("reserved"));
        let root = planted(0x2910, 0, 256);
        let config = root.path().join("sys/devices/pci0000:00/0000:00:03.0/config");
        std::fs::write(&config, vec![0; 256]).expect("room");
        assert!(said(root).ends_with("has no registers of PCIe"));
        let root = planted(0x2910, 0, 256);
        std::fs::remove_file(root.path().join("sys/bus/pci/devices/0000:00:03.0")).expect("it");
        assert!(said(root).contains("cannot read"));
    }
}
