//! Names of partial files: those that become a target when it is complete.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Longest part of the final name that is kept; file names end at 255 bytes.
const NAME_KEPT: usize = 200;

/// The name of a partial file up to its random digits.
pub(crate) fn partial_stem(name: &OsStr) -> OsString {
    let kept = if name.len() <= NAME_KEPT { name } else { OsStr::new("") };
    let mut stem = OsString::from(".");
    stem.push(kept);
    stem.push(".peerlane-");
    stem
}

/// True if a file of this name is a partial file of `target`.
pub(crate) fn is_partial_of(target: &Path, found: &OsStr) -> bool {
    let stem = partial_stem(target.file_name().unwrap_or(OsStr::new("")));
    let rest = found.as_bytes().strip_prefix(stem.as_bytes());
    rest.is_some_and(|rest| rest.len() == 8 && rest.iter().all(u8::is_ascii_hexdigit))
}
