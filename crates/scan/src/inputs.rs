//! Sources of images: files, folders, globs, tar archives, lists.
//!
//! Leaves out the meaning of the bytes. Inputs are walked as they are needed, so a folder of millions
//! costs no memory, and an unreadable input is an error of that input alone.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Bytes of one file at most: uncompressed pixels of the largest image, four channels of two bytes.
const MOST_BYTES: u64 = crate::formats::MOST_PIXELS * 8;

/// Folders inside folders at most.
const MOST_DEPTH: usize = 64;

/// Reason for looking at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOrigin {
    /// The user named it.
    Named,
    /// It lies in a folder or archive that the user named, among any other files.
    Within,
}

/// One image before it is decoded.
#[derive(Debug)]
pub struct Input {
    /// Path, or `ARCHIVE:MEMBER`.
    pub name: String,
    /// Origin of the file: named, or within something named.
    pub origin: InputOrigin,
    /// Its bytes, or why there are none.
    pub bytes: Result<Vec<u8>, InputError>,
}

/// Reasons why an input gave no bytes.
#[derive(Debug, Error)]
pub enum InputError {
    /// The system said no.
    #[error("cannot read")]
    Read(#[from] io::Error),
    /// It is larger than any image that is taken.
    #[error("{bytes} bytes are more than the {most} that one image may have")]
    Large {
        /// Its size.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// The pattern cannot be read.
    #[error("not a pattern")]
    Pattern(#[from] glob::PatternError),
    /// Nothing has such a name.
    #[error("nothing matches")]
    NoMatch,
    /// Folders lie too deep in one another.
    #[error("more than {MOST_DEPTH} folders deep")]
    Deep,
}

/// A file that is to be read, or one that could not be found.
#[derive(Debug)]
pub enum FoundInput {
    /// An image in a file of its own.
    File(PathBuf, InputOrigin),
    /// A tar archive of images.
    Archive(PathBuf),
    /// An argument that leads nowhere, with the reason.
    Nothing(String, InputError),
}

/// Every file that the arguments name, in their order; folders in order of names, with the folders in
/// them. `@FILE` is a list with one path a line.
pub fn walk(arguments: Vec<String>) -> impl Iterator<Item = FoundInput> {
    arguments.into_iter().flat_map(|argument| -> Box<dyn Iterator<Item = FoundInput> + Send> {
        match argument.strip_prefix('@') {
            Some(list) => listed(list),
            None => named(argument),
        }
    })
}

fn listed(list: &str) -> Box<dyn Iterator<Item = FoundInput> + Send> {
    match regular(Path::new(list)) {
        Ok((file, _)) => {
            let list = list.to_owned();
            Box::new(BufReader::new(file).lines().flat_map(move |line| match line {
                Ok(line) => named(line),
                Err(error) => one(FoundInput::Nothing(list.clone(), error.into())),
            }))
        }
        Err(error) => one(FoundInput::Nothing(list.to_owned(), error.into())),
    }
}

fn named(name: String) -> Box<dyn Iterator<Item = FoundInput> + Send> {
    let path = PathBuf::from(&name);
    if path.exists() || !name.contains(['*', '?', '[']) {
        return below(path, 0);
    }
    match glob::glob(&name) {
        Err(error) => one(FoundInput::Nothing(name, error.into())),
        Ok(paths) => {
            let mut paths = paths.peekable();
            if paths.peek().is_none() {
                return one(FoundInput::Nothing(name, InputError::NoMatch));
            }
            Box::new(paths.flat_map(|path| match path {
                Ok(path) => below(path, 0),
                Err(error) => {
                    let name = error.path().display().to_string();
                    one(FoundInput::Nothing(name, std::io::Error::from(error).into()))
                }
            }))
        }
    }
}

fn below(path: PathBuf, depth: usize) -> Box<dyn Iterator<Item = FoundInput> + Send> {
    let nothing = |path: &Path, error| one(FoundInput::Nothing(path.display().to_string(), error));
    if depth > MOST_DEPTH {
        return nothing(&path, InputError::Deep);
    }
    // A link inside a folder is followed to a file, and never to a folder, which may be above it.
    let kind = if depth == 0 { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
    match kind {
        Err(error) => nothing(&path, error.into()),
        Ok(kind) if kind.is_dir() => match sorted(&path) {
            Err(error) => nothing(&path, error.into()),
            Ok(inside) => Box::new(inside.into_iter().flat_map(move |path| below(path, depth + 1))),
        },
        Ok(kind) if kind.is_symlink() && path.is_dir() => Box::new(std::iter::empty()),
        // Pipes, sockets and devices of a folder hold no images.
        Ok(kind) if depth > 0 && !kind.is_file() && !kind.is_symlink() => {
            Box::new(std::iter::empty())
        }
        Ok(_) if path.extension().is_some_and(|extension| extension == "tar") => {
            one(FoundInput::Archive(path))
        }
        Ok(_) if depth == 0 => one(FoundInput::File(path, InputOrigin::Named)),
        Ok(_) => one(FoundInput::File(path, InputOrigin::Within)),
    }
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut inside: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    inside.sort();
    Ok(inside)
}

fn one(found: FoundInput) -> Box<dyn Iterator<Item = FoundInput> + Send> {
    Box::new(std::iter::once(found))
}

impl FoundInput {
    /// Reads the input and hands on each image; ends early, by `false`, when `hand_on` says so.
    pub fn read(self, mut hand_on: impl FnMut(Input) -> bool) -> bool {
        match self {
            Self::File(path, origin) => {
                let name = path.display().to_string();
                hand_on(Input { name, origin, bytes: file(&path) })
            }
            Self::Archive(path) => archive(&path, &mut hand_on),
            Self::Nothing(name, error) => {
                hand_on(Input { name, origin: InputOrigin::Named, bytes: Err(error) })
            }
        }
    }
}

pub(crate) fn file(path: &Path) -> Result<Vec<u8>, InputError> {
    let (file, size) = regular(path)?;
    limited(file, size)
}

/// Opens a regular file and nothing else: opening a pipe would wait for a writer that never comes.
pub(crate) fn regular(path: &Path) -> io::Result<(File, u64)> {
    let kind = fs::metadata(path)?;
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((File::open(path)?, kind.len()))
}

/// Refuses sizes above that of any image.
pub(crate) fn check_size(bytes: u64) -> Result<(), InputError> {
    let most = MOST_BYTES;
    if bytes > most { Err(InputError::Large { bytes, most }) } else { Ok(()) }
}

pub(crate) fn limited(reader: impl Read, size: u64) -> Result<Vec<u8>, InputError> {
    check_size(size)?;
    // What is claimed is not given beforehand: a tar member may claim more than there is.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(64 << 20));
    reader.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    check_size(bytes.len() as u64)?;
    Ok(bytes)
}

fn archive(path: &Path, hand_on: &mut impl FnMut(Input) -> bool) -> bool {
    let name = path.display().to_string();
    let mut go = || -> io::Result<bool> {
        let mut archive = tar::Archive::new(BufReader::new(regular(path)?.0));
        for member in archive.entries()? {
            let member = member?;
            if !member.header().entry_type().is_file() {
                continue;
            }
            let member_name = format!("{name}:{}", member.path()?.display());
            let size = member.size();
            let bytes = limited(member, size);
            if !hand_on(Input { name: member_name, origin: InputOrigin::Within, bytes }) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    go().unwrap_or_else(|error| {
        hand_on(Input { name: name.clone(), origin: InputOrigin::Named, bytes: Err(error.into()) })
    })
}
