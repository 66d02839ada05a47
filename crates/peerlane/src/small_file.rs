//! Reads files by a person's names, with a bound on their size.
//!
//! A name may lead anywhere: a pipe would make the program wait for ever, a device has no end.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use peerlane_engine::suggestion::hint_of_path;
use peerlane_units::Bytes;
use rustix::fs::OFlags;

/// Reads all of the regular file at `path`, if that is no more than `most` bytes.
///
/// # Errors
/// When it cannot be read, is not regular, is longer, or is not UTF-8.
pub fn read(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// The same for binary files.
///
/// # Errors
/// When it cannot be read, is not regular, or is longer.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe is opened without waiting for its other side.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    at_most(file, most)
}

/// All of a source that may grow meanwhile, if that is no more than `most` bytes.
///
/// # Errors
/// When it cannot be read, or is longer.
pub fn at_most(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {}", Bytes(most))));
    }
    Ok(bytes)
}

/// Returns advice on a file or folder that cannot be read.
pub fn hint(path: &Path, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let path = path.display();
            Some(format!("get permission to read it: `namei -l {path}` shows who has it"))
        }
        io::ErrorKind::NotFound => hint_of_path(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_bounded_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let pipe = at("pipe");
        let mode = rustix::fs::Mode::from_bits_truncate(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::write(at("text"), "12345").unwrap();
        fs::write(at("bytes"), [0xff]).unwrap();
        assert_eq!(read(&at("text"), 5).unwrap(), "12345");
        for (path, words) in [
            (at("text"), "larger than 4 B"),
            (at("bytes"), "not UTF-8"),
            (pipe, "not a regular file"),
            ("/dev/zero".into(), "not a regular file"),
            (folder.path().to_owned(), "not a regular file"),
        ] {
            let error = read(&path, 4).unwrap_err().to_string();
            assert!(error.contains(words), "{}: {error}", path.display());
        }
    }
}
