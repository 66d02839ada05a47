//! The manifest of a copy: a digest of each chunk, and a root over them.
//!
//! A manifest is text, a JSON object a line: a header, a line for each chunk in any order, and an end with
//! the root. It is written next to its name, as FILE.part, while the copy goes on, and takes its
//! name when the copy is complete; a copy that goes on after an interruption goes on with its
//! lines. The root is the sum modulo 2^128 of the XXH3-128 digests of all lines, each as offset and
//! length in 64 bits, lowest byte first, and the digest, highest byte first: it is the same in any
//! order. It finds corruption, but is not a signature.

mod read;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use read::{Manifest, parse};
pub(crate) use write::ChunkDigests;
pub(crate) use write::part_of;

use crate::endpoints::suggestion::hint_of_path;
use crate::io::stage::chunk_digest;

/// Schema of a manifest.
pub(crate) const MANIFEST_SCHEMA: &str = "peerlane.manifest/1";

/// The digest of chunks: XXH3 with 128 bits and the seed zero.
pub(crate) const ALGORITHM: &str = "xxh128";

/// First line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestHeader {
    /// `MANIFEST_SCHEMA`.
    pub schema: String,
    /// Tells the copy from any other; its journal has the same.
    pub copy: String,
    /// Path of the source of the copy.
    pub source: String,
    /// True for a copy of all of the source.
    pub whole: bool,
    /// Stages that worked on a chunk before its digest was made.
    pub after: Vec<String>,
    /// Length of the copy in bytes.
    pub length: u64,
    /// Length of each chunk but the last in bytes.
    pub chunk: u64,
    /// `ALGORITHM`.
    pub algorithm: String,
}

/// The line of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkLine {
    /// Offset in the copy in bytes.
    offset: u64,
    /// Length in bytes.
    length: u64,
    /// 32 hexadecimal digits, as `xxh128sum` prints them.
    xxh128: String,
}

/// Last line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    chunks: u64,
    root: String,
}

/// A chunk and its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkDigest {
    /// Offset in the copy in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Digest of its bytes.
    pub digest: u128,
}

impl ChunkDigest {
    /// Its share of the root.
    fn share(&self) -> u128 {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.digest.to_be_bytes());
        chunk_digest(&bytes)
    }
}

/// A digest as `xxh128sum` prints it.
pub fn hex(digest: u128) -> String {
    format!("{digest:032x}")
}

fn from_hex(text: &str) -> Option<u128> {
    let is_ours =
        text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(text, 16).ok().filter(|_| is_ours)
}

/// Reason why a manifest cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    File {
        /// Attempt.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// A line that is not part of a manifest.
    #[error("line {line} is not a manifest line: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Reason.
        reason: String,
    },
    /// The end is missing: the copy was not complete.
    #[error("the manifest has no end: its copy was not complete")]
    NoEnd,
    /// The lines are not those of the whole copy, each once.
    #[error("the manifest lacks the chunk at {offset}, or has it twice")]
    Gap {
        /// Offset in the copy in bytes.
        offset: u64,
    },
    /// The end counts other chunks than there are.
    #[error("the manifest has {found} chunks and its end counts {counted}")]
    Count {
        /// Lines of chunks.
        found: u64,
        /// Value of the end.
        counted: u64,
    },
    /// It is not a file that can be read to its end.
    #[error("{} is not a regular file", path.display())]
    NoFile {
        /// Its name.
        path: PathBuf,
    },
    /// Another copy writes it.
    #[error("{} is being written by another copy", path.display())]
    Busy {
        /// The unfinished manifest.
        path: PathBuf,
    },
    /// Another process put a file in its place.
    #[error("{} is not the file that this copy writes any more", path.display())]
    Replaced {
        /// The unfinished manifest.
        path: PathBuf,
    },
    /// The root is not that of the lines.
    #[error("the root of the manifest is {found} and its lines give {computed}")]
    Root {
        /// Value of the end.
        found: String,
        /// Value of the lines.
        computed: String,
    },
    /// An unfinished manifest of another copy, or with other chunks.
    #[error("{} is of another copy: {reason}", path.display())]
    Other {
        /// The unfinished manifest.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
    /// There is a file of that name.
    #[error("{} already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

impl ManifestError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { path } if path.extension().is_some_and(|end| end == "part") => {
                Some(format!(
                    "`--resume` continues the copy that left it; `head -n 1 {}` shows which; or name another file",
                    path.display()
                ))
            }
            Self::Other { path, .. } => Some(format!(
                "`head -n 1 {}` shows which; name another file with `--manifest`",
                path.display()
            )),
            Self::Exists { .. }
            | Self::NoFile { .. }
            | Self::Busy { .. }
            | Self::Replaced { .. } => Some("name another file with `--manifest`".to_owned()),
            Self::NoEnd => Some("the command of its copy with `--resume` completes it".to_owned()),
            Self::Gap { .. } | Self::Count { .. } | Self::Root { .. } | Self::Line { .. } => Some(
                "`peerlane verify SOURCE TARGET` compares two files or devices without a manifest"
                    .to_owned(),
            ),
            Self::File { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                hint_of_path(path)
            }
            Self::File { path, source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                Some(format!("`df {}` shows the room", folder.unwrap_or(Path::new(".")).display()))
            }
            Self::File { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
