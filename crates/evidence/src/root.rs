//! Reading small files of the kernel below a root, and nothing outside it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longer than any file that is read here; a longer one does not come from the kernel.
const LONGEST: u64 = 1 << 20;
/// Entries of a folder that are looked at: more than there are threads on a large machine.
const MOST_ENTRIES: usize = 1 << 16;

/// The folder that holds `sys`, `proc` and `dev`.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

/// A file that could not be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read /{path}: {why}")]
pub struct Unread {
    /// The file, without the root.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl Unread {
    pub(super) fn new(path: &str, why: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl Root {
    /// The root at `path`; links that lead out of it are not followed.
    pub fn at(path: &Path) -> Self {
        Self(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// Returns whether this is the root of the running machine, whose counters may be opened.
    pub fn is_this_machine(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The text of a file, its ends trimmed; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When there is no such file below the root, it is longer than 1 MiB, or it may not be read.
    pub fn text(&self, path: &str) -> Result<String, Unread> {
        let full = self.inside(path)?;
        let mut bytes = Vec::new();
        let read = || -> io::Result<u64> {
            let file = fs::File::open(&full)?;
            // Opening a pipe or a device could wait for ever, or do something: excluded above.
            file.take(LONGEST + 1).read_to_end(&mut bytes).map(|count| count as u64)
        }();
        match read {
            Ok(count) if count > LONGEST => Err(Unread::new(path, "it is longer than 1 MiB")),
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) => Err(Unread::new(path, error)),
        }
    }

    /// The whole number in a file.
    ///
    /// # Errors
    /// As [`Root::text`], and when it holds something else.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Result<T, Unread> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Unread::new(path, format!("`{}` is not a number", short(&text))))
    }

    /// Names in a folder, sorted, at most 65,536 of them.
    ///
    /// # Errors
    /// When there is no such folder below the root, or it may not be read.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Unread> {
        let full = self.within(path)?;
        let entries = fs::read_dir(full).map_err(|error| Unread::new(path, error))?;
        let names = entries.take(MOST_ENTRIES).flatten();
        let mut names: Vec<String> =
            names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The kernel's name of the disk that a partition is part of, or of the disk itself.
    pub fn disk_of(&self, name: &str) -> String {
        let own = format!("sys/class/block/{name}");
        let is_partition = self.text(&format!("{own}/partition")).is_ok();
        let place = is_partition.then(|| self.within(&own).ok()).flatten();
        let disk = place.as_deref().and_then(|place| place.parent()?.file_name()?.to_str());
        disk.unwrap_or(name).to_owned()
    }

    /// The full path of a regular file below the root.
    fn inside(&self, path: &str) -> Result<PathBuf, Unread> {
        let full = self.within(path)?;
        let found = fs::metadata(&full).map_err(|error| Unread::new(path, error))?;
        if found.is_file() { Ok(full) } else { Err(Unread::new(path, "it is not a regular file")) }
    }

    /// The full path, its links followed, which ends below the root.
    pub(crate) fn within(&self, path: &str) -> Result<PathBuf, Unread> {
        let full = fs::canonicalize(self.0.join(path)).map_err(|error| Unread::new(path, error))?;
        if full.starts_with(&self.0) {
            Ok(full)
        } else {
            Err(Unread::new(path, "a link leads out"))
        }
    }
}

/// The beginning of a foreign text, for a message.
pub(super) fn short(text: &str) -> String {
    text.chars().take(80).map(|one| if one.is_control() { ' ' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_the_root_is_read() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "7").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path().join("secret"), inside.path().join("link")).unwrap();
        symlink(outside.path(), inside.path().join("folder")).unwrap();
        let root = Root::at(inside.path());
        for path in ["link", "folder/secret", "../secret", "/etc/hostname", "absent", ""] {
            assert!(root.text(path).is_err(), "{path}");
        }
        assert!(root.names("folder").is_err());
    }

    #[test]
    fn long_or_malformed_file_is_reason() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("long"), vec![b'1'; 2 << 20]).unwrap();
        fs::write(folder.path().join("word"), "high\n").unwrap();
        fs::write(folder.path().join("number"), " 12\n").unwrap();
        let root = Root::at(folder.path());
        assert!(root.text("long").unwrap_err().why.contains("1 MiB"));
        let refused = root.number::<u64>("word").unwrap_err().to_string();
        assert_eq!(refused, "cannot read /word: `high` is not a number");
        assert_eq!(root.number("number"), Ok(12));
    }

    #[test]
    fn links_inside_root_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("devices/nvme0n1")).unwrap();
        fs::write(folder.path().join("devices/nvme0n1/stat"), "1").unwrap();
        symlink("devices/nvme0n1", folder.path().join("block")).unwrap();
        assert_eq!(Root::at(folder.path()).number("block/stat"), Ok(1));
    }
}
