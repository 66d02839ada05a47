//! Reasons why a machine is not read from content.

use super::OtherProgram;
use crate::MachineFileError;
use crate::lspci::LspciError;
use crate::nccl::NcclError;

/// A command for each form of a machine.
pub const FORMS: &str = "there: `sudo peerlane capture -o machine.tar.zst`, or `sudo lspci -Dvvvnn > machine.txt`, \
     or `NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 2`; here: `peerlane topo --machine FILE`; \
     `peerlane lab machines` lists names, and `peerlane topo --format toml` writes a machine file";

/// Reasons why no machine was read from content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A machine file describes no machine.
    #[error("cannot read machine file {place}")]
    Text {
        /// The file, or the name of a built-in description.
        place: String,
        /// Error of the machine file.
        source: Box<MachineFileError>,
    },
    /// Topology XML describes no machine.
    #[error("cannot read machine {place}")]
    Nccl {
        /// The file, or standard input.
        place: String,
        /// Error of the topology XML.
        source: NcclError,
    },
    /// Text of `lspci` describes no machine.
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
    /// Bytes that are no text.
    #[error("it is neither an archive (tar, gzip, bzip2, xz, Zstandard) nor UTF-8 text")]
    Bytes,
    /// Text of another kind.
    #[error(
        "it is neither a machine file (TOML), nor text of lspci, nor topology XML of NCCL or RCCL, nor an archive \
         with sys/"
    )]
    Text,
}

impl ContentError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lspci { source, .. } => Some(source.hint()),
            Self::Nccl { source, .. } => Some(source.hint()),
            Self::OtherProgram { source, .. } => Some(source.hint()),
            Self::Unrecognised { source: Unrecognised::ArchiveOnInput, .. } => {
                Some("`cat > machine.tar.zst`, then `--machine machine.tar.zst`".to_owned())
            }
            Self::Unrecognised { .. } => Some(FORMS.to_owned()),
            Self::Text { .. } => None,
        }
    }
}
