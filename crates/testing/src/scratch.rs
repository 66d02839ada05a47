//! A temporary folder for the files of a test.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A temporary folder, removed on drop. Its files are named by their paths below it.
///
/// # Panics
/// All of it, when a file cannot be written or read.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// An empty one, in the system's folder of temporary files.
    #[track_caller]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// An empty one in a folder, e.g. on a disk that takes direct I/O.
    #[track_caller]
    pub fn below(folder: impl AsRef<Path>) -> Self {
        Self(tempfile::tempdir_in(folder).expect("a temporary folder"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The whole path of a file.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, and the folders above it.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let bytes = content.as_ref();
        self.made(name, |at| fs::write(at, bytes))
    }

    /// Makes a folder.
    #[track_caller]
    pub fn folder(&self, name: impl AsRef<Path>) -> &Self {
        self.made(name, fs::create_dir_all)
    }

    /// Makes a symbolic link.
    #[track_caller]
    pub fn link(&self, name: impl AsRef<Path>, target: impl AsRef<Path>) -> &Self {
        self.made(name, |at| std::os::unix::fs::symlink(target, at))
    }

    /// The bytes of a file.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let at = self.at(name);
        fs::read(&at).unwrap_or_else(|error| panic!("{}: {error}", at.display()))
    }

    /// The text of a file.
    #[track_caller]
    pub fn text(&self, name: impl AsRef<Path>) -> String {
        String::from_utf8(self.read(name)).expect("text")
    }

    /// The names in it, in order.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("a name")).collect();
        names.sort();
        names
    }

    #[track_caller]
    fn made(&self, name: impl AsRef<Path>, make: impl FnOnce(PathBuf) -> io::Result<()>) -> &Self {
        let at = self.at(name);
        fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
        make(at.clone()).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
        self
    }
}
