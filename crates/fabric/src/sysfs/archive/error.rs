//! Errors of archives that cannot be used, with advice.

use std::io;
use std::path::{Path, PathBuf};

use super::MOST_UNPACKED;
use crate::NoPlace;

/// The reason why something is not an archive of a machine.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It could not be read.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// It is neither a tar archive nor a compressed one.
    #[error("it is neither a tar archive nor one that gzip, bzip2, xz or Zstandard has compressed")]
    NoArchive,
    /// It is damaged.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// It cannot be uncompressed.
    #[error("cannot uncompress the archive: {0}")]
    Compression(String),
    /// Something in it has no place in a tree.
    #[error("cannot use the archive")]
    Place(#[source] NoPlace),
    /// Something that discovery reads is neither a file nor a folder nor a link.
    #[error("cannot use the archive: `{}` is a {kind}", path.display())]
    Kind {
        /// Its path.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// A file in it is larger than any that discovery reads.
    #[error("cannot use the archive: `{}` has {bytes} bytes, which is more than a capture has there", path.display())]
    TooLong {
        /// Its path.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// It is larger than a machine is.
    #[error("cannot use the archive: it has more than {} MiB", MOST_UNPACKED >> 20)]
    TooLarge,
    /// It has no tree of devices.
    #[error("there is no sys/devices in the archive")]
    NoMachine,
    /// Several folders in it are machines.
    #[error("cannot choose a machine: the archive holds {}", names(.0))]
    SeveralMachines(Vec<PathBuf>),
}

fn names(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    names.join(", ")
}

impl ArchiveError {
    /// The error of a reader of compressed bytes.
    pub(super) fn of_stream(error: io::Error) -> Self {
        match error.raw_os_error() {
            // The system says it of the file itself.
            Some(_) => Self::Read(error),
            None => Self::Compression(first_line(&error.to_string())),
        }
    }

    /// The error of a reader of tar archives.
    pub(super) fn of_tar(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Read(error),
            None => Self::Damaged(first_line(&error.to_string())),
        }
    }

    /// Returns advice on the archive at `path`.
    pub fn hint(&self, path: &Path) -> Option<String> {
        let file = path.display();
        let folder = match self {
            Self::Read(_) => return None,
            Self::NoMachine => return Some(format!("`tar tf {file}` shows what is in it")),
            Self::SeveralMachines(folders) => folders.first().cloned().unwrap_or_default(),
            _ => PathBuf::new(),
        };
        let folder = Path::new("unpacked").join(folder);
        Some(format!(
            "`mkdir unpacked && tar xf {file} -C unpacked`, then `--machine {}`",
            folder.display()
        ))
    }
}

/// The words of a library, which may hold pieces of the archive, cut to a line.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 80;
    text.lines().next().unwrap_or_default().chars().take(LONGEST).collect()
}
