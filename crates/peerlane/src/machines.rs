//! Finds a machine by its name or source: this one, a tree, an archive, a text, or a name.
//!
//! A name is looked for as a path, among the files in `./machines`, and among those built in, in this
//! order; `-` is standard input. A path is recognised by its content: a folder or archive with `sys/`,
//! topology XML of NCCL or RCCL, or a machine file. Nothing else is opened.

mod content;
mod error;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use peerlane_engine::suggestion::nearest;
use peerlane_fabric::content::{ContentError, Unrecognised};
use peerlane_fabric::{DiscoverError, Fabric};

pub use error::{MachineError, MissingMachine};

use crate::small_file;

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
}

const FOLDER: &str = "machines";

/// Source of a machine, as a person named it.
#[derive(Debug, Clone, Copy, Default)]
pub enum MachineSource<'a> {
    /// The running one.
    #[default]
    Here,
    /// An argument of `--machine`: a folder or archive with `sys/`, a text, a name, or `-`.
    Described(&'a Path),
}

/// Depth of the look at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookDepth {
    /// All that can be known without changing anything.
    Full,
    /// The same without a command to any drive: enough for a plan.
    Quiet,
}

/// The machine at a place.
///
/// # Errors
/// [`MachineError`] names the obstacle.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use peerlane::machines::{LookDepth, MachineSource, read};
///
/// let pair = read(MachineSource::Described(Path::new("pair")), LookDepth::Quiet)?;
/// assert!(!pair.is_this_machine());
/// # Ok::<(), peerlane::machines::MachineError>(())
/// ```
pub fn read(place: MachineSource<'_>, look: LookDepth) -> Result<Fabric, MachineError> {
    let root = match place {
        MachineSource::Here => Path::new("/"),
        MachineSource::Described(what) if what == Path::new(content::INPUT) => {
            return content::from_input();
        }
        MachineSource::Described(what) if content::is_tree(what) => what,
        MachineSource::Described(what) if what.exists() => return content::from_file(what),
        MachineSource::Described(what) => return find(what)?.fabric(),
    };
    let discover = match look {
        LookDepth::Full => Fabric::discover,
        LookDepth::Quiet => Fabric::discover_quietly,
    };
    discover(root).map_err(|source| not_discovered(root, source))
}

/// Returns whether `--machine` takes a path as a folder or archive with `sys/`, as captures need.
pub fn is_tree(path: &Path) -> bool {
    content::is_tree(path)
}

/// Returns the error for a folder or an archive that holds no machine.
fn not_discovered(root: &Path, source: DiscoverError) -> MachineError {
    let has_no_tree = matches!(
        &source,
        DiscoverError::Read { path, source }
            if source.kind() == io::ErrorKind::NotFound && path.ends_with("sys/devices")
    );
    if has_no_tree && root.is_dir() {
        let place = root.display().to_string();
        return ContentError::Unrecognised { place, source: Unrecognised::Folder }.into();
    }
    MachineError::Discover { root: root.to_owned(), source }
}

/// A machine description that can be named.
#[derive(Debug, Clone)]
pub struct Description {
    /// Name, as a person types it.
    pub name: String,
    /// The file; `None` for one that is built in.
    pub file: Option<PathBuf>,
    text: String,
}

impl Description {
    /// The first sentence of the comment at the top: the purpose of the machine.
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
    /// [`MachineError::Content`] when the text describes none.
    pub fn fabric(&self) -> Result<Fabric, MachineError> {
        Fabric::from_toml(&self.text).map_err(|source| {
            let place = match &self.file {
                Some(file) => file.display().to_string(),
                None => format!("{} (built in)", self.name),
            };
            ContentError::Text { place, source: Box::new(source) }.into()
        })
    }
}

/// The description that a person means by a name.
///
/// # Errors
/// When there is none, or it cannot be read.
fn find(wanted: &Path) -> Result<Description, MachineError> {
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
    if let Err(source) = wanted.try_exists() {
        return Err(MachineError::File { place: wanted.display().to_string(), source });
    }
    let wanted = wanted.display().to_string();
    Err(match is_name {
        true => {
            let known = list(None).unwrap_or_default().into_iter().map(|one| one.name);
            let (similar, source) = (nearest(&wanted, known), MissingMachine::Name);
            MachineError::Missing { wanted, similar, source }
        }
        false => MachineError::Missing { wanted, similar: None, source: MissingMachine::File },
    })
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
    let text = small_file::read(path, content::FILE_MAX)
        .map_err(|source| MachineError::File { place: path.display().to_string(), source })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Description { name, file: Some(path.to_owned()), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_machines_have_summaries() {
        for description in built_in() {
            description.fabric().expect(&description.name);
            assert!(!description.summary().is_empty(), "{} says nothing", description.name);
        }
        assert!(built_in().any(|description| description.name == "pair"));
    }
}
