//! A machine whose drives, memory, files and power are simulated, under the real copy.
//!
//! Rings move bytes of [`SimFile`]s; other files are real ones in a [`Folder`] that knows their
//! state after a loss of power. An open drive is a file in memory that stands for it: the kernel
//! tells its holes, the simulation its content. Every request and every change of a small file is
//! an operation, and at each of them something may happen. A machine without power, and a program
//! that was killed, change nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use peerlane_memory::{MemoryError, P2pRefusal, Region, host};
use peerlane_results::MemoryFacts;
use peerlane_units::{Bytes, Nanos};
use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::figures::DriveFigures;
use super::folder::Folder;
use super::machine_ring::{MachineRing, judge_time};
use super::world::{FileSystem, QueueEvent};
use crate::endpoints::machine::Machine;
use crate::endpoints::open::Opened;
use crate::endpoints::{Live, PathNode};
use crate::io::device_memory::DeviceRefusal;
use crate::io::journal::{
    DeviceIdentity, FileIdentity, IdKind, Identity, JournalError, StableId, identity_of_file,
};
use crate::io::random::Random;
use crate::io::ring::sim::{Mood, SimClock, SimFile, SimRing};
use crate::io::ring::{AnyRing, UringError};
use crate::io::system::System;
use crate::io::watch::Phase;

/// True for zeroes only; comparing pages is ten times as fast as comparing bytes.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|page| page == &[0; 4096][..page.len()])
}

/// State of the program and of its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Runs,
    /// The program was killed; its writes are kept.
    Killed,
    /// The machine has no power.
    Dark,
}

/// Path, identity and journal name of a drive.
#[derive(Debug, Clone)]
pub(super) struct DriveName {
    pub(super) path: PathBuf,
    serial: String,
    /// Tells it from another one behind its path.
    version: i64,
    /// Empty for the source.
    pub(super) journal: OsString,
}

impl DriveName {
    /// The name of a drive; the source is 0.
    pub(super) fn new(number: usize, version: i64) -> Self {
        let path = PathBuf::from(format!("/dev/nvme{number}n1"));
        let serial = format!("S{number}-{version}");
        Self { path, serial, version, journal: OsString::new() }
    }

    pub(super) fn identity(&self, size: Bytes) -> DeviceIdentity {
        DeviceIdentity {
            name: self.path.to_string_lossy().trim_start_matches("/dev/").to_owned(),
            model: None,
            ids: vec![StableId { kind: IdKind::Serial, value: self.serial.clone() }],
            size,
            partition: None,
        }
    }
}

/// A simulated drive, and the open file that represents it.
#[derive(Debug)]
pub(super) struct SimulatedDrive {
    pub(super) name: DriveName,
    /// Offset of the copy on it, in bytes.
    pub(super) offset: u64,
    /// Represents the drive in open calls.
    token: Rc<File>,
    pub(super) content: Rc<RefCell<SimFile>>,
}

impl SimulatedDrive {
    pub(super) fn new(name: DriveName, content: SimFile, offset: u64, token: Rc<File>) -> Self {
        Self { name, offset, token, content: Rc::new(RefCell::new(content)) }
    }

    /// Creates the file that represents a drive; with `tells_holes`, its zero pages are holes.
    pub(super) fn token(content: &SimFile, tells_holes: bool) -> io::Result<File> {
        let token = rustix::fs::memfd_create("drive", MemfdFlags::CLOEXEC)?;
        let token = File::from(token);
        token.set_len(content.bytes.len() as u64)?;
        let pages = content.bytes.chunks(4096).zip((0..).step_by(4096));
        if !tells_holes {
            token.write_all_at(&content.bytes, 0)?;
            return Ok(token);
        }
        for (page, offset) in pages.filter(|(page, _)| !is_zero(page)) {
            token.write_all_at(&page[..1], offset)?;
        }
        Ok(token)
    }

    pub(super) fn inode(&self) -> io::Result<u64> {
        Ok(self.token.metadata()?.ino())
    }
}

/// Scheduled faults, and the observations of a run.
#[derive(Debug, Default)]
pub(super) struct FaultState {
    /// The event, and the number of the request at which it happens.
    pub(super) event: Option<(u64, QueueEvent)>,
    /// Number of the drive that an event of a target strikes.
    pub(super) struck: usize,
    /// Number of the change of a small file at which the program ends, and how.
    pub(super) cut_at_change: Option<(u64, Life)>,
    /// Texts that still fit on the disk of the journal.
    pub(super) room: Option<u64>,
    pub(super) operations: u64,
    pub(super) changes: u64,
    pub(super) life: Life,
    /// Addresses of device memory in use.
    pub(super) lent: BTreeSet<usize>,
    /// Requests that were in flight when their ring was dropped.
    pub(super) left: u32,
    /// Of the source, then of the targets.
    pub(super) figures: Vec<DriveFigures>,
    /// A promise that was broken when an operation was asked for.
    pub(super) untrue: Option<String>,
}

impl FaultState {
    /// Keeps the first promise that was broken.
    pub(super) fn note_untrue(&mut self, what: String) {
        self.untrue.get_or_insert(what);
    }
}

/// The machine.
pub(super) struct SimMachine {
    system: System,
    /// The source, then the targets.
    pub(super) drives: Vec<SimulatedDrive>,
    pub(super) state: Rc<RefCell<FaultState>>,
    pub(super) is_stopped: Rc<Cell<bool>>,
    /// The phase that the copy reports; `None` before it begins.
    pub(super) phase: Rc<Cell<Option<Phase>>>,
    pub(super) folder: Rc<RefCell<Folder>>,
    /// File system of a target that is a file: it is the only target.
    pub(super) file_system: Option<FileSystem>,
    pub(super) random: RefCell<Random>,
    entries: u32,
    mood: Mood,
    pub(super) promise: Promise,
    pub(super) clock: SimClock,
}

/// Content that the copy must leave at each target.
#[derive(Debug)]
pub(super) struct Promise {
    pub(super) payload: Vec<u8>,
    /// True if data may be lost although every request succeeds: only verification finds that.
    pub(super) is_excused: bool,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMachine").field("state", &self.state).finish_non_exhaustive()
    }
}

impl SimMachine {
    pub(super) fn new(
        drives: Vec<SimulatedDrive>,
        (folder, file_system): (Rc<RefCell<Folder>>, Option<FileSystem>),
        state: FaultState,
        promise: Promise,
        (random, entries, mood): (Random, u32, Mood),
    ) -> Self {
        Self {
            system: System::at(Path::new("/nonexistent")),
            drives,
            state: Rc::new(RefCell::new(state)),
            is_stopped: Rc::default(),
            phase: Rc::default(),
            folder,
            file_system,
            random: RefCell::new(random),
            entries,
            mood,
            promise,
            clock: SimClock::default(),
        }
    }

    /// The drive behind a path; a target that is a file is none.
    fn drive(&self, path: &Path) -> Option<&SimulatedDrive> {
        let count = if self.file_system.is_some() { 1 } else { self.drives.len() };
        self.drives[..count].iter().find(|drive| drive.name.path == path)
    }
}

impl Machine for SimMachine {
    fn system(&self) -> &System {
        &self.system
    }

    fn ring(&self, entries: u32, _has_nodes: bool) -> Result<AnyRing, UringError> {
        let seed = self.random.borrow_mut().next();
        // Few, so that there is not always room.
        let ring = SimRing::new(entries.min(self.entries), seed, self.mood);
        Ok(AnyRing::Simulated(Box::new(MachineRing::new(self, ring))))
    }

    fn host_memory(&self, length: Bytes) -> Result<Region, MemoryError> {
        // It stands for the bytes that the simulated ring has of it, and is never touched.
        host::untouched(length)
    }

    fn device_memory(
        &self,
        _memory: &MemoryFacts,
        _address: &str,
        length: Bytes,
    ) -> Result<Region, DeviceRefusal> {
        let region = self.host_memory(length).map_err(|_| P2pRefusal::Exhausted {
            allocate: PathBuf::from("/simulated"),
            length,
            available: None,
        })?;
        self.state.borrow_mut().lent.insert(region.address().as_ptr() as usize);
        Ok(region)
    }

    fn open(&self, flags: OFlags, live: &Live, _deadline: Nanos) -> io::Result<Opened> {
        if let Some(drive) = self.drive(&live.path) {
            return Ok(Opened::new(drive.token.try_clone()?, true));
        }
        let file = rustix::fs::open(&live.path, flags | OFlags::CLOEXEC, Mode::empty())?;
        let is_direct = self.file_system.is_some_and(|one| one.takes_direct);
        Ok(Opened::new(file.into(), is_direct))
    }

    fn identify(&self, live: &Live, file: &File) -> Result<Identity, JournalError> {
        let Some(drive) = self.drive(&live.path) else {
            return Ok(Identity::File(identity_of_file(self.system.root(), &live.path, file)?));
        };
        let size = Bytes(drive.content.borrow().bytes.len() as u64);
        Ok(match live.node {
            PathNode::Block => Identity::Device(drive.name.identity(size)),
            PathNode::File { .. } | PathNode::NewFile => Identity::File(FileIdentity {
                path: live.path.display().to_string(),
                device: None,
                file_system: 1,
                inode: 1,
                size,
                modified_ns: drive.name.version,
                changed_ns: drive.name.version,
                born_ns: None,
            }),
        })
    }

    fn is_drive_gone(&self, device: &str) -> bool {
        let drive = self.drive(&Path::new("/dev").join(device));
        drive.is_some_and(|drive| drive.content.borrow().is_gone)
    }

    fn nap(&self, time: Nanos) {
        self.clock.pass(time);
        judge_time(&self.clock);
    }
}
