//! The reasons why a machine is not found or not read.

use std::io;
use std::path::{Path, PathBuf};

use peerlane_engine::suggestion::hint_of_path;
use peerlane_fabric::lspci::LspciError;
use peerlane_fabric::nccl::NcclError;
use peerlane_fabric::{DiscoverError, MachineFileError};

use super::other_program::OtherProgram;
use crate::small_file;

/// A command for each form of a machine.
pub const FORMS: &str = "there: `sudo peerlane capture -o machine.tar.zst`, or `sudo lspci -Dvvvnn > machine.txt`, \
     or `NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 2`; here: `peerlane topo --machine FILE`; \
     `peerlane lab machines` lists names, and `peerlane topo --format toml` writes a machine file";

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
    /// Its machine file describes no machine.
    #[error("cannot read machine file {place}")]
    Text {
        /// The file, or the name of a built-in machine.
        place: String,
        /// Error of the machine file.
        source: Box<MachineFileError>,
    },
    /// Its topology XML describes no machine.
    #[error("cannot read machine {place}")]
    Nccl {
        /// The file, or standard input.
        place: String,
        /// Error of the topology XML.
        source: NcclError,
    },
    /// Its text of `lspci` describes no machine.
    #[error("cannot read machine {place}")]
    Lspci {
        /// The file, or standard input.
        place: String,
        /// Error of the text.
        source: LspciError,
    },
    /// It has none of the forms of a machine.
    #[error("cannot recognise machine {place}")]
    Unrecognised {
        /// The file or folder.
        place: String,
        /// The forms that were tried.
        source: Unrecognised,
    },
    /// It is output of a program that says too little, or that says it in another form.
    #[error("cannot read machine {place}")]
    OtherProgram {
        /// The file, or standard input.
        place: String,
        /// The program.
        source: OtherProgram,
    },
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

/// Reasons why something is not in any form of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unrecognised {
    /// A folder without a tree.
    #[error("the folder has no sys/devices")]
    Folder,
    /// A file or standard input without content.
    #[error("it is empty")]
    Empty,
    /// An archive on standard input.
    #[error("it is an archive, and standard input is read as text")]
    ArchiveOnInput,
    /// Bytes that are not text.
    #[error("it is neither an archive (tar, gzip, bzip2, xz, Zstandard) nor UTF-8 text")]
    Bytes,
    /// Text of another kind.
    #[error(
        "it is neither a machine file (TOML), nor text of lspci, nor topology XML of NCCL or RCCL, nor an archive \
         with sys/"
    )]
    Text,
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
            Self::Lspci { source, .. } => Some(source.hint()),
            Self::Nccl { source, .. } => Some(source.hint()),
            Self::OtherProgram { source, .. } => Some(source.hint()),
            Self::Unrecognised { source: Unrecognised::ArchiveOnInput, .. } => {
                Some("`cat > machine.tar.zst`, then `--machine machine.tar.zst`".to_owned())
            }
            Self::Unrecognised { .. } => Some(FORMS.to_owned()),
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
