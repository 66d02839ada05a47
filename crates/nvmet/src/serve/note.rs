//! Notes of exports, each locked by its serving program. An unlocked note names a leftover.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::ServeError;
use super::steps::ExportItems;

/// Folder of the notes below the root; like configfs it does not survive a boot.
const FOLDER: &str = "run/peerlane/exports";
/// Suffix of a note.
const SUFFIX: &str = "json";
/// Size limit of a note.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// Content of a note.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NoteContent {
    /// The serving process.
    pub(crate) process: u32,
    pub(crate) device: PathBuf,
    pub(crate) items: ExportItems,
}

/// A note and its lock; the lock ends with the program.
#[derive(Debug)]
pub(crate) struct LockedNote {
    path: PathBuf,
    file: File,
}

impl LockedNote {
    /// Writes and locks a note.
    pub(crate) fn write(root: &Path, content: &NoteContent) -> Result<Self, ServeError> {
        let folder = root.join(FOLDER);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ServeError::Note { action: "write", path, source }
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).map_err(failed(&folder))?;
        let path = folder.join(format!("{}-{}.{SUFFIX}", content.process, content.items.port));
        // It gets its name when it is complete and locked: no reader finds half a note, or a leftover.
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

    /// Removes the note and its lock.
    pub(crate) fn remove(self) -> Result<(), ServeError> {
        let Self { path, file } = self;
        let removed = fs::remove_file(&path);
        drop(file);
        removed.map_err(|source| ServeError::Note { action: "remove", path, source })
    }
}

/// Reads every note; those of leftovers come with their lock.
pub(crate) fn all(root: &Path) -> Result<Vec<(NoteContent, Option<LockedNote>)>, ServeError> {
    let folder = root.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    let paths = entries.and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
    });
    let mut paths =
        paths.map_err(|source| ServeError::Note { action: "list", path: folder, source })?;
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX));
    paths.sort();
    let mut notes = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(note) => notes.push(note),
            // The export ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ServeError::Note { action: "read", path, source }),
        }
    }
    Ok(notes)
}

fn read(path: &Path) -> io::Result<(NoteContent, Option<LockedNote>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_free = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        Err(errno) => return Err(errno.into()),
    };
    let mut text = String::new();
    (&file).take(MAX_NOTE_BYTES).read_to_string(&mut text)?;
    let content = serde_json::from_str(&text)?;
    Ok((content, is_free.then(|| LockedNote { path: path.to_owned(), file })))
}
