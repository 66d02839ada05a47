//! Notes of exports that were made, locked by whoever serves them. One without a holder is a leftover.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::MakeError;
use super::steps::Items;

/// Below the root; it goes with the boot, as configfs does.
const FOLDER: &str = "run/peerlane/exports";
/// Ending of a note's name.
const KIND: &str = "json";
/// Longest note that is read, in bytes.
const LENGTH_MAX: u64 = 64 << 10;

/// What is kept of an export.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Content {
    /// Of the program that serves it.
    pub(crate) process: u32,
    pub(crate) device: PathBuf,
    pub(crate) listen: String,
    pub(crate) items: Items,
}

/// A note and its lock, which goes with the program.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    file: File,
}

impl Note {
    /// Writes a note that no other has, and locks it.
    pub(crate) fn write(root: &Path, content: &Content) -> Result<Self, MakeError> {
        let folder = root.join(FOLDER);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| MakeError::Note { path, source }
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).map_err(failed(&folder))?;
        let path = folder.join(format!("{}-{}.{KIND}", content.process, content.items.port));
        // It has its name when it is whole and locked: nobody finds half of it, or takes it for a leftover.
        let unfinished = path.with_extension("new");
        let written = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                file.write_all(&serde_json::to_vec(content)?)?;
                fs::rename(&unfinished, &path)?;
                Ok(file)
            });
        let file = written.inspect_err(|_| drop(fs::remove_file(&unfinished)));
        Ok(Self { file: file.map_err(failed(&path))?, path })
    }

    /// Removes it with its lock.
    pub(crate) fn remove(self) -> Result<(), MakeError> {
        let Self { path, file } = self;
        let removed = fs::remove_file(&path);
        drop(file);
        removed.map_err(|source| MakeError::Note { path, source })
    }
}

/// Every note, with the note itself where nobody holds its lock.
pub(crate) fn all(root: &Path) -> Result<Vec<(Content, Option<Note>)>, MakeError> {
    let folder = root.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    let paths = entries.and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
    });
    let mut paths = paths.map_err(|source| MakeError::Note { path: folder, source })?;
    paths.retain(|path| path.extension().is_some_and(|kind| kind == KIND));
    paths.sort();
    let mut notes = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(note) => notes.push(note),
            // One that ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(MakeError::Note { path, source }),
        }
    }
    Ok(notes)
}

fn read(path: &Path) -> io::Result<(Content, Option<Note>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_free = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        Err(errno) => return Err(errno.into()),
    };
    let mut text = String::new();
    (&file).take(LENGTH_MAX).read_to_string(&mut text)?;
    let content = serde_json::from_str(&text)?;
    Ok((content, is_free.then(|| Note { path: path.to_owned(), file })))
}
