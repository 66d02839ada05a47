//! Finding the emulated drives: kernel numbers change from boot to boot, serial numbers do not.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ports::Changes;
use crate::protocol::{DRIVES_DIR, ExpectedDrive, Message};

/// A drive as the guest's kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestDrive {
    pub(super) name: String,
    address: String,
    /// Block device, `nvme0n1`.
    block: Option<String>,
    translated: bool,
}

impl GuestDrive {
    pub(super) fn into_message(self) -> Message {
        Message::Controller { name: self.name, address: self.address, translated: self.translated }
    }
}

/// Waits until every expected drive is there and can be opened.
pub(super) fn wait_for(
    expected: &[ExpectedDrive],
    deadline: Instant,
) -> io::Result<Vec<GuestDrive>> {
    let mut changes = Changes::of_devices()?;
    loop {
        let found: Vec<_> = expected.iter().map(|drive| find(drive, Path::new("/sys"))).collect();
        if let Some(found) = found.iter().cloned().collect::<Option<Vec<_>>>() {
            for drive in found.iter().filter_map(|drive| drive.block.as_ref()) {
                // Opening waits for the kernel's partition scan, whose reads belong to no command.
                File::open(Path::new("/dev").join(drive))?;
            }
            return Ok(found);
        }
        if !changes.wait(deadline)? {
            let missing: Vec<_> = expected
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_none())
                .map(|(drive, _)| drive.name.as_str())
                .collect();
            let text = format!("drives did not appear: {}", missing.join(", "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    }
}

/// Makes `/dev/lab/NAME`.
pub(super) fn link(drive: &GuestDrive) -> io::Result<()> {
    fs::create_dir_all(DRIVES_DIR)?;
    match &drive.block {
        Some(block) => std::os::unix::fs::symlink(
            Path::new("/dev").join(block),
            Path::new(DRIVES_DIR).join(&drive.name),
        ),
        None => Ok(()),
    }
}

/// The drive below `sys`, once all of it is there.
fn find(drive: &ExpectedDrive, sys: &Path) -> Option<GuestDrive> {
    let has_serial = |folder: &Path| {
        fs::read_to_string(folder.join("serial")).is_ok_and(|text| text.trim() == drive.name)
    };
    let controller = entries(&sys.join("class/nvme")).into_iter().find(|path| has_serial(path))?;
    // A controller is usable once the driver says so; until then namespaces may still come.
    let state = fs::read_to_string(controller.join("state")).ok()?;
    if state.trim() != "live" {
        return None;
    }
    let device = controller.join("device").canonicalize().ok()?;
    let block = entries(&sys.join("block"))
        .into_iter()
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // `nvme0c0n1` is a path below a multipath head, without a device file.
            name.starts_with("nvme") && !name[4..].contains('c') && has_serial(&path.join("device"))
        })
        .and_then(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| Path::new("/dev").join(name).exists());
    if drive.namespace && block.is_none() {
        return None;
    }
    let translated = fs::read_to_string(device.join("iommu_group/type"))
        .is_ok_and(|kind| kind.trim().starts_with("DMA"));
    Some(GuestDrive {
        name: drive.name.clone(),
        address: device.file_name()?.to_str()?.to_owned(),
        block,
        translated,
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}
