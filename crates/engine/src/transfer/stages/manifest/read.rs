//! A manifest read back.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{
    ALGORITHM, ChunkDigest, ChunkLine, EndLine, MANIFEST_SCHEMA, ManifestError, ManifestHeader,
    from_hex, hex,
};

/// Longest manifest that is read, in bytes: 1 MiB chunks of 40 TB.
const BYTES_MAX: u64 = 4 << 30;

/// A complete manifest: chunks in ascending order, each once, and all of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its first line.
    pub header: ManifestHeader,
    /// Chunks, in ascending order.
    pub chunks: Vec<ChunkDigest>,
    /// Root over the chunks.
    pub root: u128,
}

impl Manifest {
    /// Reads a manifest from a file.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        let failed = |source| ManifestError::File { action: "read", path: path.to_owned(), source };
        // A pipe would be waited for, a device has no end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let file = File::from(file);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(ManifestError::NoFile { path: path.to_owned() });
        }
        let mut text = String::new();
        match file.take(BYTES_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ManifestError::Line { line: 1, reason: "it is not text".to_owned() })
            }
            Err(error) => Err(failed(error)),
            Ok(_) => parse(&text),
        }
    }
}

/// Reads a manifest from untrusted text.
///
/// # Errors
/// [`ManifestError`], never [`ManifestError::File`].
pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
    let mut lines = text.lines().enumerate();
    let header = header(lines.next().map_or("", |(_, line)| line))?;
    let (mut chunks, mut end) = (Vec::new(), None);
    for (number, line) in lines {
        let bad = |reason: String| ManifestError::Line { line: number + 1, reason };
        if end.is_some() {
            return Err(bad("it follows the end".to_owned()));
        }
        if line.contains("\"root\"") {
            end = Some(serde_json::from_str::<EndLine>(line).map_err(|error| bad(words(&error)))?);
        } else {
            chunks.push(chunk_line(line).map_err(bad)?);
        }
    }
    let end = end.ok_or(ManifestError::NoEnd)?;
    chunks.sort_unstable();
    check_grid(&header, &chunks)?;
    let root = chunks.iter().fold(0_u128, |root, chunk| root.wrapping_add(chunk.share()));
    if end.chunks != chunks.len() as u64 {
        return Err(ManifestError::Count { found: chunks.len() as u64, counted: end.chunks });
    }
    if end.root != hex(root) {
        return Err(ManifestError::Root { found: end.root, computed: hex(root) });
    }
    Ok(Manifest { header, chunks, root })
}

/// Reads the first line.
pub(super) fn header(line: &str) -> Result<ManifestHeader, ManifestError> {
    let bad = |reason: String| ManifestError::Line { line: 1, reason };
    let header: ManifestHeader = serde_json::from_str(line).map_err(|error| bad(words(&error)))?;
    if header.schema != MANIFEST_SCHEMA || header.algorithm != ALGORITHM {
        return Err(bad(format!("it is {} with {}", header.schema, header.algorithm)));
    }
    if header.chunk == 0 {
        return Err(bad("chunks have no bytes".to_owned()));
    }
    Ok(header)
}

/// Reads the line of a chunk; anything else is a reason.
pub(super) fn chunk_line(line: &str) -> Result<ChunkDigest, String> {
    let line: ChunkLine = serde_json::from_str(line).map_err(|error| words(&error))?;
    chunk_of(&line)
}

/// An error of a line, without the number of the line in itself.
fn words(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.split(" at line 1 column").next().unwrap_or_default().to_owned()
}

fn chunk_of(line: &ChunkLine) -> Result<ChunkDigest, String> {
    let digest =
        from_hex(&line.xxh128).ok_or_else(|| format!("{} is not a digest", line.xxh128))?;
    Ok(ChunkDigest { offset: line.offset, length: line.length, digest })
}

/// Checks that chunks in ascending order are those of the copy.
fn check_grid(header: &ManifestHeader, chunks: &[ChunkDigest]) -> Result<(), ManifestError> {
    let mut next = 0;
    for chunk in chunks {
        let is_next = chunk.offset == next && chunk.length == chunk_length(header, next);
        if !is_next || chunk.length == 0 {
            return Err(ManifestError::Gap { offset: next });
        }
        next += chunk.length;
    }
    if next == header.length { Ok(()) } else { Err(ManifestError::Gap { offset: next }) }
}

/// Length of the chunk that begins at an offset.
pub(super) fn chunk_length(header: &ManifestHeader, offset: u64) -> u64 {
    header.chunk.min(header.length.saturating_sub(offset))
}
