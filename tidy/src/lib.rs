//! Checks of the repository itself: dependencies, places of `unsafe`, words, sizes, tables.
//!
//! Each check is a pure function from text to [`Violation`]s, proven able to fail by planted faults in
//! its own file; `tests/repository.rs` applies all of them to this repository. The rules are read from
//! the pages that state them (`ARCHITECTURE.md`, `GLOSSARY.md`, `CONTRIBUTING.md`), so page and
//! code cannot drift apart. Checks of the compiler and clippy are left to them.
#![forbid(unsafe_code)]

mod clauses;
pub mod dependencies;
pub mod edges;
pub mod fence;
pub mod files;
pub mod glossary;
pub mod links;
pub mod markdown;
pub mod modules;
pub mod phrases;
pub mod portable;
pub mod reliability;
pub mod rust;
pub mod style;
pub mod text;

use std::fmt;

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// File, relative to the root of the repository, or the name of a package.
    pub place: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl Violation {
    /// Makes a finding at a line of a file.
    pub fn new(place: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self { place: place.into(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.place, self.what)
        } else {
            write!(f, "{}:{}: {}", self.place, self.line, self.what)
        }
    }
}
