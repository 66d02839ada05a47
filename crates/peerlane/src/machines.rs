//! Finds a machine by what a person calls it: this one, a captured tree, or a description.
//!
//! A description is a path, or the name of a file in `./machines`, or of one that was built in; in this
//! order. Nothing outside what was named is opened.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use peerlane_fabric::{DiscoverError, Fabric, MachineFileError, capture};

use crate::small_file;

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
}

const FOLDER: &str = "machines";
/// The longest description that is read: captures of large machines have some hundred KiB.
const FILE_MAX: u64 = 16 << 20;
/// What tells an archive from a text: the first block of tar.
const BLOCK: u64 = 512;

/// Why a machine was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Nothing is called that.
    #[error("cannot find machine {wanted}")]
    Missing {
        /// What was asked for.
        wanted: String,
        /// Whether a name or a file was meant.
        source: Missing,
    },
    /// Its file cannot be read.
    #[error("cannot read machine file {place}")]
    File {
        /// The file.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// Its text describes no machine.
    #[error("cannot read machine file {place}")]
    Text {
        /// The file, or the name of what is built in.
        place: String,
        /// Why.
        source: Box<MachineFileError>,
    },
    /// The folder of descriptions cannot be read.
    #[error("cannot list machines in {}", folder.display())]
    List {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A tree or archive cannot be read.
    #[error("cannot read the machine below {}", root.display())]
    Discover {
        /// The tree or archive.
        root: PathBuf,
        /// Why.
        source: DiscoverError,
    },
}

/// What is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No description has the name.
    #[error("no machine has this name")]
    Name,
    /// No file has the path.
    #[error("there is no such file")]
    File,
}

impl MachineError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => {
                Some("`peerlane lab machines` lists the names that are known".to_owned())
            }
            Self::File { place, source } => small_file::hint(Path::new(place), source),
            Self::List { folder, source } => small_file::hint(folder, source),
            Self::Discover { source: DiscoverError::Read { path, source }, .. } => {
                small_file::hint(path, source)
            }
            Self::Discover { source: DiscoverError::Archive { path, source }, .. } => {
                source.hint(path)
            }
            Self::Text { .. } | Self::Discover { .. } => None,
        }
    }
}

/// Where a person means a machine to come from.
#[derive(Debug, Clone, Copy, Default)]
pub enum Place<'a> {
    /// The running one.
    #[default]
    Here,
    /// The `sys/` and `proc/` below a folder, or in an archive.
    Root(&'a Path),
    /// A description, by path or name, or what [`Place::Root`] takes.
    Described(&'a Path),
}

/// How much is asked of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// All that can be known without changing anything.
    Full,
    /// The same without a command to any drive: what a plan rests on.
    Quiet,
}

/// The machine at a place.
///
/// # Errors
/// [`MachineError`], by what stands in the way.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use peerlane::machines::{Look, Place, read};
///
/// let pair = read(Place::Described(Path::new("pair")), Look::Quiet)?;
/// assert!(!pair.is_this_machine());
/// # Ok::<(), peerlane::machines::MachineError>(())
/// ```
pub fn read(place: Place<'_>, look: Look) -> Result<Fabric, MachineError> {
    let root = match place {
        Place::Described(machine) if is_tree(machine) => machine,
        Place::Described(machine) => return find(machine)?.fabric(),
        Place::Root(root) => root,
        Place::Here => Path::new("/"),
    };
    let discover = match look {
        Look::Full => Fabric::discover,
        Look::Quiet => Fabric::discover_quietly,
    };
    discover(root).map_err(|source| MachineError::Discover { root: root.to_owned(), source })
}

/// Whether a path is that of a tree or archive, and not of a description.
fn is_tree(path: &Path) -> bool {
    if !path.is_file() {
        return path != Path::new("/") && path.join("sys/devices").is_dir();
    }
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(BLOCK).read_to_end(&mut head));
    read.is_ok() && capture::is_archive(&head)
}

/// A machine description that can be named.
#[derive(Debug, Clone)]
pub struct Description {
    /// What a person types.
    pub name: String,
    /// The file; `None` for one that is built in.
    pub file: Option<PathBuf>,
    text: String,
}

impl Description {
    /// The first sentence of the comment at the top, which says what the machine is for.
    pub fn summary(&self) -> String {
        let comment: Vec<&str> =
            self.text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        let mut sentence = String::new();
        for word in comment.join(" ").split_whitespace() {
            let last = word.ends_with('.');
            sentence.push_str(word);
            if last {
                break;
            }
            sentence.push(' ');
        }
        sentence.trim_end().to_owned()
    }

    /// The machine.
    ///
    /// # Errors
    /// [`MachineError::Text`] when the text describes none.
    pub fn fabric(&self) -> Result<Fabric, MachineError> {
        Fabric::from_toml(&self.text).map_err(|source| {
            let place = match &self.file {
                Some(file) => file.display().to_string(),
                None => format!("{} (built in)", self.name),
            };
            MachineError::Text { place, source: Box::new(source) }
        })
    }
}

/// The description that a person means by a path or a name.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn find(wanted: &Path) -> Result<Description, MachineError> {
    if wanted.is_file() {
        return from_file(wanted);
    }
    let is_name = wanted.components().count() == 1 && wanted.extension().is_none();
    if is_name {
        let local = Path::new(FOLDER).join(wanted).with_extension("toml");
        if local.is_file() {
            return from_file(&local);
        }
        if let Some(found) = built_in().find(|built_in| Path::new(&built_in.name) == wanted) {
            return Ok(found);
        }
    }
    let source = match wanted.try_exists() {
        Ok(false) => None,
        Ok(true) => Some(io::Error::other("it is not a regular file")),
        Err(error) => Some(error),
    };
    if let Some(source) = source {
        return Err(MachineError::File { place: wanted.display().to_string(), source });
    }
    let source = if is_name { Missing::Name } else { Missing::File };
    Err(MachineError::Missing { wanted: wanted.display().to_string(), source })
}

/// Every description that can be named: those of `folder`, or else of `./machines` and built in.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(folder: Option<&Path>) -> Result<Vec<Description>, MachineError> {
    let local = Path::new(FOLDER);
    let mut found = match folder {
        Some(folder) => in_folder(folder)?,
        None if local.is_dir() => in_folder(local)?,
        None => Vec::new(),
    };
    if folder.is_none() {
        let missing: Vec<_> =
            built_in().filter(|b| found.iter().all(|other| other.name != b.name)).collect();
        found.extend(missing);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn built_in() -> impl Iterator<Item = Description> {
    built_in::BUILT_IN.iter().map(|&(name, text)| Description {
        name: name.to_owned(),
        file: None,
        text: text.to_owned(),
    })
}

fn in_folder(folder: &Path) -> Result<Vec<Description>, MachineError> {
    let tried = |source| MachineError::List { folder: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(tried)? {
        let path = entry.map_err(tried)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(from_file(&path)?);
        }
    }
    Ok(found)
}

fn from_file(path: &Path) -> Result<Description, MachineError> {
    let text = small_file::read(path, FILE_MAX)
        .map_err(|source| MachineError::File { place: path.display().to_string(), source })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Description { name, file: Some(path.to_owned()), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_machine_is_a_fabric_with_a_summary() {
        for description in built_in() {
            description.fabric().expect(&description.name);
            assert!(!description.summary().is_empty(), "{} says nothing", description.name);
        }
        assert!(built_in().any(|description| description.name == "pair"));
    }
}
