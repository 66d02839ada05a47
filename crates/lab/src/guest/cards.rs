//! Finding the cards: they have no serial numbers, so the way from the root bus tells which is which.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ports::Changes;
use crate::protocol::{DRIVES_DIR, ExpectedCard, Message};

/// Waits until the memory of every card is lent, names the cards, and says where they are.
pub(super) fn wait_for(expected: &[ExpectedCard], deadline: Instant) -> io::Result<Vec<Message>> {
    let mut changes = Changes::of_devices()?;
    let mut found = Vec::new();
    for card in expected {
        let folder = loop {
            if let Some(folder) = find(Path::new("/sys/devices"), &card.path) {
                if folder.join("p2pmem/allocate").exists() {
                    break folder;
                }
            }
            if !changes.wait(deadline)? {
                let text = format!("the memory of card {} did not appear", card.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        };
        found.push(name(card, &folder)?);
    }
    Ok(found)
}

/// Makes `/dev/lab/NAME`, which leads to the folder of the function.
fn name(card: &ExpectedCard, folder: &Path) -> io::Result<Message> {
    fs::create_dir_all(DRIVES_DIR)?;
    std::os::unix::fs::symlink(folder, Path::new(DRIVES_DIR).join(&card.name))?;
    let translated = fs::read_to_string(folder.join("iommu_group/type"))
        .is_ok_and(|kind| kind.trim().starts_with("DMA"));
    let address = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Message::Controller { name: card.name.clone(), address, translated })
}

/// The folder of a function: `00:02.0/01.0` is `pci0000:00/0000:00:02.0/0000:NN:01.0`.
fn find(devices: &Path, path: &str) -> Option<PathBuf> {
    let mut steps = path.split('/');
    let first = steps.next()?;
    let (bus, _) = first.split_once(':')?;
    let mut folder = devices.join(format!("pci0000:{bus}")).join(format!("0000:{first}"));
    for step in steps {
        let end = format!(":{step}");
        let entries = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        folder = entries
            .filter(|path| path.is_dir())
            .find(|path| path.to_string_lossy().ends_with(&end))?;
    }
    folder.is_dir().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_is_found_by_path() {
        let devices = tempfile::tempdir().expect("folder");
        let card = "pci0000:00/0000:00:02.0/0000:01:00.0/0000:02:02.0/0000:05:00.0";
        for folder in [card, "pci0000:00/0000:00:02.0/0000:01:00.0/0000:02:01.0/0000:04:00.0"] {
            fs::create_dir_all(devices.path().join(folder)).expect("folder");
        }
        let find = |path| find(devices.path(), path);
        assert_eq!(find("00:02.0/00.0/02.0/00.0"), Some(devices.path().join(card)));
        assert_eq!(find("00:02.0/00.0/03.0/00.0"), None);
        assert_eq!(find("40:02.0"), None);
    }
}
