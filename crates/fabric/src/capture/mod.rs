//! Captures: all that discovery reads of a machine but its identifiers, as a tree or an archive.
//!
//! A capture keeps the files that discovery reads, each in the form that the list [`ITEMS`] gives,
//! and nothing that is not on that list. Reading an archive trusts nothing in it: sizes are
//! bounded, links stay texts, and nothing is written anywhere.

mod device_names;
mod own_values;
mod scrub;
mod text;
mod words;

use std::path::Path;

#[cfg(unix)]
pub use crate::sysfs::archive::write_folder;
pub use crate::sysfs::archive::{ArchiveError, is_archive, pack, unpack, unpack_machine};
pub use text::{ScrubbedText, scrub_text};

pub use crate::sysfs::libraries::FOLDERS as LIBRARY_FOLDERS;
pub use crate::sysfs::list::{CaptureRule, ITEMS, Item};

use crate::sysfs::tree::Tree;
use crate::sysfs::{self, list};
use crate::{DiscoverError, Origin, Snapshot, TreeEntry};

/// The kept files of a machine, and the kinds of values replaced in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The files.
    pub content: Snapshot,
    /// Kinds of replaced values in words, with the number of each.
    pub replaced: Vec<(&'static str, usize)>,
}

/// Captures the files that discovery reads below `root`, without data that identify the machine.
///
/// # Errors
/// As [`crate::Fabric::discover`].
pub fn take(root: &Path) -> Result<Capture, DiscoverError> {
    let mut tree = sysfs::open(root)?;
    tree.watch();
    sysfs::from_tree(&tree, sysfs::origin(root))?;
    Ok(keep(&tree))
}

fn keep(tree: &Tree) -> Capture {
    let seen = tree.seen();
    let mut scrub = scrub::ScrubState::new(&seen);
    let mut content = Snapshot::default();
    for (path, entry) in &seen {
        let Some(item) = list::item_of(path) else { continue };
        if let Some((path, entry)) = scrub.entry(item, path, entry) {
            // What has no place was read twice under two names; the first is kept.
            let _ = content.insert(&path, entry);
        }
    }
    Capture { content, replaced: scrub.replaced() }
}

/// Captures the files that discovery reads of a tree in memory; `name` stands for its root in
/// messages.
///
/// # Errors
/// As [`crate::Fabric::discover_snapshot`].
pub fn take_snapshot(name: &Path, content: Snapshot) -> Result<Capture, DiscoverError> {
    let mut tree = Tree::of_snapshot(name, content);
    tree.watch();
    sysfs::from_tree(&tree, Origin::Tree(name.to_owned()))?;
    Ok(keep(&tree))
}

/// The items of the list that discovery reads below `root`.
///
/// # Errors
/// As [`take`].
#[doc(hidden)]
pub fn items_read(root: &Path) -> Result<Vec<&'static str>, DiscoverError> {
    let mut tree = sysfs::open(root)?;
    tree.watch();
    sysfs::from_tree(&tree, sysfs::origin(root))?;
    Ok(tree.seen().keys().filter_map(|path| Some(list::item_of(path)?.path)).collect())
}

/// Returns the release of a kernel as captures keep it.
pub fn kept_release(release: &str) -> String {
    words::release(release)
}

/// Returns the version of a kernel module as captures keep it.
pub fn kept_version(version: &str) -> String {
    words::version(version)
}

/// Returns whether captures keep a kernel parameter.
pub fn keeps_parameter(parameter: &str) -> bool {
    words::is_known(parameter)
}

/// Returns whether a serial number is one that captures write instead of the real one.
pub fn is_made_up_serial(serial: &str) -> bool {
    let number = serial.strip_prefix(scrub::SERIAL);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether an NQN is one that captures write instead of the real one.
pub fn is_made_up_subsystem(subsystem: &str) -> bool {
    let number = subsystem.strip_prefix(scrub::SUBSYSTEM);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Paths that discovery reads below `root` and that are not on the list; a test wants none.
///
/// # Errors
/// As [`take`].
#[doc(hidden)]
pub fn unlisted(root: &Path) -> Result<Vec<std::path::PathBuf>, DiscoverError> {
    let mut tree = sysfs::open(root)?;
    tree.watch();
    sysfs::from_tree(&tree, sysfs::origin(root))?;
    let is_unlisted = |(path, entry): &(std::path::PathBuf, TreeEntry)| {
        !matches!(entry, TreeEntry::Folder(_)) && list::item_of(path).is_none()
    };
    Ok(tree.seen().into_iter().filter(is_unlisted).map(|(path, _)| path).collect())
}
