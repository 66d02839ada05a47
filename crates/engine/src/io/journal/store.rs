//! Keeps one journal in one file, under a lock.
//!
//! Saving writes a new file, flushes it, renames it over the old one and flushes the directory. The
//! lock is a file of its own, since a rename would carry a lock on the journal away. All names are
//! taken relative to the directory that was opened at the start, so renaming it does no harm.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::paths::with_ending;
use super::{JOURNAL_BYTES_MAX, Journal, JournalError, decode, encode};
use crate::io::small_files::SmallFiles;

/// Tries to lock a file that another process may remove at its end.
const LOCK_ATTEMPTS: u32 = 16;

/// Most bytes of a lock: a line that names a process, and a file name of 255 bytes.
const LOCK_BYTES_MAX: usize = 512;

/// Endings that the names of its lock and of an unfinished journal add to that of a journal.
const LOCK_ENDING: &str = ".lock";
const NEW_ENDING: &str = ".new";

/// First bytes of a lock, and of a journal.
const LOCK_HEAD: &[u8] = b"peerlane ";
const JOURNAL_HEAD: &[u8] = b"{\"schema\":\"peerlane.journal/";

/// Only the owner reads and writes a journal: it decides which bytes are not written again.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// One journal's place, held by this process alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Store<'a> {
    machine: &'a dyn SmallFiles,
    path: PathBuf,
    name: OsString,
    directory: File,
    lock: File,
    left: Option<OsString>,
}

impl<'a> Store<'a> {
    /// Takes the place at `path`, making its directory when it is not there.
    ///
    /// # Errors
    /// [`JournalError::InUse`] while another copy holds it; [`JournalError::Io`] when the directory
    /// cannot be made or written; [`JournalError::Foreign`] when another file has the name of the
    /// lock or of an unfinished journal; it stays as it is.
    pub(crate) fn open(machine: &'a dyn SmallFiles, path: &Path) -> Result<Self, JournalError> {
        let name = path
            .file_name()
            .ok_or_else(|| JournalError::NoFileName { path: path.to_owned() })?
            .to_owned();
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        make_directory(parent)
            .map_err(|source| failed("make the directory of the journal", parent, source))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())
            .map(File::from)
            .map_err(|errno| failed("open the directory of the journal", parent, errno.into()))?;
        let (lock, left) = take_lock(machine, &directory, path, &with_ending(&name, LOCK_ENDING))?;
        let store = Self { machine, path: path.to_owned(), name, directory, lock, left };
        store.check_replaceable(&with_ending(&store.name, NEW_ENDING))?;
        Ok(store)
    }

    /// The names next to each other that a journal of this name takes: its own, of its lock, and while it is unfinished.
    pub(crate) fn names(name: &OsStr) -> [OsString; 3] {
        ["", LOCK_ENDING, NEW_ENDING].map(|ending| with_ending(name, ending))
    }

    /// Notes in the lock the name of a file that this copy makes: a copy that is killed, or loses power, before it has
    /// a journal leaves it behind.
    ///
    /// # Errors
    /// [`JournalError::Io`] when there is no room for it.
    pub(crate) fn note(&self, name: &OsStr) -> Result<(), JournalError> {
        write_lock(self.machine, &self.lock, Some(name))
            .and_then(|()| Ok(self.machine.sync(&self.lock)?))
            .map_err(|source| self.failed("note the unfinished file next to", source))
    }

    /// Returns the name that the last holder of this place noted, if it was killed. Any user who
    /// may write to the directory may have written it.
    pub(crate) fn left(&self) -> Option<&OsStr> {
        self.left.as_deref()
    }

    /// Returns the path of the journal.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the journal; `None` when there is none.
    ///
    /// # Errors
    /// See [`Store::read`].
    pub(crate) fn load(&self) -> Result<Option<Journal>, JournalError> {
        match open_journal(&self.directory, &self.name) {
            Ok(file) => read_journal(file, &self.path).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("open the journal", &self.path, errno.into())),
        }
    }

    /// Reads the journal at `path` without taking its place, to show it: a copy that runs may
    /// replace it at any time, so resuming needs [`Store::load`].
    ///
    /// # Errors
    /// [`JournalError::Foreign`] when the file is not a regular file, belongs to another user, or others
    /// may write it; [`JournalError::TooLarge`]; [`JournalError::Io`]; and the errors of
    /// [`decode`].
    pub(crate) fn read(path: &Path) -> Result<Journal, JournalError> {
        let file = open_journal(rustix::fs::CWD, path.as_os_str())
            .map_err(|errno| failed("open the journal", path, errno.into()))?;
        read_journal(file, path)
    }

    /// Writes the journal; when this returns it survives a loss of power. Called once with an empty
    /// [`Journal::done`] before the first byte moves, it shows that there is room and permission.
    ///
    /// The caller flushes the target before it saves.
    ///
    /// # Errors
    /// [`JournalError::Io`] with the step that failed. The journal on disk is then the old one or the
    /// new one, whole; [`JournalError::Foreign`] when something else has its name, which stays as it is; [`JournalError::Contradiction`] and [`JournalError::TooLong`] as [`encode`].
    pub(crate) fn save(&self, journal: &Journal) -> Result<(), JournalError> {
        let text = encode(journal)?;
        let new = with_ending(&self.name, NEW_ENDING);
        self.write_new(&new, &text)?;
        let placed = self.check_replaceable(&self.name).and_then(|()| {
            self.machine
                .rename(&self.directory, &new, &self.name)
                .map_err(|errno| self.failed("put the new journal in place", errno.into()))
        });
        if let Err(error) = placed {
            self.remove_new(&new);
            return Err(error);
        }
        self.flush_directory()
    }

    /// Writes the journal next to its place and takes it away again: shows room and permission before the
    /// first byte moves, and leaves the journal that is there, if any, as it was.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub(crate) fn probe(&self, journal: &Journal) -> Result<(), JournalError> {
        let text = encode(journal)?;
        let new = with_ending(&self.name, NEW_ENDING);
        self.write_new(&new, &text)?;
        self.remove_new(&new);
        Ok(())
    }

    /// Removes the journal, whose content no longer holds, and keeps its place.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn clear(&self) -> Result<(), JournalError> {
        self.check_replaceable(&self.name)?;
        match self.machine.remove(&self.directory, &self.name) {
            Ok(()) | Err(Errno::NOENT) => self.flush_directory(),
            Err(errno) => Err(self.failed("remove the journal", errno.into())),
        }
    }

    /// Removes the journal when the copy is complete, and gives its place up.
    ///
    /// # Errors
    /// [`JournalError::Io`] when the journal is there and cannot be removed; [`JournalError::Foreign`] when something
    /// else has its name.
    pub(crate) fn remove(self) -> Result<(), JournalError> {
        self.clear()
    }

    /// Checks that a file with the name of a journal or of an unfinished one may be replaced: it is
    /// the beginning of one, or is empty, e.g. after a loss of power.
    fn check_replaceable(&self, name: &OsStr) -> Result<(), JournalError> {
        let path = self.path.with_file_name(name);
        let foreign = |reason| JournalError::Foreign { path: path.clone(), reason };
        let fail = |source| failed("look at what has the name of the journal", &path, source);
        let file = match open_journal(&self.directory, name) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::LOOP) => return Err(foreign("it is a symbolic link")),
            Err(errno) => return Err(fail(errno.into())),
        };
        check_alone(&rustix::fs::fstat(&file).map_err(|errno| fail(errno.into()))?)
            .map_err(foreign)?;
        let mut head = Vec::new();
        file.take(JOURNAL_HEAD.len() as u64).read_to_end(&mut head).map_err(fail)?;
        let is_ours = JOURNAL_HEAD.starts_with(&head) || head.iter().all(|&byte| byte == 0);
        if is_ours { Ok(()) } else { Err(foreign("it is not a journal")) }
    }

    fn write_new(&self, new: &OsStr, text: &[u8]) -> Result<(), JournalError> {
        self.check_replaceable(new)?;
        // A leftover of a crash is removed and never written to.
        match self.machine.remove(&self.directory, new) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.failed("remove an unfinished journal", errno.into())),
        }
        let file = self
            .machine
            .create(&self.directory, new, OFlags::EXCL, PRIVATE_FILE)
            .map_err(|errno| self.failed("write the journal", errno.into()))?;
        let written = self
            .machine
            .write(&file, text)
            .map_err(|source| self.failed("write the journal", source))
            .and_then(|()| {
                let synced = self.machine.sync(&file);
                synced.map_err(|errno| self.failed("flush the journal", errno.into()))
            });
        if written.is_err() {
            self.remove_new(new);
        }
        written
    }

    /// Removes an unfinished journal that this store made: left behind it takes room that the next attempt needs, and
    /// is never read.
    fn remove_new(&self, new: &OsStr) {
        let _ = self.machine.remove(&self.directory, new);
    }

    /// Makes the names of lock and journal durable.
    ///
    /// # Errors
    /// [`JournalError::Io`] with the system's answer.
    pub(crate) fn flush_directory(&self) -> Result<(), JournalError> {
        self.machine
            .sync(&self.directory)
            .map_err(|errno| self.failed("flush the directory of the journal", errno.into()))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> JournalError {
        failed(action, &self.path, source)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        // Removed while it is held: a waiting process sees that the name is gone and begins anew.
        let lock = with_ending(&self.name, LOCK_ENDING);
        let held = rustix::fs::fstat(&self.lock);
        if held.is_ok_and(|held| is_named(&self.directory, &lock, &held)) {
            let _ = self.machine.remove(&self.directory, &lock);
        }
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Io { action, path: path.to_owned(), source }
}

/// Makes a directory and those above it, for the owner alone, each flushed into the one above.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_directory(parent)?;
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) => File::open(parent)?.sync_all(),
        Err(Errno::EXIST) if path.is_dir() => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The lock, and the note of its last holder in it.
fn take_lock(
    machine: &dyn SmallFiles,
    directory: &File,
    path: &Path,
    name: &OsStr,
) -> Result<(File, Option<OsString>), JournalError> {
    let path = path.with_file_name(name);
    let fail = |errno: Errno| failed("lock the journal", &path, errno.into());
    for _ in 0..LOCK_ATTEMPTS {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let lock = machine.create(directory, name, flags, PRIVATE_FILE).map_err(fail)?;
        let held = rustix::fs::fstat(&lock).map_err(fail)?;
        let foreign = |reason| JournalError::Foreign { path: path.clone(), reason };
        check_alone(&held).map_err(foreign)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let process = read_lock(&lock).and_then(|(process, _)| process);
                return Err(JournalError::InUse { path, process });
            }
            Err(errno) => return Err(fail(errno)),
        }
        // The one who held it may have removed the name between opening and locking.
        if is_named(directory, name, &held) {
            let (_, left) =
                read_lock(&lock).ok_or_else(|| foreign("it is not a lock of a journal"))?;
            // The note stays until this holder makes one: it may be killed, too.
            if let Err(source) = write_lock(machine, &lock, left.as_deref()) {
                if left.is_none() {
                    let _ = machine.remove(directory, name);
                }
                return Err(failed("lock the journal", &path, source));
            }
            return Ok((lock, left));
        }
    }
    Err(JournalError::InUse { path, process: None })
}

/// Tells whether `name` is a name of this very file.
fn is_named(directory: &File, name: &OsStr, file: &Stat) -> bool {
    let named = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    named.is_ok_and(|named| (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino))
}

/// Writes this process and a file name into a lock.
fn write_lock(machine: &dyn SmallFiles, lock: &File, name: Option<&OsStr>) -> io::Result<()> {
    let mut text = LOCK_HEAD.to_vec();
    text.extend(format!("{}\n", std::process::id()).as_bytes());
    text.extend(name.unwrap_or_default().as_bytes());
    machine.rewrite(lock, &text)
}

/// The process that a lock names in its first line, and the file name after it; `None` if the file
/// is not a lock. One that was only just made is empty; one whose content a loss of power took
/// holds zeros, or the beginning of a lock.
fn read_lock(lock: &File) -> Option<(Option<u32>, Option<OsString>)> {
    let mut bytes = Vec::new();
    lock.take(LOCK_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() > LOCK_BYTES_MAX {
        return None;
    }
    if bytes.iter().all(|&byte| byte == 0) || LOCK_HEAD.starts_with(&bytes) {
        return Some((None, None));
    }
    let text = bytes.strip_prefix(LOCK_HEAD)?;
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
        return text.iter().all(u8::is_ascii_digit).then_some((None, None));
    };
    let process = std::str::from_utf8(&text[..end]).ok().and_then(|text| text.parse().ok());
    let name = Some(&text[end + 1..]).filter(|name| !name.is_empty());
    Some((process, name.map(|name| OsStr::from_bytes(name).to_owned())))
}

fn open_journal(directory: impl std::os::fd::AsFd, name: &OsStr) -> Result<File, Errno> {
    // Without waiting: the name may be a pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}

fn read_journal(file: File, path: &Path) -> Result<Journal, JournalError> {
    let facts =
        rustix::fs::fstat(&file).map_err(|errno| failed("read the journal", path, errno.into()))?;
    check_ours(&facts).map_err(|reason| JournalError::Foreign { path: path.to_owned(), reason })?;
    let mut text = Vec::new();
    file.take(JOURNAL_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|source| failed("read the journal", path, source))?;
    if text.len() as u64 > JOURNAL_BYTES_MAX {
        return Err(JournalError::TooLarge { path: path.to_owned(), limit: JOURNAL_BYTES_MAX });
    }
    decode(&text)
}

/// The same of a file that is written or removed, which must have no other name.
fn check_alone(facts: &Stat) -> Result<(), &'static str> {
    check_ours(facts)?;
    if facts.st_nlink > 1 { Err("it has other names, too") } else { Ok(()) }
}

/// Checks that only this user and root can have written a file.
fn check_ours(facts: &Stat) -> Result<(), &'static str> {
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Err("it is not a regular file");
    }
    let user = rustix::process::geteuid();
    if facts.st_uid != user.as_raw() && facts.st_uid != 0 {
        return Err("it belongs to another user");
    }
    if Mode::from_raw_mode(facts.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err("others may write it");
    }
    Ok(())
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
