//! The folder of a simulated machine: real files in memory, and their state after a loss of power.
//!
//! A file that loses its name waits in a second folder with its inode, since a loss of power may take the removal back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::disk::Disk;
use crate::io::journal::{self, is_partial_of};
use crate::io::random::Random;

/// Name of a directory in the folder, for a journal away from its target.
pub(super) const ELSEWHERE: &str = "elsewhere";

/// Name of a target that is a file.
pub(super) const TARGET: &str = "target";

/// Journal, lock and target of a copy. Removed when dropped.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    pub(super) disk: Disk,
    /// The file whose content the simulated target has.
    pub(super) target: Option<u64>,
}

impl Folder {
    pub(super) fn make() -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = PathBuf::from(format!("/dev/shm/peerlane-{}-{number}", std::process::id()));
        fs::create_dir(&root)?;
        let folder = Self { root, disk: Disk::default(), target: None };
        fs::create_dir_all(folder.path(ELSEWHERE))?;
        fs::create_dir(folder.root.join("removed"))?;
        Ok(folder)
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.state_home().join("peerlane").join(name)
    }

    /// The directory with the journals of drives.
    pub(super) fn state_home(&self) -> &Path {
        &self.root
    }

    /// The file that has a name.
    pub(super) fn inode(&self, name: impl AsRef<Path>) -> Option<u64> {
        fs::symlink_metadata(self.path(name)).ok().map(|facts| facts.ino())
    }

    /// The path of a directory from the outer one.
    pub(super) fn directory(&self, directory: &File) -> io::Result<&'static Path> {
        let inner = fs::metadata(self.path(ELSEWHERE))?;
        Ok(Path::new(if directory.metadata()?.ino() == inner.ino() { ELSEWHERE } else { "" }))
    }

    /// Names of both directories; those of the inner one are paths.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for directory in ["", ELSEWHERE] {
            for entry in fs::read_dir(self.path(directory))? {
                names.push(Path::new(directory).join(entry?.file_name()).into_os_string());
            }
        }
        names.retain(|name| name != ELSEWHERE);
        Ok(names)
    }

    /// Sees to it that a file of the owner holds this text, or is not there, and was so for long.
    pub(super) fn put(&mut self, name: &OsStr, text: Option<&[u8]>) -> io::Result<()> {
        let path = self.path(name);
        let Some(text) = text else {
            if self.take(name).is_ok() {
                self.disk.removed(name);
                self.disk.synced_all_names();
            }
            return Ok(());
        };
        if fs::read(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        self.disk.put(name, fs::metadata(&path)?.ino(), text);
        Ok(())
    }

    /// Writes the content of a target that has its name into the real file: the next run may replace it.
    pub(super) fn settle(&mut self, text: &[u8]) -> io::Result<()> {
        fs::write(self.path(TARGET), text)?;
        if let Some(inode) = self.target {
            self.disk.set_text(inode, text);
        }
        Ok(())
    }

    /// True when the target has its name.
    pub(super) fn is_named(&self) -> bool {
        self.target.is_some() && self.inode(TARGET) == self.target
    }

    /// The unfinished file of the copy.
    pub(super) fn partial_name(&self) -> Option<OsString> {
        let target = self.path(TARGET);
        let is_its =
            |name: &OsString| self.inode(name) == self.target && is_partial_of(&target, name);
        self.names().ok()?.into_iter().find(is_its)
    }

    /// Puts another file in the place of one. Returns the inode of that one.
    pub(super) fn exchange(&self, name: &OsStr) -> io::Result<Option<u64>> {
        let (path, inode) = (self.path(name), self.inode(name));
        let length = fs::metadata(&path)?.len();
        self.take(name)?;
        File::create_new(path)?.set_len(length)?;
        Ok(inode)
    }

    /// Gives a name back to the file that had it.
    pub(super) fn put_back(&self, name: &OsStr, inode: Option<u64>) -> io::Result<()> {
        self.take(name)?;
        inode.map_or(Ok(()), |inode| fs::rename(self.removed(inode), self.path(name)))
    }

    /// Removes the unfinished files of a copy, as a person does.
    pub(super) fn remove_partial_files(&mut self) -> io::Result<()> {
        let target = self.path(TARGET);
        for name in self.names()?.into_iter().filter(|name| is_partial_of(&target, name)) {
            self.take(&name)?;
            self.disk.removed(&name);
        }
        self.disk.synced_all_names();
        Ok(())
    }

    /// Takes a name away; the file waits for the fate of the removal.
    pub(super) fn take(&self, name: &OsStr) -> Result<(), Errno> {
        let path = self.path(name);
        let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let facts = fs::symlink_metadata(&path).map_err(failed)?;
        let has_other_names = facts.nlink() > 1;
        if has_other_names {
            fs::remove_file(path)
        } else {
            fs::rename(path, self.removed(facts.ino()))
        }
        .map_err(failed)
    }

    fn removed(&self, inode: u64) -> PathBuf {
        self.root.join("removed").join(inode.to_string())
    }

    /// True when the lock of a journal is held.
    pub(super) fn is_locked(&self, journal: &OsStr) -> bool {
        let mut name = journal.to_owned();
        name.push(".lock");
        let lock = File::open(self.path(name));
        let taken = FlockOperation::NonBlockingLockExclusive;
        lock.is_ok_and(|lock| rustix::fs::flock(&lock, taken) == Err(Errno::WOULDBLOCK))
    }

    /// True when the file that a journal is about is there, under either name.
    pub(super) fn has_file_of(&self, journal: &journal::Journal) -> bool {
        let names = [journal.partial.as_deref(), Some(TARGET)];
        names.into_iter().flatten().any(|name| self.inode(name) == self.target)
    }

    /// Cuts the names and texts down to those that outlast a loss of power, and the target to so
    /// many bytes.
    pub(super) fn lose_power(&mut self, target: u64, random: &mut Random) -> io::Result<()> {
        for name in self.names()? {
            self.take(&name)?;
        }
        let mut placed: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (name, inode) in self.disk.lose_power(random).clone() {
            let path = self.path(name);
            match placed.get(&inode) {
                Some(other) => fs::hard_link(other, path)?,
                None => {
                    fs::rename(self.removed(inode), &path)?;
                    placed.insert(inode, path);
                }
            }
        }
        for (inode, path) in placed {
            match self.disk.text(inode) {
                // One that is as it was keeps its time of change.
                Some(text) if fs::read(&path)? != text => fs::write(path, text)?,
                Some(_) => {}
                None => File::options().write(true).open(path)?.set_len(target)?,
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
