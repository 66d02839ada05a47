//! The folder of an archive that stands for `/`.

use std::path::{Path, PathBuf};

use super::ArchiveError;
use crate::{Snapshot, TreeEntry};

/// Folders above `sys` in archives of other tools, such as `host-2024/fsroot`.
pub(crate) const MOST_FOLDERS_ON_TOP: usize = 8;

/// Most folders of one depth that are looked at.
const MOST_FOLDERS: usize = 10_000;

/// The tree below the one folder that has `sys/devices`.
pub(super) fn of_machine(content: Snapshot) -> Result<Snapshot, ArchiveError> {
    let children = |folder: &Path| match content.get(folder) {
        Some(TreeEntry::Folder(entries)) => entries
            .iter()
            .filter(|(_, entry)| matches!(entry, TreeEntry::Folder(_)))
            .map(|(name, _)| folder.join(name))
            .collect(),
        _ => Vec::new(),
    };
    let has_devices = |folder: &Path| {
        matches!(content.get(&folder.join("sys/devices")), Some(TreeEntry::Folder(_)))
    };
    let mut found = folders_with_devices(children, has_devices, MOST_FOLDERS_ON_TOP);
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(ArchiveError::NoMachine),
        (Some(only), true) => Ok(content.below(&only)),
        (Some(last), false) => {
            found.push(last);
            Err(ArchiveError::SeveralMachines(found))
        }
    }
}

/// The highest folders that have `sys/devices`, the top itself or at most `depth` below it.
pub(crate) fn folders_with_devices(
    children: impl Fn(&Path) -> Vec<PathBuf>,
    has_devices: impl Fn(&Path) -> bool,
    depth: usize,
) -> Vec<PathBuf> {
    let mut level = vec![PathBuf::new()];
    for _ in 0..=depth {
        let found: Vec<PathBuf> =
            level.iter().filter(|folder| has_devices(folder)).cloned().collect();
        if !found.is_empty() {
            return found;
        }
        level = level.iter().flat_map(|folder| children(folder)).take(MOST_FOLDERS).collect();
    }
    Vec::new()
}
