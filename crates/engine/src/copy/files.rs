//! The files of a copy: the source, and a target that shows itself only when it is complete.
//!
//! A target file is made beside its final name and takes that name after verification, so that
//! nothing half copied is ever under it. Whatever ends the copy earlier removes it. A target device
//! is opened exclusively, which is the kernel's own check that nobody uses it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use peerlane_results::Refusal;
use peerlane_units::Bytes;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::CopyError;
use crate::endpoint::{Live, Node};

/// Names tried for the file beside the target.
const NAMES: u64 = 16;
/// Longest part of the target's name that is kept; file names end at 255 bytes.
const NAME_KEPT: usize = 200;

/// An open file, and whether it goes round the page cache.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) is_direct: bool,
}

/// Opens the source for reading.
pub(super) fn open_source(live: &Live) -> Result<Opened, CopyError> {
    let mut options = OpenOptions::new();
    options.read(true);
    open(&options, live, OFlags::empty()).map_err(|source| CopyError::File {
        action: "open",
        path: live.path.clone(),
        source,
    })
}

/// The target of a copy.
#[derive(Debug)]
pub(super) struct Target {
    opened: Opened,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Device,
    /// Made at `path`, to become `name`.
    Beside {
        path: PathBuf,
        name: PathBuf,
        mode: u32,
        is_finished: bool,
    },
}

impl Target {
    /// Opens a target device exclusively, or makes a file beside the target's name with room for
    /// `room` bytes. `seed` chooses that file's name.
    pub(super) fn open(live: &Live, room: Bytes, seed: u64) -> Result<Self, CopyError> {
        match live.node {
            Node::Block => open_device(live),
            Node::File { .. } | Node::NewFile => Self::beside(live, room, seed),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.opened.file
    }

    pub(super) fn is_direct(&self) -> bool {
        self.opened.is_direct
    }

    /// Cuts a file to its length, makes it durable and gives it its name; a device is complete
    /// already.
    pub(super) fn finish(mut self, length: Bytes) -> Result<(), CopyError> {
        let Place::Beside { path, name, mode, is_finished } = &mut self.place else {
            return Ok(());
        };
        let failed = |action| {
            let path = name.clone();
            move |source| CopyError::File { action, path, source }
        };
        let file = &self.opened.file;
        file.set_len(length.0).map_err(failed("set the length of"))?;
        let mode = Permissions::from_mode(*mode);
        file.set_permissions(mode).map_err(failed("set the permissions of"))?;
        file.sync_all().map_err(failed("flush"))?;
        fs::rename(&*path, &*name).map_err(failed("give its name to"))?;
        *is_finished = true;
        let directory = name.parent().unwrap_or(Path::new("/"));
        File::open(directory).and_then(|opened| opened.sync_all()).map_err(failed("make durable"))
    }

    fn beside(live: &Live, room: Bytes, seed: u64) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File {
            action: "make a file beside",
            path: live.path.clone(),
            source,
        };
        let mode = final_mode(live).map_err(failed)?;
        let path = make_beside(&live.path, seed).map_err(failed)?;
        // From here on the file is removed whatever happens.
        let mut place =
            Place::Beside { path: path.clone(), name: live.path.clone(), mode, is_finished: false };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let made = Live { path, ..live.clone() };
        let opened = open(&options, &made, OFlags::empty()).map_err(|source| {
            remove(&mut place);
            failed(source)
        })?;
        let target = Self { opened, place };
        reserve(&target.opened.file, room).map_err(|source| CopyError::File {
            action: "reserve space for",
            path: live.path.clone(),
            source,
        })?;
        Ok(target)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        remove(&mut self.place);
    }
}

fn remove(place: &mut Place) {
    if let Place::Beside { path, is_finished: false, .. } = place {
        if let Err(error) = fs::remove_file(&*path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished file");
        }
    }
}

fn open_device(live: &Live) -> Result<Target, CopyError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match open(&options, live, OFlags::EXCL) {
        Ok(opened) => Ok(Target { opened, place: Place::Device }),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Err(CopyError::Refused(vec![Refusal {
                reason: format!(
                    "{} is in use: the kernel refuses to open it exclusively",
                    live.path.display()
                ),
                hint: Some(format!("lsblk {0}; fuser -v {0}", live.path.display())),
                forceable: false,
            }]))
        }
        Err(source) => Err(CopyError::File { action: "open", path: live.path.clone(), source }),
    }
}

/// Opens with direct I/O where that is expected, and through the page cache where the file system
/// then answers `EINVAL`; a device always has direct I/O.
fn open(options: &OpenOptions, live: &Live, more: OFlags) -> io::Result<Opened> {
    let with = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        options.clone().custom_flags(flags).open(&live.path)
    };
    if live.is_direct {
        match with(more | OFlags::DIRECT) {
            Ok(file) => return Ok(Opened { file, is_direct: true }),
            Err(error)
                if live.node != Node::Block
                    && Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Opened { file: with(more)?, is_direct: false })
}

/// Makes an empty file, for its owner only, in the directory of `name`.
fn make_beside(name: &Path, seed: u64) -> io::Result<PathBuf> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 0..NAMES {
        let path = name.with_file_name(name_beside(name, seed.wrapping_add(number)));
        match options.open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn name_beside(name: &Path, seed: u64) -> OsString {
    let own = name.file_name().unwrap_or(OsStr::new(""));
    let kept = if own.len() <= NAME_KEPT { own } else { OsStr::new("") };
    let mut beside = OsString::from(".");
    beside.push(kept);
    beside.push(format!(".peerlane-{:08x}", seed & 0xffff_ffff));
    beside
}

/// Reserves space, so that a full file system shows before anything moves; not every file system can.
fn reserve(file: &File, room: Bytes) -> io::Result<()> {
    if room == Bytes::ZERO {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, room.0) {
        Ok(()) => Ok(()),
        // A proof reads the target before it writes, so the length must be there.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(room.0),
        Err(errno) => Err(errno.into()),
    }
}

/// The permissions of the file that is replaced, or those of any new file.
fn final_mode(live: &Live) -> io::Result<u32> {
    if live.node != Node::NewFile {
        return Ok(fs::metadata(&live.path)?.permissions().mode() & 0o7777);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status
        .lines()
        .find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    Ok(0o666 & !umask.unwrap_or(0o022))
}
