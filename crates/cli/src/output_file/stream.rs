//! Places that pass bytes on and keep none of them: the terminal, a pipe with a reader,
//! `/dev/null`. Nothing is replaced there, so nothing need be ours.
//!
//! Leaves out all other devices: a byte written to one of them has unknown effects. The one thing
//! to know: the files behind standard output and error are never opened anew, since a file would be
//! written from its beginning.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, major, minor};

use super::OutputError;
use crate::error::Failure;

/// Folders of the program's open files; names below them are links to those.
const OWN: [&str; 2] = ["/dev/fd", "/proc/self/fd"];
/// `/dev/null` and `/dev/full` (Linux, "Linux allocated devices", character major 1).
const SINKS: [(u32, u32); 2] = [(1, 3), (1, 7)];

/// The place of this name, open, if it is one of these.
///
/// # Errors
/// When it is one, and cannot be opened: the pipe has no reader, or it may not be written.
pub(crate) fn open(path: &Path) -> Result<Option<OwnedFd>, Failure> {
    find(path).map_err(|error| OutputError::System(error).on(path))
}

fn find(path: &Path) -> io::Result<Option<OwnedFd>> {
    let number = own(path);
    match number {
        Some("1") => return io::stdout().as_fd().try_clone_to_owned().map(Some),
        Some("2") => return io::stderr().as_fd().try_clone_to_owned().map(Some),
        _ => {}
    }
    let found = if number.is_some() { path.metadata() } else { path.symlink_metadata() };
    if !found.is_ok_and(|found| may_be_passed_on(&found)) {
        return Ok(None);
    }
    // A pipe that nobody reads would be waited for.
    let follow = if number.is_some() { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | follow;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    Ok(is_passed_on(&file)?.then(|| file.into()))
}

/// The program's own descriptor of a name: of `/dev/stdout`, 1.
fn own(path: &Path) -> Option<&str> {
    match path.to_str()? {
        "/dev/stdout" => Some("1"),
        "/dev/stderr" => Some("2"),
        _ => {
            let below = OWN.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
            below.to_str().filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        }
    }
}

/// Opening some devices has effects of its own: of those with a driver, only terminals are opened (Linux, "Linux
/// allocated devices": majors 4 and 5 are terminals and consoles, 136 to 143 pseudo-terminals).
fn may_be_passed_on(found: &Metadata) -> bool {
    let kind = found.file_type();
    let device = (major(found.rdev()), minor(found.rdev()));
    let is_terminal = matches!(device.0, 4 | 5 | 136..=143);
    kind.is_fifo() || kind.is_char_device() && (is_terminal || SINKS.contains(&device))
}

/// True when the opened file is a stream, whatever its name said before; from now on writes to it
/// block.
fn is_passed_on(file: &File) -> io::Result<bool> {
    rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? - OFlags::NONBLOCK)?;
    Ok(may_be_passed_on(&file.metadata()?))
}
