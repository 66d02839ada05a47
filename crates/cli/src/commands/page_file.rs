//! Files that the program makes for people: written whole by rename, and over nothing but an earlier one.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::error::{Failure, Tried};

/// Bytes of a file by which it is known.
const BEGINNING: u64 = 1024;

/// Writes a file by rename where [`may_replace`] lets it.
///
/// # Errors
/// When it may not be replaced, or cannot be written; what was there is there then.
pub(super) fn write(
    text: &str,
    output: &Path,
    what: &str,
    is_ours: fn(&str) -> bool,
) -> Result<(), Failure> {
    let tried = || format!("write {}", output.display());
    may_replace(output, what, is_ours)?;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(Tried::to(tried()))?;
    file.write_all(text.as_bytes()).map_err(Tried::to(tried()))?;
    file.as_file().sync_all().map_err(Tried::to(tried()))?;
    file.persist(output).map_err(|error| Tried::to(tried())(error.error))?;
    Ok(())
}

/// Refuses to write over what does not begin as ours do; `what` ours are called.
///
/// # Errors
/// When something else is there, or it cannot be looked at.
pub(super) fn may_replace(
    output: &Path,
    what: &str,
    is_ours: fn(&str) -> bool,
) -> Result<(), Failure> {
    let tried = || format!("write {}", output.display());
    let found = match fs::symlink_metadata(output) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(Tried::to(tried()))?,
    };
    if !found.is_file() {
        return Err(Tried::to(tried())("there is something that is no regular file"));
    }
    let mut beginning = Vec::new();
    let file = fs::File::open(output).map_err(Tried::to(tried()))?;
    file.take(BEGINNING).read_to_end(&mut beginning).map_err(Tried::to(tried()))?;
    if beginning.is_empty() || is_ours(&String::from_utf8_lossy(&beginning)) {
        return Ok(());
    }
    let hint = "choose another name, or remove the file first".to_owned();
    Err(Tried::to(tried())(format!("it is there and is no {what}")).hint(hint))
}
