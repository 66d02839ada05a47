//! The form of an argument of `--machine`, recognised by its content.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use peerlane_fabric::content::{ContentError, ON_INPUT, Unrecognised, read};
use peerlane_fabric::{Fabric, capture};

use super::error::MachineError;
use crate::small_file;

/// The longest text that is read. Captures of large machines have some hundred KiB, listings of `lspci` a few MiB.
pub(super) const FILE_MAX: u64 = 64 << 20;
/// Bytes that tell an archive from a text: the first block of tar.
const BLOCK: usize = 512;
/// Standard input, as a person names it.
pub(super) const INPUT: &str = "-";

/// Returns whether a path is that of a tree or archive.
pub(super) fn is_tree(path: &Path) -> bool {
    if !path.is_file() {
        return path.is_dir();
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BLOCK as u64).read_to_end(&mut head));
    read.is_ok() && capture::is_archive(&head)
}

/// The machine in the text of a file.
///
/// # Errors
/// When the file cannot be read, or its text is not a machine.
pub(super) fn from_file(path: &Path) -> Result<Fabric, MachineError> {
    let place = path.display().to_string();
    match small_file::bytes(path, FILE_MAX) {
        Ok(bytes) => Ok(read(place, &bytes)?),
        Err(source) => Err(MachineError::File { place, source }),
    }
}

/// The machine in the text on standard input.
///
/// # Errors
/// When it cannot be read, is longer than a file may be, or is not a machine.
pub(super) fn from_input() -> Result<Fabric, MachineError> {
    let place = ON_INPUT.to_owned();
    match small_file::at_most(io::stdin().lock(), FILE_MAX) {
        Ok(bytes) if capture::is_archive(bytes.get(..BLOCK).unwrap_or(&bytes)) => {
            Err(ContentError::Unrecognised { place, source: Unrecognised::ArchiveOnInput }.into())
        }
        Ok(bytes) => Ok(read(place, &bytes)?),
        Err(source) => Err(MachineError::File { place, source }),
    }
}
