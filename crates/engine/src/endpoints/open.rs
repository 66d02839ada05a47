//! Opens files, block devices and passthrough nodes, with direct I/O if they take it.
//!
//! Opening a device whose far side is gone may block for as long as its driver tries. So all of
//! this runs in a process that can be left behind ([`apart`]), and has a deadline.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use peerlane_fabric::{Fabric, PassthroughNode};
use peerlane_units::Nanos;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::endpoints::{self, EndError, Endpoint, Live, Passthrough, PathNode};
use crate::io::failure::Role;
use crate::io::journal::device_name;
use crate::io::ring::{Around as _, FileId, Nodes, PassthroughFile, Ring as _, apart};
use crate::io::system::System;
use crate::io::trace::Traced;

/// An open file, and whether it goes round the page cache.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file or device; for a passthrough node, its block device, which identifies it.
    pub(crate) file: File,
    pub(crate) is_direct: bool,
    /// The passthrough node that payload goes by.
    pub(crate) passthrough: Option<PassthroughFile>,
    /// Set when a block device is about to be closed; it is dropped after the file.
    closer: Option<apart::Closer>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let kind = self.file.metadata().map(|facts| facts.file_type());
        if kind.is_ok_and(|kind| kind.is_block_device()) {
            self.closer = Some(apart::Closer::start(&self.file));
        }
    }
}

/// Opens a file once more for reading, with a position and flags of its own.
///
/// # Errors
/// The system's answer; `ENOENT` if `/proc` is not mounted.
pub(crate) fn reopen(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// An open file as a ring knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    /// The file for payload.
    pub(crate) payload: FileId,
    /// The file for comparison.
    pub(crate) compared: FileId,
}

impl Opened {
    /// A file that was made or opened otherwise.
    pub(crate) fn new(file: File, is_direct: bool) -> Self {
        Self { file, is_direct, passthrough: None, closer: None }
    }

    pub(crate) fn attach<R: Nodes>(
        &self,
        ring: &mut Traced<R>,
        drive: &str,
    ) -> io::Result<Attached> {
        let compared = ring.attach_file(self.file.try_clone()?)?;
        ring.name_file(compared, drive);
        let Some(PassthroughFile { file, namespace }) = &self.passthrough else {
            return Ok(Attached { payload: compared, compared });
        };
        let node = PassthroughFile { file: file.try_clone()?, namespace: *namespace };
        let payload = ring.inner_mut().attach_node(node)?;
        ring.name_file(payload, drive);
        Ok(Attached { payload, compared })
    }
}

/// Looks at an end that is only read, and opens it.
///
/// # Errors
/// [`EndError`] by the obstacle.
pub(crate) fn open_end(
    system: &System,
    fabric: &Fabric,
    typed: &str,
    role: Role,
    deadline: Nanos,
) -> Result<(Endpoint, Opened), EndError> {
    let end = endpoints::look_to_read(system, fabric, typed, role)?;
    let not_here = || EndError::NotHere { machine: fabric.name.clone() };
    let live = end.live.as_ref().ok_or_else(not_here)?;
    let failed = |source| EndError::Open { path: live.path.clone(), source };
    let opened = match live.node {
        // The process may be somebody's server. The fork of one with 0.5 GB of memory took 29 ms (November 2026), for
        // each shard of a model. What the inode needed of a drive was read when it was looked at.
        PathNode::File { .. } => open_by(open_here, OFlags::RDONLY, live, deadline),
        PathNode::Block | PathNode::NewFile => open_source(live, deadline),
    };
    let opened = opened.map_err(failed)?;
    Ok((end, opened))
}

/// Opens the source for reading.
///
/// # Errors
/// The system's answer; `TimedOut` after `deadline`.
pub(crate) fn open_source(live: &Live, deadline: Nanos) -> io::Result<Opened> {
    open(OFlags::RDONLY, live, deadline)
}

/// Opens with direct I/O if that is expected, and through the page cache if the file system then
/// answers `EINVAL`; a device always has direct I/O.
///
/// # Errors
/// The system's answer; `TimedOut` after `deadline`.
pub(crate) fn open(flags: OFlags, live: &Live, deadline: Nanos) -> io::Result<Opened> {
    open_by(apart::open, flags, live, deadline)
}

/// Opens in this process; a pipe that took the place of a file is not waited for.
fn open_here(path: &Path, flags: OFlags, mode: Mode, _: Nanos) -> io::Result<File> {
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NONBLOCK, mode)?;
    // With it a ring may answer EAGAIN where it would have waited.
    rustix::fs::fcntl_setfl(&file, flags & OFlags::DIRECT)?;
    Ok(file.into())
}

fn open_by(
    open: fn(&Path, OFlags, Mode, Nanos) -> io::Result<File>,
    flags: OFlags,
    live: &Live,
    deadline: Nanos,
) -> io::Result<Opened> {
    // Of a file that is made: readable and writable by all whom the umask lets.
    let mode = Mode::from_raw_mode(0o666);
    let with = |flags: OFlags| open(live.guarded_path(), flags, mode, deadline);
    if live.is_direct {
        match with(flags | OFlags::DIRECT) {
            Ok(file) => {
                let of_node = flags - (OFlags::EXCL | OFlags::CREATE);
                let node = |node| open_node(of_node, live, node, &file, deadline);
                let passthrough = live.passthrough.as_ref().map(node).transpose()?;
                return Ok(Opened { file, is_direct: true, passthrough, closer: None });
            }
            Err(error)
                if live.node != PathNode::Block
                    && Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Opened { file: with(flags)?, is_direct: false, passthrough: None, closer: None })
}

/// Opens the passthrough node of an open block device, and first writes the device's dirty pages to
/// the drive. Without that a command would read older bytes, or be overwritten later.
fn open_node(
    flags: OFlags,
    live: &Live,
    passthrough: &Passthrough,
    block: &File,
    deadline: Nanos,
) -> io::Result<PassthroughFile> {
    apart::sync(block, deadline)?;
    drop_page_cache(block);
    let file = apart::open(&live.path, flags, Mode::empty(), deadline)?;
    if !are_one(&file, block)? {
        return Err(io::Error::other("it is not of the block device that was opened with it"));
    }
    let namespace = passthrough.namespace;
    let size = live.device.as_ref().map_or(0, |device| device.size.0);
    namespace.confirm(&file, size, deadline)?;
    Ok(PassthroughFile { file, namespace })
}

/// True when an open node and an open block device are of one namespace. Names may have changed
/// hands since the plan was made, open files not.
fn are_one(node: &File, block: &File) -> io::Result<bool> {
    let number = |file: &File| {
        let number = file.metadata()?.rdev();
        io::Result::Ok((rustix::fs::major(number), rustix::fs::minor(number)))
    };
    let (major, minor) = number(node)?;
    let node = PassthroughNode::read(Path::new("/"), major, minor).map_err(io::Error::other)?;
    let (major, minor) = number(block)?;
    let name = device_name(Path::new("/"), major, minor);
    Ok(node.is_some_and(|node| name == Some(node.block.name)))
}

/// Makes readers of a block device read the drive again.
pub(crate) fn drop_page_cache(block: &File) {
    if let Err(error) = rustix::fs::fadvise(block, 0, None, rustix::fs::Advice::DontNeed) {
        tracing::warn!(%error, "cannot drop the page cache of a block device");
    }
}
