//! The files of a copy: the source, and a target that shows itself only when it is complete.
//!
//! A target file is made beside its final name and takes that name after verification, so that
//! nothing half copied is ever under it. Whatever ends the copy earlier removes it, unless a journal
//! says what is in it, so that the copy can go on. A target device is opened exclusively, which is the kernel's own check that nobody uses it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use peerlane_results::Refusal;
use peerlane_units::Bytes;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::CopyError;
use super::pieces::{Holes, Layout};
use super::preserve::Preserved;
use crate::endpoint::{Live, Node};
use crate::extents::Extent;

/// Names tried for the file beside the target.
const NAMES: u64 = 16;
/// Longest part of the target's name that is kept; file names end at 255 bytes.
const NAME_KEPT: usize = 200;

/// An open file, and whether it goes round the page cache.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) is_direct: bool,
}

/// Opens the source for reading.
pub(crate) fn open_source(live: &Live) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    options.read(true);
    open(&options, live, OFlags::empty())
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
    /// A file that has its name already; it is read only.
    Finished,
    /// Made at `path`, to become `name`.
    Beside {
        path: PathBuf,
        name: PathBuf,
        mode: u32,
        /// It has its name, or is to stay for a copy that goes on.
        is_kept: bool,
    },
}

impl Target {
    /// Opens a target device exclusively.
    pub(super) fn open_device(live: &Live) -> Result<Self, CopyError> {
        open_device(live)
    }

    /// Opens a target file that was finished before, to look at it.
    pub(super) fn open_finished(live: &Live) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File { action: "open", path: live.path.clone(), source };
        Ok(Self { opened: open_source(live).map_err(failed)?, place: Place::Finished })
    }

    /// Opens the file that an interrupted copy left beside the target's name.
    pub(super) fn reopen(live: &Live, path: &Path) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File {
            action: "open the unfinished file",
            path: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let made = Live { path: path.to_owned(), ..live.clone() };
        let opened = open(&options, &made, OFlags::NOFOLLOW).map_err(failed)?;
        let mode = final_mode(live).map_err(failed)?;
        let (path, name) = (path.to_owned(), live.path.clone());
        Ok(Self { opened, place: Place::Beside { path, name, mode, is_kept: true } })
    }

    /// The file beside the target's name; `None` where there is none.
    pub(super) fn partial(&self) -> Option<&Path> {
        match &self.place {
            Place::Beside { path, .. } => Some(path),
            Place::Device | Place::Finished => None,
        }
    }

    /// Whether the target is complete and has its name.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.place, Place::Finished)
    }

    /// Decides what becomes of an unfinished file when the copy ends.
    pub(super) fn set_kept(&mut self, kept: bool) {
        if let Place::Beside { is_kept, .. } = &mut self.place {
            *is_kept = kept;
        }
    }

    /// Gives a file its length and, where the source has data, its space, so that a full file system
    /// shows before anything moves; not every file system can. Holes stay holes.
    pub(super) fn reserve(
        &self,
        layout: Layout,
        holes: Holes,
        source: &File,
    ) -> Result<(), CopyError> {
        let Place::Beside { name, .. } = &self.place else { return Ok(()) };
        reserve(&self.opened.file, layout, holes, source).map_err(|source| CopyError::File {
            action: "reserve space for",
            path: name.clone(),
            source,
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.opened.file
    }

    pub(super) fn is_direct(&self) -> bool {
        self.opened.is_direct
    }

    /// Cuts a file to its length, gives it its metadata, makes it durable and gives it its name; a device is complete
    /// already.
    pub(super) fn finish(mut self, length: Bytes, preserved: &Preserved) -> Result<(), CopyError> {
        let Place::Beside { path, name, mode, is_kept } = &mut self.place else {
            return Ok(());
        };
        let failed = |action| {
            let path = name.clone();
            move |source| CopyError::File { action, path, source }
        };
        let file = &self.opened.file;
        file.set_len(length.0).map_err(failed("set the length of"))?;
        preserved.finish(file, name, *mode)?;
        file.sync_all().map_err(failed("flush"))?;
        fs::rename(&*path, &*name).map_err(failed("give its name to"))?;
        *is_kept = true;
        let directory = name.parent().unwrap_or(Path::new("/"));
        File::open(directory).and_then(|opened| opened.sync_all()).map_err(failed("make durable"))
    }

    /// Makes a file beside the target's name; `seed` chooses its name.
    pub(super) fn beside(live: &Live, seed: u64) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File {
            action: "make a file beside",
            path: live.path.clone(),
            source,
        };
        let mode = final_mode(live).map_err(failed)?;
        let path = make_beside(&live.path, seed).map_err(failed)?;
        // From here on the file is removed whatever happens.
        let mut place =
            Place::Beside { path: path.clone(), name: live.path.clone(), mode, is_kept: false };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let made = Live { path, ..live.clone() };
        let opened = open(&options, &made, OFlags::empty()).map_err(|source| {
            remove(&mut place);
            failed(source)
        })?;
        Ok(Self { opened, place })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        remove(&mut self.place);
    }
}

fn remove(place: &mut Place) {
    if let Place::Beside { path, is_kept: false, .. } = place {
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
    let mut beside = stem_beside(name);
    beside.push(format!("{:08x}", seed & 0xffff_ffff));
    beside
}

fn stem_beside(name: &Path) -> OsString {
    let own = name.file_name().unwrap_or(OsStr::new(""));
    let kept = if own.len() <= NAME_KEPT { own } else { OsStr::new("") };
    let mut stem = OsString::from(".");
    stem.push(kept);
    stem.push(".peerlane-");
    stem
}

/// Whether a file of this name is one that a copy onto `name` makes beside it.
pub(crate) fn is_partial_of(name: &Path, found: &OsStr) -> bool {
    let stem = stem_beside(name);
    let rest = found.as_bytes().strip_prefix(stem.as_bytes());
    rest.is_some_and(|rest| rest.len() == 8 && rest.iter().all(u8::is_ascii_hexdigit))
}

fn reserve(file: &File, layout: Layout, holes: Holes, source: &File) -> io::Result<()> {
    // Proof and tail read and write whole blocks; the file is cut to its length in the end.
    let room = layout.length.next_multiple_of(layout.block.max(1));
    if file.metadata()?.len() < room {
        file.set_len(room)?;
    }
    if room == 0 || holes == Holes::Moved {
        return allocate(file, 0..room);
    }
    for extent in layout.walk(source, &(0..layout.length))? {
        if let Extent::Data(data) = extent? {
            let data = layout.in_copy(&data);
            let end = if data.end == layout.length { room } else { data.end };
            allocate(file, data.start..end)?;
        }
    }
    Ok(())
}

fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let length = range.end - range.start;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, length) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
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
