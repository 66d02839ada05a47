//! The files of a copy: the source, and a target that shows itself only when it is complete.
//!
//! A target file is made next to its final name and takes that name after verification, so nothing
//! half copied is ever under it. Whatever ends the copy earlier removes the file, unless a journal
//! of its content lets the copy go on. A target device is opened exclusively, which is the
//! kernel's own check that it is unused.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use peerlane_results::{Evidence, Refusal, RouteEvidence, RouteVerdict};
use peerlane_units::{Bytes, Nanos};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::CopyError;
use super::beside::Beside;
use super::pieces::{CopyLayout, Holes};
use super::preserve::Preserved;
use crate::endpoints::machine::{Machine, host};
use crate::endpoints::open::{Opened, drop_page_cache};
use crate::endpoints::{Live, PathNode};
use crate::io::extents::Extent;
use crate::io::failure::Role;
use crate::io::small_files::SmallFiles;

/// Tries for a device that another process claims, and the time between: five seconds in all. Nothing
/// tells when a claim ends.
const CLAIM_NAPS: u32 = 250;
const CLAIM_NAP: Nanos = Nanos(20_000_000);

/// Kind of open of a device: the one that keeps others away, or one of several below such a one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Exclusive,
    Shared,
}

/// Opens a target that is written where it is: a device as claimed, a file with room up to `end`.
pub(crate) fn open_in_place(
    live: &Live,
    end: u64,
    claim: Claim,
    deadline: Nanos,
) -> Result<Opened, CopyError> {
    let failed = |action| {
        let path = live.path.clone();
        move |source| CopyError::File { action, path, source }
    };
    let flags = match (live.node, claim) {
        (PathNode::NewFile, _) => OFlags::RDWR | OFlags::CREATE,
        (PathNode::Block, Claim::Exclusive) => OFlags::RDWR | OFlags::EXCL,
        _ => OFlags::RDWR,
    };
    let opened = match open_claimed(host(), flags, live, deadline) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(in_use(live)),
        Err(error) => return Err(failed("open")(error)),
    };
    if live.node != PathNode::Block {
        grow(&opened.file, end).map_err(failed("reserve space for"))?;
    }
    Ok(opened)
}

/// Gives a file room up to `end`; if there is none it is as long as it was.
///
/// # Errors
/// The system's answer: the disk is full, or takes no file of that size.
pub(crate) fn grow(file: &File, end: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    if length >= end {
        return Ok(());
    }
    let reserved = file.set_len(end).and_then(|()| allocate(host(), file, length..end));
    if reserved.is_err() {
        // What was reserved before the room ended goes back; the first error is the one to be told.
        let _ = file.set_len(length);
    }
    reserved
}

/// Describes the care taken of the block device of a passthrough node. The kernel does not tie the
/// two.
pub(super) fn evidence_of_node(live: &Live, role: Role) -> Option<RouteEvidence> {
    let passthrough = live.passthrough.as_ref()?;
    let (block, node) = (passthrough.block.display(), live.path.display());
    let evidence = Evidence {
        looked_at: format!("{block}, the block device of {node}"),
        showed: match role {
            Role::Source => "its page cache was written back before the first read",
            Role::Target => {
                "it is held open exclusively, its page cache was written back before the first \
                 write and is dropped in the end"
            }
        }
        .to_owned(),
    };
    Some(evidence.says(RouteVerdict::NotKnown))
}

/// The target of a copy.
#[derive(Debug)]
pub(super) struct OpenTarget<'m> {
    opened: Opened,
    place: TargetLocation<'m>,
}

#[derive(Debug)]
enum TargetLocation<'m> {
    Device,
    /// A file that has its name already; it is read only.
    Finished,
    /// A file that is to take its name.
    Beside(Beside<'m>),
}

impl Drop for OpenTarget<'_> {
    /// Drops the block device's page cache, which lacks the writes of commands.
    fn drop(&mut self) {
        if self.opened.passthrough.is_some() {
            drop_page_cache(&self.opened.file);
        }
    }
}

impl<'m> OpenTarget<'m> {
    /// Opens a target device exclusively.
    pub(super) fn open_device(
        machine: &dyn Machine,
        live: &Live,
        deadline: Nanos,
    ) -> Result<Self, CopyError> {
        match open_claimed(machine, OFlags::RDWR | OFlags::EXCL, live, deadline) {
            Ok(opened) => Ok(Self { opened, place: TargetLocation::Device }),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(in_use(live)),
            Err(source) => Err(CopyError::File { action: "open", path: live.path.clone(), source }),
        }
    }

    /// Opens a target file that was finished before, to look at it.
    pub(super) fn open_finished(
        machine: &dyn Machine,
        live: &Live,
        deadline: Nanos,
    ) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File { action: "open", path: live.path.clone(), source };
        let opened = machine.open(OFlags::RDONLY, live, deadline).map_err(failed)?;
        Ok(Self { opened, place: TargetLocation::Finished })
    }

    /// Makes a file next to the target's name; `seed` chooses its name.
    pub(super) fn beside(
        machine: &'m dyn Machine,
        live: &Live,
        source: &File,
        seed: u64,
    ) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File {
            action: "make a file next to",
            path: live.path.clone(),
            source,
        };
        let (beside, file) = Beside::make(machine, live, source, seed).map_err(failed)?;
        Ok(Self::of_file(live, beside, file))
    }

    /// Opens the file that an interrupted copy left next to the target's name.
    pub(super) fn reopen(
        machine: &'m dyn Machine,
        live: &Live,
        source: &File,
        path: &Path,
    ) -> Result<Self, CopyError> {
        let failed = |source| CopyError::File {
            action: "open the unfinished file",
            path: path.to_owned(),
            source,
        };
        let made = path.file_name().unwrap_or_default();
        let (beside, file) = Beside::reopen(machine, live, source, made).map_err(failed)?;
        Ok(Self::of_file(live, beside, file))
    }

    /// Direct I/O is switched on when its space is reserved.
    fn of_file(live: &Live, beside: Beside<'m>, file: File) -> Self {
        Self { opened: Opened::new(file, live.is_direct), place: TargetLocation::Beside(beside) }
    }

    /// The file next to the target's name; `None` if there is none.
    pub(super) fn partial(&self) -> Option<PathBuf> {
        match &self.place {
            TargetLocation::Beside(beside) => Some(beside.path()),
            TargetLocation::Device | TargetLocation::Finished => None,
        }
    }

    /// True when the target is complete and has its name.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.place, TargetLocation::Finished)
    }

    /// True when the written file can still be found by its name.
    pub(super) fn is_there(&self) -> bool {
        match &self.place {
            TargetLocation::Beside(beside) => beside.is_there(&self.opened.file),
            TargetLocation::Device | TargetLocation::Finished => true,
        }
    }

    /// Decides whether an unfinished file stays when the copy ends.
    pub(super) fn set_kept(&mut self, kept: bool) {
        if let TargetLocation::Beside(beside) = &mut self.place {
            beside.set_kept(kept);
        }
    }

    /// Gives a file its length, and space for the data of the source: a full file system shows
    /// before anything moves. Not every file system can do so. Holes stay holes.
    ///
    /// Direct I/O is tested only now: without its space a file system may keep a small or encrypted
    /// file in another way.
    pub(super) fn reserve(
        &mut self,
        machine: &dyn Machine,
        layout: CopyLayout,
        holes: Holes,
        source: &File,
    ) -> Result<(), CopyError> {
        let TargetLocation::Beside(beside) = &self.place else { return Ok(()) };
        let file = &self.opened.file;
        reserve(machine, file, layout, holes, source).map_err(|source| CopyError::File {
            action: "reserve space for",
            path: beside.final_path(),
            source,
        })?;
        if self.opened.is_direct {
            self.opened.is_direct = machine.set_direct(file).map_err(|errno| CopyError::File {
                action: "switch direct I/O for",
                path: beside.final_path(),
                source: errno.into(),
            })?;
        }
        Ok(())
    }

    pub(super) fn file(&self) -> &File {
        &self.opened.file
    }

    pub(super) fn is_direct(&self) -> bool {
        self.opened.is_direct
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Cuts a file to its length, gives it its metadata, makes it durable and gives it its name; a
    /// device is complete already.
    pub(super) fn finish(&mut self, length: Bytes, preserved: &Preserved) -> Result<(), CopyError> {
        let TargetLocation::Beside(beside) = &mut self.place else { return Ok(()) };
        beside.finish(&self.opened.file, length, preserved)
    }
}

/// Opens an end. A claim of another process is waited for a moment: the children of a copy that was just
/// killed (`ring::apart`), and its ring, which the kernel takes down after the process
/// (`io_ring_exit_work`, `io_uring/io_uring.c`), hold the device until they end.
fn open_claimed(
    machine: &dyn Machine,
    flags: OFlags,
    live: &Live,
    deadline: Nanos,
) -> io::Result<Opened> {
    for _ in 0..CLAIM_NAPS {
        match machine.open(flags, live, deadline) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => machine.nap(CLAIM_NAP),
            opened => return opened,
        }
    }
    machine.open(flags, live, deadline)
}

fn in_use(live: &Live) -> CopyError {
    CopyError::Refused(vec![Refusal {
        reason: format!(
            "{} is in use: the kernel refuses to open it exclusively",
            live.guarded_path().display()
        ),
        hint: Some(format!("lsblk {0}; fuser -v {0}", live.guarded_path().display())),
        forceable: false,
    }])
}

fn reserve(
    machine: &dyn Machine,
    file: &File,
    layout: CopyLayout,
    holes: Holes,
    source: &File,
) -> io::Result<()> {
    // Proof and tail read and write whole blocks; the file is cut to its length in the end.
    let room = layout.length.next_multiple_of(layout.block.max(1));
    if file.metadata()?.len() < room {
        machine.set_length(file, room)?;
    }
    if room == 0 || holes == Holes::Moved {
        return allocate(machine, file, 0..room);
    }
    for extent in layout.walk(source, &(0..layout.length))? {
        if let Extent::Data(data) = extent? {
            let data = layout.in_copy(&data);
            let end = if data.end == layout.length { room } else { data.end };
            allocate(machine, file, data.start..end)?;
        }
    }
    Ok(())
}

fn allocate(files: &(impl SmallFiles + ?Sized), file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    match files.allocate(file, range) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
