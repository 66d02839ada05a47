//! The program as a person runs it in a folder.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::de::DeserializeOwned;

/// Wide enough for any sentence in one line.
pub(crate) const COLUMNS: (&str, &str) = ("COLUMNS", "9999");

/// The program in a folder, without colours and unwrapped.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    command.current_dir(folder).env("NO_COLOR", "1").env(COLUMNS.0, COLUMNS.1);
    command
}

/// Runs the program with these words.
pub(crate) fn peerlane(folder: &Path, words: &[&str]) -> Output {
    command(folder).args(words).output().expect("the program starts")
}

/// Runs the program with a line of words with spaces between them.
pub(crate) fn typed(folder: &Path, line: &str) -> Output {
    peerlane(folder, &line.split_whitespace().collect::<Vec<_>>())
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// Standard error of the program.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks of a program that has ended, which fail with its output.
pub(crate) trait Exited {
    /// Checks the exit status.
    fn exited(self, status: i32) -> Self;

    /// Standard output.
    fn text(&self) -> String;

    /// Standard output, read as JSON.
    fn json<T: DeserializeOwned>(&self) -> T;

    /// Checks that standard error has these words.
    fn says(&self, words: &str) -> &Self;
}

impl Exited for Output {
    #[track_caller]
    fn exited(self, status: i32) -> Self {
        assert_eq!(self.status.code(), Some(status), "{}{}", said(&self), self.text());
        self
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    #[track_caller]
    fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    fn says(&self, words: &str) -> &Self {
        assert!(said(self).contains(words), "{words} in {}", said(self));
        self
    }
}
