//! Files that a person names for results of the program: written whole or not at all, and never
//! over foreign files. Every command that writes such a file does it by [`OutputFile`]. The rules:
//!
//! 1. A file that is ours by its mark, which its [`OutputKind`] knows, is replaced, and any other
//!    left alone. No option changes that: `--force` is for the target of a copy or a benchmark.
//! 2. A folder, a symbolic link (wherever it leads), a pipe, a socket and a device are never ours. Bytes that a command
//!    only passes on, such as the console of a machine, may go to a terminal, a pipe or `/dev/null`: [`stream`].
//! 3. Whether the file can be written is looked at before the work whose result it takes, and once more when it is
//!    written: a file that came there meanwhile is left alone, too.
//! 4. It is made next to its place, flushed, and then named. A full disk leaves the earlier file; a
//!    killed program leaves a file `.tmp` with six characters next to it.
//! 5. It is a new file, with the mode that umask leaves. A folder is made by the same rules ([`write_folder`]), but not
//!    flushed.

use std::collections::HashSet;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use peerlane_engine::failure::HINT_OF_SIZE;
use rustix::fs::OFlags;
use serde::Deserialize;
use tempfile::NamedTempFile;

use crate::error::{Failure, Tried};

pub(crate) mod stream;

/// Kind of file that an output may replace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputKind {
    /// Nothing.
    New,
    /// An earlier one, known by its mark.
    Marked {
        /// Name for messages: `report`.
        name: &'static str,
        /// Bytes from its beginning that are looked at.
        most: u64,
        /// Returns true when these bytes bear the mark.
        is_ours: fn(&[u8]) -> bool,
    },
}

/// System error of a pipe without a reader, and of a name without a device: `/dev/tty` of a program
/// that has no terminal (`ENXIO`, open(2)).
const NOBODY_THERE: i32 = 6;

/// True when these bytes are one JSON object of a schema.
pub(crate) fn has_schema(bytes: &[u8], schema: &str) -> bool {
    #[derive(Deserialize)]
    struct OutputHead {
        schema: String,
    }
    serde_json::from_slice::<OutputHead>(bytes).is_ok_and(|head| head.schema == schema)
}

/// The folder that a file is or would be in.
pub(crate) fn folder(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A place for an output, looked at.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    kind: OutputKind,
    /// Device and inode of the existing file, if it is ours.
    ours: Option<(u64, u64)>,
}

/// Reason why an output was not written; the file that was there is unchanged.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// Something is there that is not ours.
    NotOurs {
        /// The reason.
        why: String,
        /// A remedy.
        hint: &'static str,
    },
    /// The system's answer.
    System(io::Error),
}

impl OutputFile {
    /// Checks a place: a file there is ours, and its folder takes a file.
    ///
    /// # Errors
    /// When the file could not be written now.
    pub(crate) fn at(path: &Path, kind: OutputKind) -> Result<Self, Failure> {
        let look = || -> Result<Self, OutputError> {
            let found = Self { path: path.to_owned(), kind, ours: judge(path, kind)? };
            found.draft()?;
            Ok(found)
        };
        look().map_err(|error| error.on(path))
    }

    /// Path of the output.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a draft next to the output, with a temporary name; deleted on drop.
    fn draft(&self) -> io::Result<NamedTempFile> {
        let mode = Permissions::from_mode(0o666);
        let made = tempfile::Builder::new().permissions(mode).tempfile_in(folder(&self.path));
        made.map_err(|error| plain(&error))
    }

    /// Gives a draft that is complete, and on its medium, its name.
    fn name(&mut self, draft: NamedTempFile) -> Result<(), OutputError> {
        let id = id_of(&draft.as_file().metadata()?);
        self.look_again()?;
        let named = match self.ours {
            Some(_) => draft.persist(&self.path),
            None => draft.persist_noclobber(&self.path),
        };
        named.map_err(|error| error.error)?;
        self.ours = Some(id);
        Ok(())
    }

    /// A draft with all of it, on its medium.
    fn whole(
        &self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<NamedTempFile> {
        let draft = self.draft()?;
        let mut out = BufWriter::new(draft.as_file());
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        draft.as_file().sync_all()?;
        Ok(draft)
    }

    /// Writes all of it; may be repeated with later content.
    ///
    /// # Errors
    /// When it cannot be filled, flushed or named, or something else has come there.
    pub(crate) fn fill(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let draft = self.whole(fill)?;
        self.name(draft)
    }

    /// The same for bytes in memory, as the end of a command.
    ///
    /// # Errors
    /// As [`OutputFile::fill`].
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.fill(|out| out.write_all(bytes)).map_err(|error| error.on(&self.path))
    }

    /// Judges a file that has come there since the last look.
    fn look_again(&mut self) -> Result<(), OutputError> {
        if self.ours.is_none() || self.now()? != self.ours {
            self.ours = judge(&self.path, self.kind)?;
        }
        Ok(())
    }

    fn now(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(metadata(&self.path)?.as_ref().map(id_of))
    }

    /// Refuses a place where the same command makes something else.
    ///
    /// # Errors
    /// When one of those names is of this place.
    pub(crate) fn apart_from<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), Failure> {
        let look = || -> Result<(), OutputError> {
            let own = place(&self.path)?;
            // What has no folder is refused by those who make it.
            let is_same = |other: &Path| place(other).is_ok_and(|other| other == own);
            if others.into_iter().any(is_same) { Err(named_twice()) } else { Ok(()) }
        };
        look().map_err(|error| error.on(&self.path))
    }
}

/// Identity of a file's place, the same for all spellings: its folder, and its name there.
fn place(path: &Path) -> io::Result<((u64, u64), Option<OsString>)> {
    let folder = id_of(&folder(path).metadata()?);
    Ok((folder, path.file_name().map(OsStr::to_owned)))
}

/// Writes several files as the end of a command: all of them are whole, and their places judged
/// once more, before the first has its name. So a full disk leaves the earlier files.
///
/// # Errors
/// As [`OutputFile::fill`], and when two of them have one place. Nothing is named then, unless the error says so.
pub(crate) fn write_together(files: Vec<(OutputFile, Vec<u8>)>) -> Result<(), Failure> {
    let mut places = HashSet::new();
    for (file, _) in &files {
        let place = place(&file.path);
        let place = place.map_err(|error| OutputError::from(error).on(&file.path))?;
        if !places.insert(place) {
            return Err(named_twice().on(&file.path));
        }
    }
    let filled = |(file, bytes): (OutputFile, Vec<u8>)| {
        let draft = file.whole(|out| out.write_all(&bytes));
        let draft = draft.map_err(|error| OutputError::from(error).on(&file.path))?;
        Ok((file, draft))
    };
    let mut filled: Vec<_> = files.into_iter().map(filled).collect::<Result<_, Failure>>()?;
    for (file, _) in &mut filled {
        file.look_again().map_err(|error| error.on(&file.path))?;
    }
    name_all(filled)
}

/// Names drafts one by one. If one cannot be named, those before it have replaced the earlier
/// files, and the failure lists them.
fn name_all(drafts: Vec<(OutputFile, NamedTempFile)>) -> Result<(), Failure> {
    let mut written = Vec::new();
    let mut drafts = drafts.into_iter();
    while let Some((mut file, draft)) = drafts.next() {
        if let Err(error) = file.name(draft) {
            let others = drafts.map(|(file, _)| file.path.display().to_string()).collect();
            return Err(error.among(&file.path, written, others));
        }
        written.push(file.path.display().to_string());
    }
    Ok(())
}

/// Makes a new folder as the end of a command: it is filled next to its place and then named. So a
/// full disk leaves none.
///
/// # Errors
/// When something is there, or it cannot be filled or named.
pub(crate) fn write_folder(
    path: &Path,
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Failure> {
    let write = || -> Result<(), OutputError> {
        judge(path, OutputKind::New)?;
        let beside = tempfile::tempdir_in(folder(path)).map_err(|error| plain(&error))?;
        let draft = beside.path().join("draft");
        fill(&draft)?;
        // What came there meanwhile stays: a folder takes the place of nothing but an empty one (rename(2)).
        Ok(fs::rename(&draft, path)?)
    };
    write().map_err(|error| error.on(path))
}

impl OutputError {
    /// The failure of a command that was to write this file.
    pub(crate) fn on(self, path: &Path) -> Failure {
        self.among(path, Vec::new(), Vec::new())
    }

    /// The same, if some files of the command are written and others are not.
    fn among(self, path: &Path, written: Vec<String>, left: Vec<String>) -> Failure {
        let lists = [("written before it", written), ("nor", left)].into_iter();
        let lists = lists.filter(|(_, names)| !names.is_empty());
        let others: String =
            lists.map(|(word, names)| format!("; {word}: {}", names.join(", "))).collect();
        let hint = match &self {
            Self::NotOurs { hint, .. } => Some((*hint).to_owned()),
            Self::System(error)
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                Some("make room there, or name a file elsewhere".to_owned())
            }
            Self::System(error) if error.kind() == ErrorKind::FileTooLarge => {
                Some(HINT_OF_SIZE.to_owned())
            }
            Self::System(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
                Some("name a file elsewhere: nothing can be written there".to_owned())
            }
            Self::System(error) if error.kind() == ErrorKind::PermissionDenied => Some(format!(
                "name a file where you may write; `ls -ld {}` shows who may there",
                folder(path).display()
            )),
            Self::System(error) if error.kind() == ErrorKind::NotFound => {
                let folder = folder(path);
                let is_there = folder.is_dir();
                let make = format!("make the folder {} first", folder.display());
                Some(if is_there { "name a file elsewhere".to_owned() } else { make })
            }
            Self::System(error) if error.raw_os_error() == Some(NOBODY_THERE) => {
                Some(hint_where_nobody_is(path).to_owned())
            }
            Self::System(_) => None,
        };
        Tried::to(format!("write {}{others}", path.display()))(self).hint(hint)
    }
}

/// Identity of the file at a place, if it is ours; `None` where there is none.
fn judge(path: &Path, kind: OutputKind) -> Result<Option<(u64, u64)>, OutputError> {
    let Some(found) = metadata(path)? else { return Ok(None) };
    if !found.is_file() {
        let why = format!("it is {}, not a regular file", word_for(&found));
        return Err(OutputError::NotOurs { why, hint: "name a file" });
    }
    let (name, most, is_ours) = match kind {
        OutputKind::New => return Err(not_ours("it already exists", kind)),
        OutputKind::Marked { name, most, is_ours } => (name, most, is_ours),
    };
    // What takes its place now neither lets the program wait nor leads it elsewhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let mut bytes = Vec::new();
    if found.is_file() {
        file.take(most).read_to_end(&mut bytes)?;
    }
    if is_ours(&bytes) {
        return Ok(Some(id_of(&found)));
    }
    Err(not_ours(&format!("it already exists and is not a {name}"), kind))
}

/// The system's answer without the name of the draft, which `tempfile` adds.
fn plain(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let answer = text.split(" at path \"").next().unwrap_or_default();
    io::Error::new(error.kind(), answer)
}

fn not_ours(why: &str, kind: OutputKind) -> OutputError {
    let hint = match kind {
        OutputKind::New => "choose a name that does not exist",
        OutputKind::Marked { .. } => "choose another name, or remove it first",
    };
    OutputError::NotOurs { why: why.to_owned(), hint }
}

fn named_twice() -> OutputError {
    let why = "two files of this command would be there".to_owned();
    OutputError::NotOurs { why, hint: "choose another name for one of them" }
}

fn hint_where_nobody_is(path: &Path) -> &'static str {
    if path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        "the pipe has no reader: start its reader first"
    } else {
        "no device is behind that name now: name a file"
    }
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn id_of(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn word_for(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs { why, .. } => f.write_str(why),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl Error for OutputError {}

#[cfg(test)]
mod tests;
