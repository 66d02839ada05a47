//! Machine files: a fabric as TOML, written by hand or by discovery.

use std::path::{Path, PathBuf};

use crate::Fabric;

/// Why a machine file is not a fabric.
#[derive(Debug, thiserror::Error)]
pub enum MachineFileError {
    /// The file could not be read.
    #[error("cannot read machine file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML of this shape; the message has line, key and what is wrong.
    #[error("cannot understand machine file: {0}")]
    Syntax(String),
}

impl Fabric {
    /// Reads a fabric from the text of a machine file.
    ///
    /// # Errors
    /// When the text is not TOML, has an unknown key, or describes no possible machine.
    pub fn from_toml(text: &str) -> Result<Self, MachineFileError> {
        Err(MachineFileError::Syntax(text.to_owned()))
    }

    /// Reads a machine file.
    ///
    /// # Errors
    /// As [`Fabric::from_toml`], and when the file cannot be read.
    pub fn read_machine_file(path: &Path) -> Result<Self, MachineFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| MachineFileError::Read { path: path.to_owned(), source })?;
        Self::from_toml(&text)
    }

    /// Writes the fabric as a machine file that [`Fabric::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        format!("name = {:?}\n", self.name)
    }
}
