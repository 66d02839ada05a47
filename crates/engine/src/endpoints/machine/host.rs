//! The machine that this program runs on.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use peerlane_memory::{MemoryError, Region};
use peerlane_results::MemoryFacts;
use peerlane_units::{Bytes, Nanos};
use rustix::fs::OFlags;

use super::{Machine, SmallFiles};
use crate::endpoints::open::{self, Opened};
use crate::endpoints::{Live, PathNode};
use crate::io::device_memory::{self, DeviceRefusal};
use crate::io::journal::{
    Identity, JournalError, device_name, identity_of_device, identity_of_file,
};
use crate::io::ring::{AnyRing, Uring, UringError};
use crate::io::system::System;

/// This machine.
pub(crate) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| Host::at(Path::new("/")));
    &HOST
}

/// A machine whose sysfs and procfs lie below one root.
#[derive(Debug)]
pub(crate) struct Host {
    system: System,
}

impl Host {
    /// A machine with sysfs and procfs below a folder.
    pub(crate) fn at(root: &Path) -> Self {
        Self { system: System::at(root) }
    }
}

impl SmallFiles for Host {}

impl Machine for Host {
    fn system(&self) -> &System {
        &self.system
    }

    fn ring(&self, entries: u32, has_nodes: bool) -> Result<AnyRing, UringError> {
        let ring = if has_nodes { Uring::for_passthrough(entries)? } else { Uring::new(entries)? };
        Ok(AnyRing::Kernel(Box::new(ring)))
    }

    fn host_memory(&self, length: Bytes) -> Result<Region, MemoryError> {
        peerlane_memory::host::allocate(length)
    }

    fn device_memory(
        &self,
        memory: &MemoryFacts,
        address: &str,
        length: Bytes,
    ) -> Result<Region, DeviceRefusal> {
        device_memory::allocate(memory, address, length)
    }

    fn open(&self, flags: OFlags, live: &Live, deadline: Nanos) -> io::Result<Opened> {
        open::open(flags, live, deadline)
    }

    /// A device is known by the number of the open descriptor, which is that device for as long as it is open.
    fn identify(&self, live: &Live, file: &File) -> Result<Identity, JournalError> {
        let root = self.system.root();
        if live.node != PathNode::Block {
            return Ok(Identity::File(identity_of_file(root, &live.path, file)?));
        }
        let number = file.metadata().map(|facts| facts.rdev()).map_err(|source| {
            JournalError::Io { action: "identify", path: live.path.clone(), source }
        })?;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let name = device_name(root, major, minor)
            .ok_or_else(|| JournalError::NoDevice { name: live.path.display().to_string() })?;
        Ok(Identity::Device(identity_of_device(root, &name)?))
    }

    fn is_drive_gone(&self, device: &str) -> bool {
        let folder = self.system.root().join("sys/class/block").join(device);
        let reads = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let state = reads("device/state");
        !folder.exists()
            || reads("size").trim() == "0"
            || state.contains("dele")
            || state.contains("dead")
    }

    fn nap(&self, time: Nanos) {
        thread::sleep(Duration::from_nanos(time.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_gone_by_directory_or_state() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        let folder = root.path().join("sys/class/block/nvme0n1");
        assert!(host.is_drive_gone("nvme0n1"));
        std::fs::create_dir_all(folder.join("device")).unwrap();
        for (size, state, gone) in [
            ("131072\n", "live\n", false),
            ("131072\n", "resetting\n", false),
            ("131072\n", "deleting (no IO)\n", true),
            ("131072\n", "dead\n", true),
            ("0\n", "live\n", true),
        ] {
            std::fs::write(folder.join("size"), size).unwrap();
            std::fs::write(folder.join("device/state"), state).unwrap();
            assert_eq!(host.is_drive_gone("nvme0n1"), gone, "{size:?} {state:?}");
        }
    }
}
