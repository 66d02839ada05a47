//! Changes of files on the simulated machine: each may be the last one, or fail.
//!
//! A file whose length is set is the target of the copy: its content is that of the simulated target, as a drive's is.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::folder::TARGET;
use super::machine::{Life, SimMachine, SimulatedDrive};
use super::world::index;
use crate::endpoints::machine::{self, SmallFiles};
use crate::io::journal;
use crate::io::ring::Action;
use crate::io::ring::sim::{Cache, SimFile};

fn inode(file: &File) -> u64 {
    file.metadata().map(|facts| facts.ino()).unwrap_or_default()
}

impl SimMachine {
    /// Counts a change of a small file; fails once the program has ended.
    fn change(&self) -> Result<(), Errno> {
        let state = &mut *self.state.borrow_mut();
        if state.life == Life::Runs {
            state.changes += 1;
            if let Some((_, life)) = state.cut_at_change.filter(|(at, _)| *at < state.changes) {
                state.life = life;
            }
        }
        let is_gone = self.file_system.is_some() && self.target_file().borrow().is_gone;
        if state.life == Life::Runs && !is_gone { Ok(()) } else { Err(Errno::IO) }
    }

    /// The same for one that only the holder of the lock may make.
    fn locked_change(&self, name: Option<&OsStr>, what: &str) -> Result<(), Errno> {
        self.change()?;
        let journal = name.map(|name| self.journal_of(name));
        if !journal.is_some_and(|journal| self.folder.borrow().is_locked(journal)) {
            self.note_untrue(format!("{what} without the lock of the journal"));
        }
        Ok(())
    }

    fn locked_change_of(&self, file: &File, what: &str) -> Result<(), Errno> {
        let name = self.folder.borrow().disk.name_of(inode(file));
        self.locked_change(name.as_deref(), what)
    }

    /// The path of a name from the outer directory.
    fn path(&self, directory: &File, name: &OsStr) -> Result<OsString, Errno> {
        let directory = self.folder.borrow().directory(directory).map_err(|_| Errno::IO)?;
        Ok(directory.join(name).into_os_string())
    }

    /// The journal whose lock stands for a name: every name of a target file is under its one.
    fn journal_of(&self, name: &OsStr) -> &OsStr {
        let is_its = |drive: &&SimulatedDrive| {
            let journal = drive.name.journal.as_encoded_bytes();
            name.as_encoded_bytes().starts_with(journal)
        };
        let targets = &self.drives[1..];
        &targets.iter().find(is_its).unwrap_or(&targets[0]).name.journal
    }

    /// The content of a target that is a file.
    fn target_file(&self) -> &RefCell<SimFile> {
        &self.drives[1].content
    }

    fn note_untrue(&self, what: String) {
        self.state.borrow_mut().note_untrue(what);
    }

    /// Takes room for a text.
    fn take_room(&self) -> Result<(), Errno> {
        let room = &mut self.state.borrow_mut().room;
        if *room == Some(0) {
            return Err(Errno::NOSPC);
        }
        *room = room.map(|room| room - 1);
        Ok(())
    }

    /// Checks that the claims of a journal about to be renamed survive a loss of power now.
    fn judge_journal(&self, from: &OsStr, to: &OsStr) {
        let folder = self.folder.borrow();
        let text = folder.inode(from).and_then(|inode| folder.disk.text(inode));
        let journal = text.and_then(|text| journal::decode(text).ok());
        let drive = self.drives[1..].iter().find(|drive| drive.name.journal == to);
        let (Some(journal), Some(drive)) = (journal, drive) else { return };
        let target = drive.content.borrow();
        let Some(cache) = target.cache.as_ref().filter(|_| !self.promise.is_excused) else {
            return;
        };
        for range in journal.done.iter() {
            let [start, end] = [range.start, range.end].map(index);
            let at = index(drive.offset);
            let wanted = self.promise.payload.get(start..end);
            if cache.stable().get(at + start..at + end) != wanted {
                self.note_untrue(format!(
                    "a journal is put in place that claims {range:?}, not flushed"
                ));
            }
        }
    }

    /// Checks that a file about to have its final name is complete, and survives a loss of power now.
    fn judge_target(&self, from: &OsStr, to: &OsStr) {
        if self.file_system.is_none() || to != TARGET {
            return;
        }
        let folder = self.folder.borrow();
        let (target, wanted) = (self.target_file().borrow(), &self.promise.payload);
        let stable = target.cache.as_ref().map(Cache::stable);
        if folder.inode(from) != folder.target || target.bytes != *wanted {
            self.note_untrue("a file takes its name, and is not what was wanted".to_owned());
        } else if stable != Some(wanted) {
            self.note_untrue("a file takes its name before it is flushed".to_owned());
        }
    }

    /// Gives a file the content of the target.
    fn as_target(&self, file: &File) {
        let folder = &mut *self.folder.borrow_mut();
        if folder.target != Some(inode(file)) {
            folder.target = Some(inode(file));
            folder.disk.forget_text(inode(file));
            let target = &mut *self.target_file().borrow_mut();
            target.bytes.clear();
            target.cache = Some(Cache::over(&[]));
        }
    }
}

impl SmallFiles for SimMachine {
    fn create(
        &self,
        directory: &File,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<File, Errno> {
        self.change()?;
        let path = self.path(directory, name)?;
        let folder = &mut *self.folder.borrow_mut();
        let is_new = folder.inode(&path).is_none();
        let file = machine::host().create(directory, name, flags, mode)?;
        if is_new {
            folder.disk.named(&path, inode(&file));
            folder.disk.wrote(inode(&file), &[]);
        }
        Ok(file)
    }

    fn write(&self, file: &File, text: &[u8]) -> io::Result<()> {
        self.locked_change_of(file, "a journal is written")?;
        self.take_room()?;
        machine::host().write(file, text)?;
        self.folder.borrow_mut().disk.wrote(inode(file), text);
        Ok(())
    }

    fn rewrite(&self, file: &File, text: &[u8]) -> io::Result<()> {
        self.locked_change_of(file, "a lock is written")?;
        if self.file_system.is_some() {
            self.take_room()?;
        }
        machine::host().rewrite(file, text)?;
        self.folder.borrow_mut().disk.wrote(inode(file), text);
        Ok(())
    }

    fn set_length(&self, file: &File, length: u64) -> io::Result<()> {
        self.locked_change_of(file, "a target is cut")?;
        machine::host().set_length(file, length)?;
        self.as_target(file);
        self.target_file().borrow_mut().set_length(index(length));
        Ok(())
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> Result<(), Errno> {
        self.locked_change_of(file, "space is reserved")?;
        if self.file_system.is_some_and(|one| !one.allocates) {
            return Err(Errno::OPNOTSUPP);
        }
        let is_full = self.target_file().borrow().faults.iter().any(|fault| {
            (fault.action, fault.errno) == (Action::Write, Some(Errno::NOSPC))
                && range.contains(&fault.offset)
        });
        if is_full {
            return Err(Errno::NOSPC);
        }
        let length = file.metadata().map(|facts| facts.len()).unwrap_or_default();
        if length < range.end {
            self.set_length(file, range.end).map_err(|_| Errno::IO)?;
        }
        Ok(())
    }

    fn set_direct(&self, _file: &File) -> Result<bool, Errno> {
        Ok(self.file_system.is_some_and(|one| one.takes_direct))
    }

    fn sync(&self, file: &File) -> Result<(), Errno> {
        self.change()?;
        let folder = &mut *self.folder.borrow_mut();
        let facts = file.metadata().map_err(|_| Errno::IO)?;
        if facts.is_dir() {
            let directory = folder.directory(file).map_err(|_| Errno::IO)?;
            folder.disk.synced_names(directory);
        } else if folder.target == Some(facts.ino()) {
            let random = &mut *self.random.borrow_mut();
            return self.target_file().borrow_mut().sync(random);
        } else {
            folder.disk.synced(facts.ino());
        }
        Ok(())
    }

    fn rename(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        let (old, new) = (self.path(directory, from)?, self.path(directory, to)?);
        self.locked_change(Some(&old), "a file is renamed")?;
        self.judge_journal(&old, &new);
        self.judge_target(&old, &new);
        let folder = &mut *self.folder.borrow_mut();
        if folder.inode(&new).is_some() {
            folder.take(&new)?;
        }
        machine::host().rename(directory, from, to)?;
        folder.disk.renamed(&old, &new);
        Ok(())
    }

    fn rename_new(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        self.locked_change(Some(from), "a file is renamed")?;
        if self.file_system.is_some_and(|one| !one.renames_new) {
            return Err(Errno::INVAL);
        }
        self.judge_target(from, to);
        machine::host().rename_new(directory, from, to)?;
        self.folder.borrow_mut().disk.renamed(from, to);
        Ok(())
    }

    fn link(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        self.locked_change(Some(from), "a file is linked")?;
        self.judge_target(from, to);
        machine::host().link(directory, from, to)?;
        let folder = &mut *self.folder.borrow_mut();
        if let Some(inode) = folder.inode(to) {
            folder.disk.named(to, inode);
        }
        Ok(())
    }

    fn remove(&self, directory: &File, name: &OsStr) -> Result<(), Errno> {
        self.change()?;
        let name = &*self.path(directory, name)?;
        let folder = &mut *self.folder.borrow_mut();
        let is_journal = self.drives[1..].iter().any(|drive| drive.name.journal == name);
        if is_journal && !folder.is_locked(name) {
            self.note_untrue("the journal is removed without its lock".to_owned());
        }
        folder.take(name)?;
        folder.disk.removed(name);
        Ok(())
    }
}
