//! Files of the repository that a test writes anew on request.

use std::fs;
use std::path::Path;

/// Compares a file with the text that it should have; `UPDATE=1` writes it.
///
/// # Panics
/// When they differ, with the first line that does.
#[track_caller]
pub fn check_file(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    let line = kept.lines().zip(text.lines()).zip(1..).find(|((kept, now), _)| kept != now);
    assert!(kept == text, "{} differs, UPDATE=1 writes it: {line:?}", path.display());
}
