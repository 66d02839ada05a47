//! Libraries of makers, opened when the program runs; nothing is linked.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub(crate) mod ffi;

use std::ffi::OsStr;

/// The reason why a maker's library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It cannot be opened.
    #[error("cannot open {library}: {reason}")]
    NotThere {
        /// Its name.
        library: String,
        /// The loader's message.
        reason: String,
    },
    /// It lacks a function.
    #[error("{library} has no function {symbol}")]
    NoFunction {
        /// The library.
        library: String,
        /// The function.
        symbol: String,
    },
}

impl LibraryError {
    pub(crate) fn not_there(name: &OsStr, error: &libloading::Error) -> Self {
        Self::NotThere { library: name.to_string_lossy().into_owned(), reason: said(error) }
    }

    pub(crate) fn no_function(name: &OsStr, symbol: &[u8]) -> Self {
        Self::NoFunction {
            library: name.to_string_lossy().into_owned(),
            symbol: String::from_utf8_lossy(symbol).into_owned(),
        }
    }
}

/// The loader's message in one line, by its innermost cause.
fn said(error: &libloading::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    let line = text.lines().next().unwrap_or_default();
    // The loader's message begins with the name, which our message has already.
    line.split_once(": ").map_or(line, |(_, what)| what).to_owned()
}
