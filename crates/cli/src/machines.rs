//! Finds the machine a command looks at: this one, a captured tree, or a description.
//!
//! A description is a path, or the name of a file in `./machines`, or of one that was built into the
//! program; in this order. Nothing outside what was named is opened.

use std::fs;
use std::path::{Path, PathBuf};

use peerlane_fabric::{DiscoverError, Fabric};

use crate::args::FabricArgs;
use crate::error::{Failure, Tried};
use crate::small_file;

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
}

const FOLDER: &str = "machines";
/// The longest description that is read: captures of large machines have some hundred KiB.
const FILE_MAX: u64 = 16 << 20;

/// A machine description that can be named.
#[derive(Debug)]
pub(crate) struct Description {
    /// What a person types.
    pub(crate) name: String,
    /// The file; `None` for one that is built in.
    pub(crate) file: Option<PathBuf>,
    text: String,
}

impl Description {
    /// The first sentence of the comment at the top, which says what the machine is for.
    pub(crate) fn summary(&self) -> String {
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
    /// When the text describes no machine.
    pub(crate) fn fabric(&self) -> Result<Fabric, Failure> {
        let place = match &self.file {
            Some(file) => file.display().to_string(),
            None => format!("{} (built in)", self.name),
        };
        Fabric::from_toml(&self.text).map_err(Tried::to(format!("read machine file {place}")))
    }
}

/// The machine a command looks at.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn fabric(args: &FabricArgs) -> Result<Fabric, Failure> {
    read(args, Fabric::discover)
}

/// The same, without a command to any drive: what a plan rests on.
///
/// # Errors
/// As [`fabric`].
pub(crate) fn fabric_for_a_plan(args: &FabricArgs) -> Result<Fabric, Failure> {
    read(args, Fabric::discover_quietly)
}

fn read(
    args: &FabricArgs,
    discover: fn(&Path) -> Result<Fabric, DiscoverError>,
) -> Result<Fabric, Failure> {
    if let Some(machine) = &args.machine {
        return find(machine)?.fabric();
    }
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    discover(root).map_err(Tried::to(format!("read the machine below {}", root.display())))
}

/// The description that a person means by a path or a name.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(crate) fn find(wanted: &Path) -> Result<Description, Failure> {
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
    if wanted.exists() {
        let what = "it is not a regular file";
        return Err(Tried::to(format!("read machine file {}", wanted.display()))(what));
    }
    let what = if is_name { "no machine has this name" } else { "there is no such file" };
    Err(Tried::to(format!("find machine {}", wanted.display()))(what)
        .hint("`peerlane lab machines` lists the names that are known".to_owned()))
}

/// Every description that can be named: those of `folder`, or else of `./machines` and built in.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn list(folder: Option<&Path>) -> Result<Vec<Description>, Failure> {
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

fn in_folder(folder: &Path) -> Result<Vec<Description>, Failure> {
    let tried = || format!("list machines in {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Tried::to(tried()))? {
        let path = entry.map_err(Tried::to(tried()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(from_file(&path)?);
        }
    }
    Ok(found)
}

fn from_file(path: &Path) -> Result<Description, Failure> {
    let text = small_file::read(path, FILE_MAX)
        .map_err(Tried::to(format!("read machine file {}", path.display())))?;
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
