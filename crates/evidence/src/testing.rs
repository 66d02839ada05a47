//! A made-up root for tests.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "for tests"
)]

use std::fs;
use std::path::PathBuf;

use crate::Root;

/// A folder that stands for `/`, removed when dropped.
#[derive(Debug)]
pub struct PlantedRoot(tempfile::TempDir);

impl PlantedRoot {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and its folders.
    pub fn plant(&self, path: &str, text: &str) {
        let full = self.0.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    /// The folder.
    pub fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// The same as a root.
    pub fn root(&self) -> Root {
        Root::at(self.0.path())
    }
}
