//! The ring of a simulated machine: requests counted and judged, events in between, memory kept for reuse.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use peerlane_memory::Region;
use peerlane_units::Nanos;

use super::figures::MemoryUsed;
use super::folder::Folder;
use super::machine::{FaultState, Life, SimMachine, SimulatedDrive};
use super::world::{QueueEvent, index};
use crate::io::clock::Clock as _;
use crate::io::ring::sim::{SimClock, SimFile, SimRegion, SimRing};
use crate::io::ring::{Action, Completion, FileId, Operation, PushError, RegionId, Ring};
use crate::io::watch::Phase;

thread_local! {
    /// Zeroed buffers for reuse, by length: page faults take longer than a simulated copy.
    static POOL: RefCell<BTreeMap<usize, Vec<Vec<u8>>>> = RefCell::default();
}

/// Lengths of pooled bytes are multiples of so many.
const POOLED: usize = 64 << 10;

/// Bounds of a run of the program; one that goes beyond them panics with its seed. A run takes some
/// hundred requests, and some seconds if it waits for a drive.
const OPERATIONS_MAX: u64 = 100_000;
const TIME_MAX: Nanos = Nanos::seconds(600);
const QUESTIONS_MAX: u64 = 100_000;

/// Panics if the program waits for ever.
pub(super) fn judge_time(clock: &SimClock) {
    assert!(clock.now() < TIME_MAX, "it waits for ever");
}

/// A real file, to be read only.
fn read_whole(mut file: File) -> io::Result<SimFile> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(SimFile { bytes, block: 1, latency: Nanos(20_000), ..SimFile::default() })
}

/// A drive, for a ring.
struct AttachableDrive {
    /// Of the file that stands for it.
    inode: u64,
    journal: OsString,
    content: Rc<RefCell<SimFile>>,
}

/// A ring of the machine.
pub(super) struct MachineRing {
    ring: SimRing,
    drives: Vec<AttachableDrive>,
    /// Numbers of the drives that attached files are, by the number of the file.
    attached: Vec<Option<usize>>,
    /// Requests in flight, by their tags.
    running: BTreeMap<u64, Operation>,
    phase: Rc<Cell<Option<Phase>>>,
    /// The target is a file, which needs no claim.
    has_file: bool,
    folder: Rc<RefCell<Folder>>,
    state: Rc<RefCell<FaultState>>,
    is_stopped: Rc<Cell<bool>>,
    /// Regions by number, kept so no address is allocated twice.
    held: Vec<Region>,
    /// End of the possibly non-zero bytes of each region.
    touched: Vec<usize>,
    /// Questions since a request was last queued or waited for.
    questions: Cell<u64>,
}

impl MachineRing {
    /// A ring of this machine, with its drives and its clock.
    pub(super) fn new(machine: &SimMachine, ring: SimRing) -> Self {
        let attachable = |drive: &SimulatedDrive| AttachableDrive {
            inode: drive.inode().unwrap_or_default(),
            journal: drive.name.journal.clone(),
            content: Rc::clone(&drive.content),
        };
        let mut drives: Vec<_> = machine.drives.iter().map(attachable).collect();
        if let Some(inode) = machine.folder.borrow().target {
            drives[1].inode = inode;
        }
        Self {
            ring: ring.at(&machine.clock),
            drives,
            attached: Vec::new(),
            running: BTreeMap::new(),
            phase: Rc::clone(&machine.phase),
            has_file: machine.file_system.is_some(),
            folder: Rc::clone(&machine.folder),
            state: Rc::clone(&machine.state),
            is_stopped: Rc::clone(&machine.is_stopped),
            held: Vec::new(),
            touched: Vec::new(),
            questions: Cell::new(0),
        }
    }

    /// Counts a question to the ring, which nothing answers but a request.
    fn ask(&self) {
        self.questions.set(self.questions.get() + 1);
        assert!(self.questions.get() < QUESTIONS_MAX, "it asks the ring for ever");
    }

    fn happen(&mut self, event: QueueEvent) {
        match event {
            QueueEvent::PowerCut => self.state.borrow_mut().life = Life::Dark,
            QueueEvent::Killed => self.state.borrow_mut().life = Life::Killed,
            QueueEvent::Stop => self.is_stopped.set(true),
            _ => {}
        }
        let struck = self.state.borrow().struck;
        for (number, drive) in self.drives.iter().enumerate() {
            let drive = &mut drive.content.borrow_mut();
            if number == 0 {
                event.strike_source(drive);
            } else if number == struck || event == QueueEvent::MemoryGone {
                event.strike_target(drive);
            }
        }
    }

    fn touch(&mut self, region: RegionId, end: usize) {
        let touched = &mut self.touched[index(region.0.into())];
        *touched = end.max(*touched);
    }

    fn alive(&self) -> io::Result<()> {
        match self.state.borrow().life {
            Life::Runs => Ok(()),
            Life::Killed => Err(io::Error::other("killed")),
            Life::Dark => Err(io::Error::other("power is lost")),
        }
    }

    /// Notes a target that is about to change, unless its journal is locked.
    fn judge_lock(&self, operation: Operation) {
        let is_change = matches!(operation.action, Action::Write | Action::Zero);
        // Asking takes longer than the operation: what keeps no lock is met by one of eight soon enough.
        if !is_change || self.state.borrow().operations % 8 != 0 || self.alive().is_err() {
            return;
        }
        let journal = self.drive_of(operation.file).map(|number| &self.drives[number].journal);
        if !journal.is_some_and(|journal| self.folder.borrow().is_locked(journal)) {
            let what = "the target is written without the lock of the journal".to_owned();
            self.state.borrow_mut().note_untrue(what);
        }
    }

    /// Notes a target drive that is about to change, unless a journal that survives a loss of power claims it.
    fn judge_claim(&self, operation: Operation) {
        let is_change = matches!(operation.action, Action::Write | Action::Zero);
        if !is_change || self.has_file || self.alive().is_err() {
            return;
        }
        let Some(number) = self.drive_of(operation.file) else { return };
        self.state.borrow_mut().figures[number].is_written = true;
        if self.folder.borrow().disk.stable_text(&self.drives[number].journal).is_none() {
            let what = "a drive is written before a journal claims it".to_owned();
            self.state.borrow_mut().note_untrue(what);
        }
    }

    fn drive_of(&self, file: FileId) -> Option<usize> {
        self.attached.get(index(file.0.into())).copied().flatten()
    }

    /// Counts a request that ended.
    fn count(&mut self, completion: &Completion) {
        let Some(operation) = self.running.remove(&completion.tag) else { return };
        let Some(number) = self.drive_of(operation.file) else { return };
        let is_device = self.ring.region(operation.region).is_some_and(|one| one.is_device);
        let memory = match self.touched.get(index(operation.region.0.into())) {
            _ if is_device => MemoryUsed::Device,
            Some(0) => MemoryUsed::Untouched,
            _ => MemoryUsed::Host,
        };
        let figures = &mut self.state.borrow_mut().figures[number];
        match (operation.action, completion.result) {
            (Action::Flush, Err(_)) => figures.failed_flushes += 1,
            (_, Ok(moved)) => {
                let of = (self.phase.get(), memory);
                figures.note(&operation, moved.into(), of, number == 0);
            }
            (_, Err(_)) => {}
        }
    }
}

impl Drop for MachineRing {
    /// Lets requests in flight go on without their ring: any part of them may happen.
    fn drop(&mut self) {
        let in_flight = self.ring.in_flight();
        self.ring.abandon();
        let mut state = self.state.borrow_mut();
        state.left = state.left.max(in_flight);
        for (region, id) in self.held.drain(..).zip(0..) {
            state.lent.remove(&(region.address().as_ptr() as usize));
            let mut simulated =
                self.ring.region(RegionId(id)).map(std::mem::take).unwrap_or_default();
            let touched = &mut simulated.bytes[..self.touched[index(id.into())]];
            touched.fill(0);
            let mut bytes = simulated.bytes;
            bytes.resize(bytes.len().next_multiple_of(POOLED), 0);
            POOL.with_borrow_mut(|pool| pool.entry(bytes.len()).or_default().push(bytes));
        }
    }
}

impl Ring for MachineRing {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        let inode = file.metadata()?.ino();
        let drive = self.drives.iter().position(|drive| drive.inode == inode);
        self.attached.push(drive);
        let content = match drive {
            Some(number) => Rc::clone(&self.drives[number].content),
            None => Rc::new(RefCell::new(read_whole(file)?)),
        };
        Ok(self.ring.attach_shared(content))
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        let is_device = self.state.borrow().lent.contains(&(region.address().as_ptr() as usize));
        let length = index(region.length().0);
        let pooled = length.next_multiple_of(POOLED);
        let used = POOL.with_borrow_mut(|pool| pool.get_mut(&pooled).and_then(Vec::pop));
        let mut bytes = used.unwrap_or_else(|| vec![0; pooled]);
        bytes.truncate(length);
        self.touched.push(0);
        let id = self.ring.attach_region(SimRegion { bytes, is_device });
        self.held.push(region);
        id
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        self.ring.region_length(region)
    }

    fn space(&self) -> u32 {
        self.ask();
        self.ring.space()
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.questions.set(0);
        self.ring.push(operation)?;
        if operation.action == Action::Read {
            let end = operation.region_offset + u64::from(operation.length);
            self.touch(operation.region, index(end));
        }
        self.running.insert(operation.tag, operation);
        self.judge_lock(operation);
        self.judge_claim(operation);
        let due = {
            let state = &mut *self.state.borrow_mut();
            state.operations += 1;
            assert!(state.operations < OPERATIONS_MAX, "it makes requests for ever");
            let operations = state.operations;
            state.event.take_if(|(at, _)| *at < operations)
        };
        if let Some((_, event)) = due {
            self.happen(event);
        }
        Ok(())
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.questions.set(0);
        judge_time(&self.ring.clock());
        // What was in flight before may end in the last moment; what is queued never begins.
        self.alive()?;
        self.ring.submit(wait, timeout)?;
        self.alive()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ask();
        let completion = self.ring.pop()?;
        self.count(&completion);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.ring.in_flight()
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        let end = index(range.end);
        let bytes = self.ring.host_range(region, range)?;
        let touched = &mut self.touched[index(region.0.into())];
        *touched = end.max(*touched);
        Some(bytes)
    }
}
