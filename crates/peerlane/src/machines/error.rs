//! The reasons why a machine is not found or not read.

use std::io;
use std::path::{Path, PathBuf};

use peerlane_engine::suggestion::hint_of_path;
use peerlane_fabric::DiscoverError;
use peerlane_fabric::content::{ContentError, FORMS};

use crate::small_file;

/// Reasons why a machine was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Nothing is called that.
    #[error("cannot find machine {wanted}")]
    Missing {
        /// The machine, as it was asked for.
        wanted: String,
        /// A known name like it.
        similar: Option<String>,
        /// Kind of the missing thing: a name or a file.
        source: MissingMachine,
    },
    /// Its file, or standard input, cannot be read.
    #[error("cannot read machine {place}")]
    File {
        /// The file.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its content is no machine.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The folder of descriptions cannot be read.
    #[error("cannot list machines in {}", folder.display())]
    List {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A tree or archive cannot be read.
    #[error("cannot read the machine below {}", root.display())]
    Discover {
        /// The tree or archive.
        root: PathBuf,
        /// Error of the tree or archive.
        source: DiscoverError,
    },
}

/// A machine that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingMachine {
    /// No description has the name.
    #[error("no machine has this name, and no such file exists")]
    Name,
    /// No file has the path.
    #[error("the file does not exist")]
    File,
}

impl MachineError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { similar: Some(similar), .. } => {
                Some(format!("did you mean {similar}?"))
            }
            Self::Missing { source: MissingMachine::Name, .. } => {
                Some("`peerlane lab machines` lists the names".to_owned())
            }
            Self::Missing { wanted, .. } => hint_of_path(Path::new(wanted)),
            Self::File { place, source } => {
                small_file::hint(Path::new(place), source).or_else(|| Some(FORMS.to_owned()))
            }
            Self::Content(source) => source.hint(),
            Self::List { folder, source } => small_file::hint(folder, source),
            Self::Discover { source: DiscoverError::Read { path, source }, .. } => {
                small_file::hint(path, source)
            }
            Self::Discover { source: DiscoverError::Archive { path, source }, .. } => {
                source.hint(path)
            }
            Self::Discover { .. } => None,
        }
    }
}
