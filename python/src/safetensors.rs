//! Headers of safetensors files, judged by the format's own crate.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use safetensors::tensor::Metadata;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::json;

use crate::error::{ErrorDetails, ExceptionKind};
use crate::machine::json as text;
use crate::reserve::headroom;

/// Bytes of the length that a file begins with.
const LENGTH: u64 = 8;
/// The longest header that the format's own readers take (safetensors 0.8, `MAX_HEADER_SIZE`).
const HEADER_MAX: u64 = 100_000_000;
/// Bytes of memory for a byte of a header: about 130 bytes of text a tensor become 1,100 of keys, maps and text.
const IN_MEMORY: usize = 8;
/// The first bytes of the text that Git LFS leaves in place of a file.
const LFS_POINTER: [u8; 8] = *b"version ";
/// Hint for a file whose beginning makes no sense.
const CUT: &str = "the file was cut, or is none of safetensors: fetch it again";

/// The first key that a header, or its `__metadata__`, has twice, which the format's own reader takes silently.
struct RepeatedKey(Option<String>);

impl<'de> Deserialize<'de> for RepeatedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Keys)
    }
}

/// Looks at the keys of an object.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = RepeatedKey;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_str<E>(self, _: &str) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_unit<E>(self) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RepeatedKey, A::Error> {
        let (mut seen, mut repeated) = (HashSet::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "__metadata__" {
                let RepeatedKey(within) = map.next_value()?;
                repeated = repeated.or(within);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if let Some(key) = seen.replace(key) {
                repeated.get_or_insert(key);
            }
        }
        Ok(RepeatedKey(repeated))
    }
}

/// The header of a file as JSON: where data begins; what tells the file from another one of its name; and of each tensor
/// name, type, shape, and its first byte and last byte from there on.
#[pyfunction]
pub(crate) fn safetensors_header(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    Ok(py.detach(|| header(&path))?)
}

fn header(path: &Path) -> Result<String, ErrorDetails> {
    let what = format!("read the header of {}", path.display());
    let failed =
        |error: std::io::Error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error);
    let refused =
        |words: &str| ErrorDetails::new(ExceptionKind::BadInput, format!("cannot {what}: {words}"));
    // Opening a pipe waits for a writer.
    let facts = fs::metadata(path).map_err(failed)?;
    if !facts.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if facts.len() < LENGTH {
        let words = format!("it has {} bytes, fewer than the {LENGTH} of a length", facts.len());
        return Err(refused(&words).hint(Some(CUT)));
    }
    let mut length = [0; size_of::<u64>()];
    file.read_exact(&mut length).map_err(failed)?;
    if length == LFS_POINTER {
        return Err(refused("it is a pointer of Git LFS, not the file itself")
            .hint(Some("git lfs pull, in the folder of the file")));
    }
    let length = u64::from_le_bytes(length);
    if length > HEADER_MAX || LENGTH + length > facts.len() {
        let words = format!("it says that it is {length} bytes long; the file has {}", facts.len());
        return Err(refused(&words).hint(Some(CUT)));
    }
    headroom(&what, usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(IN_MEMORY))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(failed)?;
    let metadata: Metadata = serde_json::from_slice(&bytes)
        .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))?;
    if let Ok(RepeatedKey(Some(key))) = serde_json::from_slice(&bytes) {
        return Err(refused(&format!("it has the key {key:?} twice"))
            .hint(Some("one of both would be lost: write the file again")));
    }
    let data = metadata.data_len() as u64;
    let (start, end) = (LENGTH + length, LENGTH + length + data);
    if end != facts.len() {
        let words = format!("its tensors end at byte {end}; the file has {}", facts.len());
        let hint = (end > facts.len()).then_some("the file was cut: fetch it again");
        return Err(refused(&words).hint(hint));
    }
    let tensors: Vec<_> = metadata
        .offset_keys()
        .into_iter()
        .filter_map(|name| {
            let info = metadata.info(&name)?;
            let (begin, end) = info.data_offsets;
            let dtype = info.dtype;
            Some(json!([name, dtype, info.shape, begin, end]))
        })
        .collect();
    text(&json!({
        "start": start,
        "size": end,
        "tensors": tensors,
        "metadata": metadata.metadata(),
        "identity": (facts.dev(), facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec()),
    }))
}
