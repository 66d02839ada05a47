//! A machine whose drives, memory, files and power are simulated, under the real copy.
//!
//! Rings move bytes of [`SimFile`]s; small files are real ones in a folder of their own, beside a [`Disk`] that knows
//! what a loss of power leaves of them. An open drive is a file in memory that stands for it: where its holes are is
//! told by the kernel, its content by the simulation. Every request and every change of a small file is an operation,
//! and at each of them something may happen. A machine without power, and a program that was killed, change nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
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
use rustix::io::Errno;

use super::disk::Disk;
use super::world::{Event, index};
use crate::device_memory::DeviceRefusal;
use crate::endpoint::{Live, Node};
use crate::journal::{
    self, DeviceIdentity, FileIdentity, IdKind, Identity, JournalError, StableId,
};
use crate::machine::{self, Machine, SmallFiles};
use crate::open::Opened;
use crate::random::Random;
use crate::ring::sim::{Mood, SimClock, SimFile, SimRegion, SimRing};
use crate::ring::{AnyRing, Completion, FileId, Operation, PushError, RegionId, Ring, UringError};
use crate::system::System;

thread_local! {
    /// Regions for reuse, by length: allocating pages takes longer than a simulated copy. Their content is not used;
    /// the simulated ring has bytes of its own.
    static POOL: RefCell<BTreeMap<Bytes, Vec<Region>>> = RefCell::default();
    /// Bytes of simulated regions for reuse, by length.
    static BYTES: RefCell<BTreeMap<usize, Vec<Vec<u8>>>> = RefCell::default();
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

/// Path of a drive: the source is 0.
pub(super) fn path_of(number: usize) -> String {
    format!("/dev/nvme{number}n1")
}

/// A simulated drive, and the open file that represents it.
#[derive(Debug)]
pub(super) struct Drive {
    path: String,
    serial: String,
    /// Offset of the copy on it, in bytes.
    offset: u64,
    /// Represents the drive in open calls.
    token: File,
    pub(super) content: Rc<RefCell<SimFile>>,
}

impl Drive {
    /// Creates a drive; with `has_holes`, a file whose zero pages are reported as holes.
    pub(super) fn new(
        number: usize,
        content: SimFile,
        offset: u64,
        has_holes: bool,
    ) -> io::Result<Self> {
        let (path, serial) = (path_of(number), format!("S{number}"));
        let token = File::from(rustix::fs::memfd_create(&path, MemfdFlags::CLOEXEC)?);
        token.set_len(content.bytes.len() as u64)?;
        for (page, offset) in content.bytes.chunks(4096).zip((0..).step_by(4096)) {
            if !has_holes || page.iter().any(|&byte| byte != 0) {
                token.write_all_at(page, offset)?;
            }
        }
        Ok(Self { path, serial, offset, token, content: Rc::new(RefCell::new(content)) })
    }

    /// What it is known by.
    pub(super) fn identity(&self) -> DeviceIdentity {
        DeviceIdentity {
            name: self.path.trim_start_matches("/dev/").to_owned(),
            model: None,
            ids: vec![StableId { kind: IdKind::Serial, value: self.serial.clone() }],
            size: Bytes(self.content.borrow().bytes.len() as u64),
            partition: None,
        }
    }

    fn inode(&self) -> io::Result<u64> {
        Ok(self.token.metadata()?.ino())
    }
}

/// Scheduled faults, and the observations of a run.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The event, and the number of the request at which it happens.
    pub(super) event: Option<(u64, Event)>,
    /// Number of the drive that an event of a target strikes.
    pub(super) struck: usize,
    /// Number of the change of a small file at which power is lost.
    pub(super) cut_at_change: Option<u64>,
    /// Texts that still fit on the disk of the journal.
    pub(super) room: Option<u64>,
    pub(super) operations: u64,
    pub(super) changes: u64,
    pub(super) life: Life,
    /// Addresses of device memory in use.
    pub(super) lent: BTreeSet<usize>,
    /// True if device memory was released with payload in it.
    pub(super) is_unclean: bool,
    /// The same of the memory that was released last.
    pub(super) is_last_unclean: bool,
    /// Requests that were in flight when their ring was dropped.
    pub(super) left: u32,
    /// A promise that was broken when an operation was asked for.
    pub(super) untrue: Option<String>,
}

/// The machine.
pub(super) struct SimMachine {
    system: System,
    /// The source, then the targets.
    pub(super) drives: Vec<Drive>,
    pub(super) state: Rc<RefCell<State>>,
    pub(super) is_stopped: Rc<Cell<bool>>,
    pub(super) disk: RefCell<Disk>,
    random: RefCell<Random>,
    entries: u32,
    mood: Mood,
    promise: Promise,
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
        drives: Vec<Drive>,
        disk: Disk,
        state: State,
        promise: Promise,
        (random, entries, mood): (Random, u32, Mood),
    ) -> Self {
        Self {
            system: System::at(Path::new("/nonexistent")),
            drives,
            state: Rc::new(RefCell::new(state)),
            is_stopped: Rc::default(),
            disk: RefCell::new(disk),
            random: RefCell::new(random),
            entries,
            mood,
            promise,
            clock: SimClock::default(),
        }
    }

    fn drive(&self, path: &Path) -> Option<&Drive> {
        self.drives.iter().find(|drive| Path::new(&drive.path) == path)
    }

    /// Checks that the claims of a journal about to be renamed survive a loss of power now.
    fn judge(&self, name: &OsStr) {
        let Some(text) = self.disk.borrow().text(name).map(<[u8]>::to_vec) else { return };
        let Ok(journal) = journal::decode(&text) else { return };
        let Identity::Device(device) = &journal.target else { return };
        let is_named = |drive: &&Drive| drive.identity().is_same_device(device);
        let Some(drive) = self.drives.iter().find(is_named) else { return };
        let target = drive.content.borrow();
        let Some(cache) = target.cache.as_ref().filter(|_| !self.promise.is_excused) else {
            return;
        };
        for range in journal.done.iter() {
            let [start, end] = [range.start, range.end].map(index);
            let at = index(drive.offset);
            let wanted = self.promise.payload.get(start..end);
            if cache.stable().get(at + start..at + end) != wanted {
                let what = format!("a journal is put in place that claims {range:?}, not flushed");
                self.state.borrow_mut().untrue.get_or_insert(what);
            }
        }
    }

    /// Counts a change of a small file; fails once the program has ended.
    fn change(&self) -> Result<(), Errno> {
        let state = &mut *self.state.borrow_mut();
        if state.life == Life::Runs {
            state.changes += 1;
            if state.cut_at_change.is_some_and(|at| at < state.changes) {
                state.life = Life::Dark;
            }
        }
        if state.life == Life::Runs { Ok(()) } else { Err(Errno::IO) }
    }
}

impl SmallFiles for SimMachine {
    fn create(
        &self,
        directory: &File,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<File, Errno> {
        self.change()?;
        let file = machine::host().create(directory, name, flags, mode)?;
        self.disk.borrow_mut().created(name, &file);
        Ok(file)
    }

    fn write(&self, file: &File, text: &[u8]) -> io::Result<()> {
        self.change()?;
        let room = &mut self.state.borrow_mut().room;
        if *room == Some(0) {
            return Err(Errno::NOSPC.into());
        }
        *room = room.map(|room| room - 1);
        machine::host().write(file, text)?;
        self.disk.borrow_mut().wrote(file, text);
        Ok(())
    }

    fn rewrite(&self, file: &File, text: &[u8]) -> io::Result<()> {
        self.change()?;
        machine::host().rewrite(file, text)
    }

    fn sync(&self, file: &File) -> Result<(), Errno> {
        self.change()?;
        self.disk.borrow_mut().synced(file);
        Ok(())
    }

    fn rename(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        self.change()?;
        self.judge(from);
        machine::host().rename(directory, from, to)?;
        self.disk.borrow_mut().renamed(from, to);
        Ok(())
    }

    fn remove(&self, directory: &File, name: &OsStr) -> Result<(), Errno> {
        self.change()?;
        machine::host().remove(directory, name)?;
        self.disk.borrow_mut().removed(name);
        Ok(())
    }
}

impl Machine for SimMachine {
    fn system(&self) -> &System {
        &self.system
    }

    fn ring(&self, entries: u32, _has_nodes: bool) -> Result<AnyRing, UringError> {
        let seed = self.random.borrow_mut().next();
        let attachable =
            |drive: &Drive| (drive.inode().unwrap_or_default(), Rc::clone(&drive.content));
        Ok(AnyRing::Simulated(Box::new(MachineRing {
            // Few, so that there is not always room.
            ring: SimRing::new(entries.min(self.entries), seed, self.mood).at(&self.clock),
            drives: self.drives.iter().map(attachable).collect(),
            state: Rc::clone(&self.state),
            is_stopped: Rc::clone(&self.is_stopped),
            held: Vec::new(),
        })))
    }

    fn host_memory(&self, length: Bytes) -> Result<Region, MemoryError> {
        POOL.with_borrow_mut(|pool| pool.get_mut(&length).and_then(Vec::pop))
            .map_or_else(|| host::allocate(length), Ok)
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

    fn open(&self, _flags: OFlags, live: &Live, _deadline: Nanos) -> io::Result<Opened> {
        let drive = self.drive(&live.path).ok_or(Errno::NOENT)?;
        Ok(Opened::new(drive.token.try_clone()?, true))
    }

    fn identify(&self, live: &Live, _file: &File) -> Result<Identity, JournalError> {
        let missing = || JournalError::NoDevice { name: live.path.display().to_string() };
        let drive = self.drive(&live.path).ok_or_else(missing)?;
        Ok(match live.node {
            Node::Block => Identity::Device(drive.identity()),
            Node::File { .. } | Node::NewFile => Identity::File(FileIdentity {
                path: drive.path.clone(),
                device: None,
                file_system: 1,
                inode: 1,
                size: drive.identity().size,
                modified_ns: 1,
                changed_ns: 1,
                born_ns: None,
            }),
        })
    }

    fn is_drive_gone(&self, _device: &str) -> bool {
        false
    }

    fn nap(&self, time: Nanos) {
        self.clock.pass(time);
    }
}

/// A ring of the machine.
struct MachineRing {
    ring: SimRing,
    /// By the inode of what stands for them.
    drives: Vec<(u64, Rc<RefCell<SimFile>>)>,
    state: Rc<RefCell<State>>,
    is_stopped: Rc<Cell<bool>>,
    /// Regions by number, kept so that no address is allocated twice.
    held: Vec<Region>,
}

impl MachineRing {
    fn happen(&mut self, event: Event) {
        match event {
            Event::PowerCut => self.state.borrow_mut().life = Life::Dark,
            Event::Killed => self.state.borrow_mut().life = Life::Killed,
            Event::Stop => self.is_stopped.set(true),
            _ => {}
        }
        let struck = self.state.borrow().struck;
        for (number, (_, drive)) in self.drives.iter().enumerate() {
            let drive = &mut drive.borrow_mut();
            if number == 0 {
                event.strike_source(drive);
            } else if number == struck || event == Event::MemoryGone {
                event.strike_target(drive);
            }
        }
    }

    fn alive(&self) -> io::Result<()> {
        match self.state.borrow().life {
            Life::Runs => Ok(()),
            Life::Killed => Err(io::Error::other("killed")),
            Life::Dark => Err(io::Error::other("power is lost")),
        }
    }
}

impl Drop for MachineRing {
    /// What is in flight goes on without its ring: any part of it may happen.
    fn drop(&mut self) {
        let in_flight = self.ring.in_flight();
        self.ring.abandon();
        let mut state = self.state.borrow_mut();
        state.left = state.left.max(in_flight);
        for (region, id) in self.held.drain(..).zip(0..) {
            state.lent.remove(&(region.address().as_ptr() as usize));
            POOL.with_borrow_mut(|pool| pool.entry(region.length()).or_default().push(region));
            let simulated = self.ring.region(RegionId(id)).map(std::mem::take).unwrap_or_default();
            if simulated.is_device {
                state.is_last_unclean = simulated.bytes.iter().any(|&byte| byte != 0);
                state.is_unclean |= state.is_last_unclean;
            }
            BYTES.with_borrow_mut(|pool| {
                pool.entry(simulated.bytes.len()).or_default().push(simulated.bytes);
            });
        }
    }
}

impl Ring for MachineRing {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        let inode = file.metadata()?.ino();
        let drive = self.drives.iter().find(|(of, _)| *of == inode).ok_or(Errno::NOENT)?;
        Ok(self.ring.attach_shared(Rc::clone(&drive.1)))
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        let is_device = self.state.borrow().lent.contains(&(region.address().as_ptr() as usize));
        let length = index(region.length().0);
        let used = BYTES.with_borrow_mut(|pool| pool.get_mut(&length).and_then(Vec::pop));
        let bytes = used.map_or_else(
            || vec![0; length],
            |mut used| {
                used.fill(0);
                used
            },
        );
        let id = self.ring.attach_region(SimRegion { bytes, is_device });
        self.held.push(region);
        id
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        self.ring.region_length(region)
    }

    fn space(&self) -> u32 {
        self.ring.space()
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.ring.push(operation)?;
        let due = {
            let state = &mut *self.state.borrow_mut();
            state.operations += 1;
            let operations = state.operations;
            state.event.take_if(|(at, _)| *at < operations)
        };
        if let Some((_, event)) = due {
            self.happen(event);
        }
        Ok(())
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        // What was in flight before may end in the last moment; what is queued never begins.
        self.alive()?;
        self.ring.submit(wait, timeout)?;
        self.alive()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ring.pop()
    }

    fn in_flight(&self) -> u32 {
        self.ring.in_flight()
    }

    fn host_bytes(&mut self, region: RegionId) -> Option<&mut [u8]> {
        self.ring.host_bytes(region)
    }
}
