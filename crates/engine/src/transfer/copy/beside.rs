//! A file that is made next to its final name and takes that name when it is complete.
//!
//! The directory may belong to another user, who can swap names under a copy that root runs. So the
//! directory is opened once, the file is used through the descriptor that made it, names are looked at
//! without following links, and a file that took its name is compared with the descriptor again. A
//! name that was free when the copy began is never taken from a file that appeared meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use peerlane_units::Bytes;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::CopyError;
use super::preserve::Preserved;
use crate::endpoints::machine::Machine;
use crate::endpoints::{Live, PathNode};
use crate::io::journal::partial_stem;
use crate::io::small_files::SmallFiles;

/// Names tried for the file.
const NAMES: u64 = 16;
/// Permissions of an unfinished file.
const OWNERS: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file next to its final name; removed when dropped, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Beside<'m> {
    machine: &'m dyn Machine,
    directory: File,
    /// For messages.
    folder: PathBuf,
    made: OsString,
    name: OsString,
    fate: Fate,
    /// It has its name, or is to stay for a copy that goes on.
    is_kept: bool,
    /// It has its final name.
    is_named: bool,
}

/// The permissions and owners that the file is going to have.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// A new file of these permissions.
    New { mode: u32 },
    /// Replaces a file of these permissions and owners, unchanged since it was looked at.
    Replaces { mode: u32, owner: (u32, u32), seen: Seen },
}

/// Identity of a file and its last change: device, inode, bytes, and when it was written.
type Seen = (u64, u64, i64, i64, u64);

impl<'m> Beside<'m> {
    /// Makes an empty file, for its owner only, next to the target's name; `seed` chooses its name.
    pub(super) fn make(
        machine: &'m dyn Machine,
        live: &Live,
        source: &File,
        seed: u64,
    ) -> io::Result<(Self, File)> {
        let mut beside = Self::new(machine, live, source)?;
        for number in 0..NAMES {
            beside.made = name_beside(&beside.name, seed.wrapping_add(number));
            match machine.create(&beside.directory, &beside.made, OFlags::EXCL, OWNERS) {
                Ok(file) => {
                    beside.is_kept = false;
                    return Ok((beside, file));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Opens the file `made` that an interrupted copy left; it stays when this one fails, too.
    pub(super) fn reopen(
        machine: &'m dyn Machine,
        live: &Live,
        source: &File,
        made: &OsStr,
    ) -> io::Result<(Self, File)> {
        let mut beside = Self::new(machine, live, source)?;
        made.clone_into(&mut beside.made);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&beside.directory, made, flags, Mode::empty())?);
        check_ours(&file)?;
        Ok((beside, file))
    }

    fn new(machine: &'m dyn Machine, live: &Live, source: &File) -> io::Result<Self> {
        let folder = live.path.parent().unwrap_or(Path::new("/")).to_owned();
        let name = live.path.file_name().unwrap_or(OsStr::new("")).to_owned();
        let directory = File::open(&folder)?;
        let fate = match live.node {
            PathNode::NewFile => Fate::New { mode: mode_of_new(&source.metadata()?) },
            _ => {
                let replaced = fs::symlink_metadata(&live.path)?;
                // Set-user-ID and its kin were given to the old content, not to the new one.
                let mode = replaced.permissions().mode() & 0o777;
                let seen = seen(&directory, &name)?;
                Fate::Replaces { mode, owner: (replaced.uid(), replaced.gid()), seen }
            }
        };
        let made = OsString::new();
        let (is_kept, is_named) = (true, false);
        Ok(Self { machine, directory, folder, made, name, fate, is_kept, is_named })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(&self.made)
    }

    /// The name that the file is going to have.
    pub(super) fn final_path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    pub(super) fn set_kept(&mut self, kept: bool) {
        self.is_kept = kept;
    }

    /// Cuts the file to its length, gives it its metadata, makes it durable and gives it its name. One
    /// that does not get it is its owner's alone again, as an unfinished file is.
    pub(super) fn finish(
        &mut self,
        file: &File,
        length: Bytes,
        preserved: &Preserved,
    ) -> Result<(), CopyError> {
        let finished = self.give_name(file, length, preserved);
        if finished.is_err() && !self.is_named {
            let (user, group) = (Some(geteuid()), Some(getegid()));
            if let Err(error) = fchown(file, user, group).and_then(|()| fchmod(file, OWNERS)) {
                tracing::warn!(path = %self.path().display(), %error, "cannot take back");
            }
        }
        finished
    }

    fn give_name(
        &mut self,
        file: &File,
        length: Bytes,
        preserved: &Preserved,
    ) -> Result<(), CopyError> {
        let name = self.final_path();
        let failed = |action| {
            let path = name.clone();
            move |source| CopyError::File { action, path, source }
        };
        self.machine.set_length(file, length.0).map_err(failed("set the length of"))?;
        let mode = self.hand_over(file).map_err(failed("look at"))?;
        preserved.finish(file, &name, mode)?;
        self.sync(file).map_err(failed("flush"))?;
        self.check(&self.made, file).map_err(failed("give its name to"))?;
        self.rename().map_err(failed("give its name to"))?;
        (self.is_kept, self.is_named) = (true, true);
        self.check(&self.name, file).map_err(failed("give its name to"))?;
        self.sync(&self.directory).map_err(failed("make durable"))
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        Ok(self.machine.sync(file)?)
    }

    /// Gives a file that replaces one its owners; returns the permissions that it is to have then.
    fn hand_over(&self, file: &File) -> io::Result<u32> {
        Ok(match self.fate {
            Fate::New { mode } => mode,
            Fate::Replaces { mode, owner: (user, group), .. } => {
                let now = file.metadata()?;
                let is_owned = (now.uid(), now.gid()) == (user, group)
                    || fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).is_ok();
                // Rights of another group are not for the group that the file has now.
                if is_owned { mode } else { mode & 0o700 }
            }
        })
    }

    fn rename(&self) -> io::Result<()> {
        let (directory, made, name) = (&self.directory, &self.made, &self.name);
        if let Fate::Replaces { seen: then, .. } = self.fate {
            match seen(directory, name) {
                Ok(now) if now == then => return Ok(self.machine.rename(directory, made, name)?),
                Ok(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::AlreadyExists,
                        "the file of that name was changed or replaced during the copy and is left alone",
                    ));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        match self.machine.rename_new(directory, made, name) {
            // Not every file system has it; a link is never made over an existing name either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.machine.link(directory, made, name)?;
                Ok(self.machine.remove(directory, made)?)
            }
            Err(Errno::EXIST) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file of that name appeared during the copy and is left alone",
            )),
            other => Ok(other?),
        }
    }

    /// True when its name still leads to the open file, before it is finished or after.
    pub(super) fn is_there(&self, file: &File) -> bool {
        self.check(if self.is_named { &self.name } else { &self.made }, file).is_ok()
    }

    /// Checks that `name` in the directory is the open file and nothing else.
    fn check(&self, name: &OsStr, file: &File) -> io::Result<()> {
        let found = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let ours = file.metadata()?;
        if (found.st_dev, found.st_ino) == (ours.dev(), ours.ino()) {
            return Ok(());
        }
        let name = name.to_string_lossy();
        Err(io::Error::other(format!("another process replaced {name}")))
    }
}

fn seen(directory: &File, name: &OsStr) -> Result<Seen, Errno> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino, found.st_size, found.st_mtime, found.st_mtime_nsec))
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = self.machine.remove(&self.directory, &self.made) {
            tracing::warn!(path = %self.path().display(), %error, "cannot remove an unfinished file");
        }
    }
}

/// The permissions of a new copy, as `cp` gives them: those of the source, file or device, less the
/// umask and without set-user-ID and its kin.
fn mode_of_new(source: &Metadata) -> u32 {
    source.permissions().mode() & 0o777 & !umask()
}

/// The umask, read without changing it, which other threads would see; 077 if it cannot be read.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    field.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o077)
}

/// The name that is tried first for the file next to `target`.
pub(super) fn first_name(target: &Path, seed: u64) -> OsString {
    name_beside(target.file_name().unwrap_or(OsStr::new("")), seed)
}

/// True when the unfinished file `made` has the name of `target`, too. The copy was then ended
/// between the two steps that give a name if a file system has no single one.
pub(super) fn has_both_names(target: &Path, made: &OsStr) -> bool {
    let inode = |path: &Path| fs::symlink_metadata(path).map(|facts| (facts.dev(), facts.ino()));
    matches!((inode(target), inode(&target.with_file_name(made))), (Ok(one), Ok(other)) if one == other)
}

/// Removes the unfinished file `made` next to `target`, if it is a file of this user, under no further name but that of
/// the target. A loss of power does not bring it back: no record of it would be left.
pub(super) fn remove_left(
    files: &(impl SmallFiles + ?Sized),
    target: &Path,
    made: &OsStr,
) -> io::Result<()> {
    let directory = File::open(target.parent().unwrap_or(Path::new("/")))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(&directory, made, flags, Mode::empty()) {
        Ok(_) if has_both_names(target, made) => {}
        Ok(file) => check_ours(&file.into())?,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    }
    files.remove(&directory, made)?;
    Ok(files.sync(&directory)?)
}

fn check_ours(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if found.is_file() && found.nlink() == 1 && found.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other("it is not a file of this user under one name"))
}

fn name_beside(name: &OsStr, seed: u64) -> OsString {
    let mut beside = partial_stem(name);
    beside.push(format!("{:08x}", seed & 0xffff_ffff));
    beside
}
