//! The form of a machine's description, recognised by its content.
//!
//! Topology XML of NCCL or RCCL, text of `lspci` with what people paste with it, or a machine file. Output of
//! other programs is refused by its name.

mod error;
mod other_program;

use std::borrow::Cow;
use std::path::Path;

pub use error::{ContentError, FORMS, Unrecognised};
pub use other_program::OtherProgram;

use crate::{Fabric, lspci, nccl};

/// Standard input, in errors.
pub const ON_INPUT: &str = "on standard input";

/// Reads the machine in the content of a file, or in a text that was pasted.
///
/// `place` stands for it in errors: a file, or [`ON_INPUT`]. Archives are for [`crate::capture`].
///
/// # Errors
/// [`ContentError`], by the form that the content has.
pub fn read(place: String, bytes: &[u8]) -> Result<Fabric, ContentError> {
    let text = decoded(bytes);
    let name = name_of_text(&place);
    let named = |fabric| Fabric { name, ..fabric };
    if nccl::is_nccl(&text) {
        let found = nccl::read(&text).map(named);
        return found.map_err(|source| ContentError::Nccl { place, source });
    }
    if !place.ends_with(".toml") && lspci::is_lspci(&text) {
        let found = lspci::read(&text).map(named);
        return found.map_err(|source| ContentError::Lspci { place, source });
    }
    let other = if place.ends_with(".toml") { None } else { OtherProgram::new(&text) };
    if let Some(source) = other {
        return Err(ContentError::OtherProgram { place, source });
    }
    let problem = if text.trim().is_empty() {
        Unrecognised::Empty
    } else if let Cow::Owned(_) = text {
        Unrecognised::Bytes
    } else if !is_machine_file(&place, &text) {
        Unrecognised::Text
    } else {
        let broken = |source| ContentError::Text { place, source: Box::new(source) };
        return Fabric::from_toml(&text).map_err(broken);
    };
    Err(ContentError::Unrecognised { place, source: problem })
}

/// A text has no name of its machine; that of its file stands for it.
fn name_of_text(place: &str) -> String {
    let name = Path::new(place).file_name().filter(|_| place != ON_INPUT);
    name.map_or_else(|| "input".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Bytes as text: UTF-16, which PowerShell writes, by its byte order mark (Unicode 16.0 section 23.8), else UTF-8.
pub fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Cow::Owned(text.collect())
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] if rest.len() % 2 == 0 => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] if rest.len() % 2 == 0 => utf16(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// Returns whether a text is meant as a machine file: its name says so, or its first line is one of TOML.
fn is_machine_file(place: &str, text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let is_key = |key: &str| {
        let key = key.trim_end();
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let is_toml = |line: &str| {
        line.starts_with('[') || line.split_once('=').is_some_and(|(key, _)| is_key(key))
    };
    place.ends_with(".toml") || first.is_none_or(is_toml)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> Unrecognised {
        match read("x".to_owned(), text) {
            Err(ContentError::Unrecognised { source, .. }) => source,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_content_names_what_was_tried() {
        assert_eq!(refused(b" \n"), Unrecognised::Empty);
        assert_eq!(refused(b"\xff\xfe\0"), Unrecognised::Bytes);
        assert_eq!(refused(b"Dear list, see below = here"), Unrecognised::Text);
    }

    #[test]
    fn utf16_texts_are_read_in_either_order() {
        let text = "00:00.0 Host bridge: Intel Corporation Device 1234\r\n";
        let units = || text.encode_utf16();
        let little: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(units().flat_map(u16::to_le_bytes)).collect();
        let big: Vec<u8> =
            [0xfe, 0xff].into_iter().chain(units().flat_map(u16::to_be_bytes)).collect();
        for bytes in [little, big] {
            let fabric = read("x".to_owned(), &bytes).expect("a machine");
            assert_eq!(fabric.functions[0].vendor, Some(0x8086));
        }
    }

    #[test]
    fn other_programs_are_refused_by_name() {
        let text = b"<topology><object type=\"Machine\"/></topology>";
        let error = read("lstopo.xml".to_owned(), text).unwrap_err();
        let cause = std::error::Error::source(&error).expect("a cause");
        assert_eq!(cause.to_string(), "it is XML of hwloc (lstopo), which is not read");
        assert!(error.hint().is_some_and(|hint| hint.contains("sudo lspci -Dvvvnn > lspci.txt")));
    }

    #[test]
    fn broken_machine_files_keep_the_error_of_toml() {
        for text in ["name = 'a'\n[[bridge]", "# a machine\n\nname = ", "[[bridge]]\nnam = 1"] {
            let error = read("x".to_owned(), text.as_bytes()).unwrap_err();
            assert!(matches!(error, ContentError::Text { .. }), "{text}: {error:?}");
        }
        let error = read("x.toml".to_owned(), b"Dear list").unwrap_err();
        assert!(matches!(error, ContentError::Text { .. }), "{error:?}");
    }
}
