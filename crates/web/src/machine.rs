//! The machine that a page was given: a text, or the bytes of a file.

use std::path::Path;

use peerlane_fabric::content::{self, ON_INPUT};
use peerlane_fabric::{DiscoverError, Fabric, Snapshot, capture};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A text that was pasted, or a file that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Given {
    /// Name of the file; absent for a pasted text.
    #[serde(default)]
    name: Option<String>,
    #[serde(flatten)]
    content: GivenContent,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GivenContent {
    /// A text.
    Text(String),
    /// Bytes of a file, in base64.
    Bytes(String),
}

/// Reads the machine.
pub(crate) fn read(given: &Given) -> Result<Fabric, Failure> {
    let place = given.name.clone().unwrap_or_else(|| ON_INPUT.to_owned());
    let bytes = given.bytes()?;
    if capture::is_archive(&bytes) {
        let root = Path::new(&place);
        return unpack(root, &bytes)
            .and_then(|tree| Fabric::discover_snapshot(root, tree))
            .map_err(|error| discover_failure(root, &error));
    }
    content::read(place, &bytes).map_err(|error| {
        let hint = error.hint();
        Failure::new(&error, hint)
    })
}

/// A machine without what identifies it, as a text that [`read`] takes.
#[derive(Debug, Serialize)]
pub(crate) struct Scrubbed {
    text: String,
    /// Kinds of replaced values, with the number of each.
    replaced: Vec<(&'static str, usize)>,
}

/// Takes from a text or archive what captures leave out; an archive becomes a machine file.
pub(crate) fn scrubbed(given: &Given) -> Result<Scrubbed, Failure> {
    let bytes = given.bytes()?;
    if !capture::is_archive(&bytes) {
        let text = content::decoded(&bytes);
        let capture::ScrubbedText { text, replaced } = capture::scrub_text(&text);
        return Ok(Scrubbed { text, replaced });
    }
    let root = Path::new(given.name.as_deref().unwrap_or(ON_INPUT));
    let scrub = || {
        let kept = capture::take_snapshot(root, unpack(root, &bytes)?)?;
        let fabric = Fabric::discover_snapshot(root, kept.content)?;
        Ok(Scrubbed { text: fabric.to_toml(), replaced: kept.replaced })
    };
    scrub().map_err(|error| discover_failure(root, &error))
}

fn unpack(root: &Path, bytes: &[u8]) -> Result<Snapshot, DiscoverError> {
    capture::unpack_machine(bytes)
        .map_err(|source| DiscoverError::Archive { path: root.to_owned(), source })
}

fn discover_failure(root: &Path, error: &DiscoverError) -> Failure {
    let hint = match error {
        DiscoverError::Archive { source, .. } => source.hint(root),
        _ => None,
    };
    Failure::new(error, hint)
}

impl Given {
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        match &self.content {
            GivenContent::Text(text) => Ok(text.clone().into_bytes()),
            GivenContent::Bytes(text) => from_base64(text).ok_or_else(|| {
                Failure::in_words("cannot read the file: its bytes are not base64".to_owned(), None)
            }),
        }
    }
}

/// Decodes base64 with the alphabet of RFC 4648 section 4.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_rfc_4648_is_decoded() {
        for (text, expected) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(from_base64(text).expect("base64"), expected.as_bytes());
        }
        assert_eq!(from_base64("Zm9v!"), None);
    }
}
