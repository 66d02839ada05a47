//! Reading single files below a root, and nothing outside it.
//!
//! Symbolic links are never followed: attributes and directories of sysfs are real ones, and a link
//! is read for where it points. A link in a captured tree can therefore lead nowhere else.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// No attribute of sysfs is larger; kernel configurations have about 300 KiB.
const LONGEST_FILE: u64 = 4 << 20;

/// A directory that stands for `/`.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where a path below the root is, for messages.
    pub(super) fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// The first bytes of a file, at most 4 MiB.
    pub(super) fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let full = self.without_links(path)?;
        // Opening a pipe or a device could wait for ever, or do something.
        if !fs::symlink_metadata(&full)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(full)?.take(LONGEST_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A text without surrounding white space; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, path: &Path) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned())
    }

    /// A decimal number.
    pub(super) fn number<T: std::str::FromStr>(&self, path: &Path) -> Option<T> {
        self.text(path).ok()?.parse().ok()
    }

    /// A hexadecimal number written as sysfs does, `0x8086`.
    pub(super) fn hex(&self, path: &Path) -> Option<u32> {
        u32::from_str_radix(self.text(path).ok()?.strip_prefix("0x")?, 16).ok()
    }

    /// A text that is not empty.
    pub(super) fn word(&self, path: &Path) -> Option<String> {
        self.text(path).ok().filter(|text| !text.is_empty())
    }

    /// Names in a directory, sorted; those that are not UTF-8 are left out.
    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.without_links(path)?)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    /// Names of real directories in a directory, sorted; none when it cannot be read.
    pub(super) fn directories(&self, path: &Path) -> Vec<String> {
        let mut names = self.names(path).unwrap_or_default();
        names.retain(|name| self.is_directory(&path.join(name)));
        names
    }

    /// Whether a real directory is there.
    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.without_links(path).and_then(fs::symlink_metadata).is_ok_and(|found| found.is_dir())
    }

    /// Whether a real file is there.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        self.without_links(path).and_then(fs::symlink_metadata).is_ok_and(|found| found.is_file())
    }

    /// Where a link points, below the root; `None` when that is outside of it.
    pub(super) fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let target = fs::read_link(
            self.without_links(directory)?.join(path.file_name().unwrap_or_default()),
        )?;
        Ok(below(directory, &target))
    }

    /// The last component of where a link points: the name of a driver or of a group.
    pub(super) fn link_name(&self, path: &Path) -> Option<String> {
        self.link(path).ok()??.file_name()?.to_str().map(str::to_owned)
    }

    /// The full path, or an error when a component of it is a link or leads upwards.
    fn without_links(&self, path: &Path) -> io::Result<PathBuf> {
        let mut full = self.root.clone();
        for component in path.components() {
            let Component::Normal(name) = component else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            full.push(name);
            if fs::symlink_metadata(&full)?.is_symlink() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link"));
            }
        }
        Ok(full)
    }
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
    fn a_link_out_of_the_root_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("dir")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("file")).unwrap();
        let tree = Tree::new(inside.path());
        for path in ["dir/secret", "file", "../secret"] {
            assert!(tree.bytes(Path::new(path)).is_err(), "{path}");
        }
        assert!(tree.bytes(Path::new("")).is_err(), "a directory is no file");
        assert!(tree.names(Path::new("dir")).is_err());
        assert!(!tree.is_directory(Path::new("dir")));
        assert_eq!(tree.link(Path::new("dir")).unwrap(), None);
    }

    #[test]
    fn a_link_upwards_is_resolved_by_its_text() {
        let at = |target: &str| below(Path::new("sys/dev/block"), Path::new(target));
        assert_eq!(at("../../devices/x"), Some("sys/devices/x".into()));
        assert_eq!(at("../../../../etc"), None);
        assert_eq!(at("/etc"), None);
    }
}
