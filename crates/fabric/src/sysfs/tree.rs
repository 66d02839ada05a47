//! Reading single files below a root, and nothing outside it.
//!
//! Symbolic links are never followed: attributes and directories of sysfs are real ones, and a link
//! is read for where it points. A link in a captured tree can therefore lead nowhere else.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::snapshot::{Snapshot, TreeEntry};

/// No attribute of sysfs is larger; kernel configurations have about 300 KiB.
const LONGEST_FILE: u64 = 4 << 20;

/// A tree that stands for `/`: a directory, or the content of an archive.
#[derive(Debug)]
pub(crate) struct Tree {
    source: Source,
    /// Entries read so far; `None` unless they are watched.
    seen: Option<RefCell<BTreeMap<PathBuf, TreeEntry>>>,
    /// Set when files are left alone that the kernel answers by a command to a drive.
    leaves_drives_alone: bool,
}

#[derive(Debug)]
enum Source {
    /// A directory, and the last folder below it that was found to have no link above it.
    Directory { root: PathBuf, real: RefCell<PathBuf> },
    /// The content of an archive, and its name for messages.
    Snapshot { name: PathBuf, content: Snapshot },
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        let source = Source::Directory { root: root.to_owned(), real: RefCell::default() };
        Self { source, seen: None, leaves_drives_alone: false }
    }

    pub(crate) fn of_snapshot(name: &Path, content: Snapshot) -> Self {
        let source = Source::Snapshot { name: name.to_owned(), content };
        Self { source, seen: None, leaves_drives_alone: false }
    }

    /// Reads nothing from now on that the kernel answers by a command to a drive.
    pub(crate) fn leave_drives_alone(&mut self) {
        self.leaves_drives_alone = true;
    }

    /// Returns whether files are left alone that the kernel answers by a command to a drive.
    pub(crate) fn leaves_drives_alone(&self) -> bool {
        self.leaves_drives_alone
    }

    /// Keeps all entries that are read from now on.
    pub(crate) fn watch(&mut self) {
        self.seen = Some(RefCell::default());
    }

    /// Entries read since [`Tree::watch`], by path.
    pub(crate) fn seen(&self) -> BTreeMap<PathBuf, TreeEntry> {
        self.seen.as_ref().map(RefCell::take).unwrap_or_default()
    }

    fn saw(&self, path: &Path, entry: impl FnOnce() -> TreeEntry) {
        if let Some(seen) = &self.seen {
            seen.borrow_mut().entry(path.to_owned()).or_insert_with(entry);
        }
    }

    /// Keeps that a folder is there, which is all that is known of it.
    pub(crate) fn watch_folder(&self, path: &Path) {
        self.saw(path, || TreeEntry::Folder(BTreeMap::new()));
    }

    /// The full path of one below the root, for messages.
    pub(crate) fn full(&self, path: &Path) -> PathBuf {
        match &self.source {
            Source::Directory { root, .. } => root.join(path),
            Source::Snapshot { name, .. } => name.join(path),
        }
    }

    /// The first bytes of a file, at most 4 MiB.
    pub(crate) fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (bytes, mode) = match &self.source {
            Source::Directory { .. } => {
                let (full, found) = self.found(path)?;
                // Opening a pipe or a device could wait for ever, or do something.
                if !found.is_file() {
                    return Err(is_no("a regular file"));
                }
                // Most attributes have a few bytes, and a page takes them in one read.
                let mut bytes = Vec::with_capacity(4096);
                fs::File::open(full)?.take(LONGEST_FILE).read_to_end(&mut bytes)?;
                (bytes, permission_bits(&found))
            }
            Source::Snapshot { content, .. } => match content.get(path) {
                Some(TreeEntry::File { bytes, mode }) => (bytes.clone(), *mode),
                found => return Err(found.map_or(absent(), |_| is_no("a regular file"))),
            },
        };
        if let Some(seen) = &self.seen {
            // Over what may be there of the permissions alone.
            let entry = TreeEntry::File { bytes: bytes.clone(), mode };
            seen.borrow_mut().insert(path.to_owned(), entry);
        }
        Ok(bytes)
    }

    /// The permission bits of a file that is not read.
    pub(crate) fn mode(&self, path: &Path) -> Option<u32> {
        let mode = match &self.source {
            Source::Directory { .. } => {
                let (_, found) = self.found(path).ok()?;
                found.is_file().then(|| permission_bits(&found))?
            }
            Source::Snapshot { content, .. } => match content.get(path)? {
                TreeEntry::File { mode, .. } => mode & 0o777,
                TreeEntry::Link(_) | TreeEntry::Folder(_) => return None,
            },
        };
        self.saw(path, || TreeEntry::File { bytes: Vec::new(), mode });
        Some(mode)
    }

    /// The text of a file; see [`plain_text`].
    pub(crate) fn text(&self, path: &Path) -> io::Result<String> {
        Ok(plain_text(&self.bytes(path)?).into_owned())
    }

    /// A decimal number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: &Path) -> Option<T> {
        self.text(path).ok()?.parse().ok()
    }

    /// A hexadecimal number written as sysfs does, `0x8086`.
    pub(crate) fn hex(&self, path: &Path) -> Option<u32> {
        u32::from_str_radix(self.text(path).ok()?.strip_prefix("0x")?, 16).ok()
    }

    /// A text that is not empty.
    pub(crate) fn word(&self, path: &Path) -> Option<String> {
        self.text(path).ok().filter(|text| !text.is_empty())
    }

    /// The value of a switch: `1`, `0`, `Y`, `N`.
    pub(crate) fn flag(&self, path: &Path) -> Option<bool> {
        match self.text(path).ok()?.as_str() {
            "1" | "Y" | "y" => Some(true),
            "0" | "N" | "n" => Some(false),
            _ => None,
        }
    }

    /// Returns whether a switch is there and on.
    pub(crate) fn is_set(&self, path: &Path) -> bool {
        self.flag(path) == Some(true)
    }

    /// Names in a directory, sorted; those that are not UTF-8 are left out.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        match &self.source {
            Source::Directory { .. } => {
                for entry in fs::read_dir(self.without_links(path)?)? {
                    names.extend(entry?.file_name().into_string().ok());
                }
                names.sort();
            }
            Source::Snapshot { content, .. } => match content.get(path) {
                Some(TreeEntry::Folder(entries)) => names.extend(entries.keys().cloned()),
                found => return Err(found.map_or(absent(), |_| is_no("a directory"))),
            },
        }
        self.saw(path, || TreeEntry::Folder(BTreeMap::new()));
        Ok(names)
    }

    /// Names of real directories in a directory, sorted; none when it cannot be read.
    pub(crate) fn directories(&self, path: &Path) -> Vec<String> {
        let folders: Option<Vec<String>> = match &self.source {
            // The kernel tells kinds with names, which spares a look at each.
            Source::Directory { .. } => self
                .without_links(path)
                .and_then(fs::read_dir)
                .map(|entries| {
                    let mut names: Vec<String> = entries
                        .flatten()
                        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                        .filter_map(|entry| entry.file_name().into_string().ok())
                        .collect();
                    names.sort();
                    names
                })
                .ok(),
            Source::Snapshot { content, .. } => match content.get(path) {
                Some(TreeEntry::Folder(entries)) => Some(
                    entries
                        .iter()
                        .filter(|(_, entry)| matches!(entry, TreeEntry::Folder(_)))
                        .map(|(name, _)| name.clone())
                        .collect(),
                ),
                _ => None,
            },
        };
        let Some(folders) = folders else { return Vec::new() };
        self.saw(path, || TreeEntry::Folder(BTreeMap::new()));
        folders
    }

    /// Returns whether a real directory is there.
    pub(crate) fn is_directory(&self, path: &Path) -> bool {
        match &self.source {
            Source::Directory { .. } => self.found(path).is_ok_and(|(_, found)| found.is_dir()),
            Source::Snapshot { content, .. } => {
                matches!(content.get(path), Some(TreeEntry::Folder(_)))
            }
        }
    }

    /// Returns whether a real file is there.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        self.mode(path).is_some()
    }

    /// Returns whether a file, or a link to anything, is there; it is not opened.
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let is_there = match &self.source {
            Source::Directory { .. } => self
                .without_links(folder)
                .and_then(|folder| fs::symlink_metadata(folder.join(name)))
                .is_ok_and(|found| !found.is_dir()),
            Source::Snapshot { content, .. } => {
                matches!(content.get(path), Some(TreeEntry::File { .. } | TreeEntry::Link(_)))
            }
        };
        if is_there {
            self.saw(path, || TreeEntry::File { bytes: Vec::new(), mode: 0o444 });
        }
        is_there
    }

    /// The target of a link, below the root; `None` when that is outside of it.
    pub(crate) fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let target = self.target(path)?;
        Ok(below(path.parent().unwrap_or(Path::new("")), &target))
    }

    /// The text of a link.
    pub(crate) fn target(&self, path: &Path) -> io::Result<PathBuf> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let target = match &self.source {
            Source::Directory { .. } => {
                let name = path.file_name().unwrap_or_default();
                fs::read_link(self.without_links(directory)?.join(name))?
            }
            Source::Snapshot { content, .. } => match content.get(path) {
                Some(TreeEntry::Link(target)) => target.clone(),
                found => return Err(found.map_or(absent(), |_| is_no("a symbolic link"))),
            },
        };
        self.saw(path, || TreeEntry::Link(target.clone()));
        Ok(target)
    }

    /// The last component of a link's target, inside the root or not: the name of a driver or of a
    /// group.
    pub(crate) fn link_name(&self, path: &Path) -> Option<String> {
        self.target(path).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    /// The folder of the reading process in `/proc`: `self` links to it, and is a folder in a
    /// captured tree.
    pub(crate) fn own_process(&self) -> PathBuf {
        let of_its_own = match &self.source {
            Source::Directory { root, .. } => fs::read_link(root.join("proc/self")).ok(),
            Source::Snapshot { .. } => None,
        };
        let is_number = |name: &&str| name.bytes().all(|b| b.is_ascii_digit());
        let number = of_its_own.as_deref().and_then(Path::to_str).filter(is_number);
        Path::new("proc").join(number.unwrap_or("self"))
    }

    /// The full path, or an error when a component of it is a link or leads upwards.
    fn without_links(&self, path: &Path) -> io::Result<PathBuf> {
        self.found(path).map(|(full, _)| full)
    }

    /// Keeps a folder that is not a link and has none above it.
    fn remember(&self, folder: Option<&Path>) {
        let (Source::Directory { real, .. }, Some(folder)) = (&self.source, folder) else { return };
        if *real.borrow() != folder {
            folder.clone_into(&mut real.borrow_mut());
        }
    }

    /// The full path and its metadata; an error when a component is a link or leads upwards.
    fn found(&self, path: &Path) -> io::Result<(PathBuf, fs::Metadata)> {
        let Source::Directory { root, real } = &self.source else { return Err(absent()) };
        let mut full = root.clone();
        // Attributes of one function come in a row, and the way to them need be looked at once.
        let known = real.borrow().clone();
        let mut known = known.components();
        let mut is_known = true;
        let mut found = None;
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            let Component::Normal(name) = component else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            full.push(name);
            let is_last = rest.as_path().as_os_str().is_empty();
            is_known &= known.next() == Some(component);
            if is_known && !is_last {
                continue;
            }
            if is_last {
                self.remember(path.parent());
            }
            let here = fs::symlink_metadata(&full)?;
            if here.is_symlink() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link"));
            }
            found = Some(here);
        }
        let found = found.map_or_else(|| fs::symlink_metadata(&full), Ok)?;
        Ok((full, found))
    }
}

/// Returns the text of a file up to its first zero, without surrounding white space.
///
/// No text of sysfs or proc holds a zero. Tools that trust the size that sysfs states, 4096 for every
/// text, keep zeros behind it. Bytes that are not UTF-8 are replaced.
pub(crate) fn plain_text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match String::from_utf8_lossy(&bytes[..end]) {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

#[cfg(unix)]
fn permission_bits(found: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;

    found.permissions().mode() & 0o777
}

/// Permission bits where the system has none: those that the read-only flag stands for.
#[cfg(not(unix))]
fn permission_bits(found: &fs::Metadata) -> u32 {
    if found.permissions().readonly() { 0o444 } else { 0o644 }
}

fn absent() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn is_no(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("is not {what}"))
}

/// Resolves a relative link in `directory` by its text alone.
fn below(directory: &Path, target: &Path) -> Option<PathBuf> {
    let mut result = directory.to_owned();
    for component in target.components() {
        match component {
            Component::ParentDir if result.pop() => {}
            Component::Normal(name) => result.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn link_out_of_root_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("dir")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("file")).unwrap();
        let tree = Tree::new(inside.path());
        for path in ["dir/secret", "file", "../secret"] {
            assert!(tree.bytes(Path::new(path)).is_err(), "{path}");
        }
        assert!(tree.bytes(Path::new("")).is_err(), "a directory is not a file");
        assert!(tree.names(Path::new("dir")).is_err());
        assert!(!tree.is_directory(Path::new("dir")));
        assert_eq!(tree.link(Path::new("dir")).unwrap(), None);
    }

    #[test]
    fn upward_link_resolves_by_text() {
        let at = |target: &str| below(Path::new("sys/dev/block"), Path::new(target));
        assert_eq!(at("../../devices/x"), Some("sys/devices/x".into()));
        assert_eq!(at("../../../../etc"), None);
        assert_eq!(at("/etc"), None);
    }
}
