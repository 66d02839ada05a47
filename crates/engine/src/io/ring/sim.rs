//! A simulated ring: files and memory in vectors, a clock of its own, faults from a seed.
//!
//! It behaves as a kernel may, not as one usually does: ends in any order, comes back short, asks
//! to try again, returns early from a wait, leaves rubbish in memory after a failed read, loses DMA
//! while it reports success. Equal seeds and calls give equal runs. A file with a [`Cache`] keeps
//! over a loss of power only the writes that a flush vouched for; one without keeps all.

mod cache;
mod file;
#[cfg(test)]
mod halting;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use peerlane_units::Nanos;
use rustix::io::Errno;

pub use cache::Cache;
pub use file::{Lost, SimFault, SimFile};
use file::{SECTOR, flush, gone, zero};
#[cfg(test)]
pub(crate) use halting::Halting;

use super::{Action, Completion, FileId, Operation, PushError, RegionId, Ring};
use crate::io::clock::Clock;
use crate::io::random::Random;

/// The time of a simulated ring; clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Rc<Cell<u64>>);

impl SimClock {
    /// Lets time pass.
    pub(crate) fn pass(&self, time: Nanos) {
        self.0.set(self.0.get() + time.0);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

/// Simulated memory.
#[derive(Debug, Clone, Default)]
pub struct SimRegion {
    /// Content.
    pub bytes: Vec<u8>,
    /// Of a device: its bytes are not given to the engine.
    pub is_device: bool,
}

/// Frequencies of difficult answers of the kernel, each of 1024.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mood {
    /// Requests that move a part only, not always whole blocks.
    pub short: u64,
    /// Requests that answer `EAGAIN` or `EINTR`.
    pub again: u64,
    /// Waits that end early.
    pub early: u64,
}

/// A simulated ring.
#[derive(Debug)]
pub struct SimRing {
    entries: u32,
    files: Vec<(Rc<RefCell<SimFile>>, Nanos)>,
    regions: Vec<SimRegion>,
    queued: VecDeque<Operation>,
    running: Vec<Running>,
    ready: VecDeque<Completion>,
    in_flight: u32,
    mood: Mood,
    random: Random,
    clock: SimClock,
}

/// An operation that the drive works on.
#[derive(Debug)]
struct Running {
    end: u64,
    operation: Operation,
    /// Writes before it had ended when this was submitted; a flush vouches for those.
    barrier: u64,
}

impl SimRing {
    /// A ring with room for `entries` operations at a time.
    pub fn new(entries: u32, seed: u64, mood: Mood) -> Self {
        Self {
            entries,
            files: Vec::new(),
            regions: Vec::new(),
            queued: VecDeque::new(),
            running: Vec::new(),
            ready: VecDeque::new(),
            in_flight: 0,
            mood,
            random: Random::new(seed),
            clock: SimClock::default(),
        }
    }

    /// The same ring by another clock.
    pub(crate) fn at(self, clock: &SimClock) -> Self {
        Self { clock: clock.clone(), ..self }
    }

    /// Takes a file that others see, too.
    pub(crate) fn attach_shared(&mut self, file: Rc<RefCell<SimFile>>) -> FileId {
        self.files.push((file, Nanos(0)));
        FileId(u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX))
    }

    /// Its clock; it moves only while the ring is waited for.
    pub fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    /// A file that was attached.
    pub fn file(&mut self, file: FileId) -> Option<RefMut<'_, SimFile>> {
        self.files.get(index(file.0)).map(|(file, _)| file.borrow_mut())
    }

    /// A region that was attached, whatever is in flight.
    pub fn region(&mut self, region: RegionId) -> Option<&mut SimRegion> {
        self.regions.get_mut(index(region.0))
    }

    /// Ends everything in flight as a process does that leaves: any part of it may have happened.
    pub fn abandon(&mut self) {
        for running in std::mem::take(&mut self.running) {
            let operation = &running.operation;
            let file = Rc::clone(&self.files[index(operation.file.0)].0);
            let file = &mut *file.borrow_mut();
            let room = file.bytes.len().saturating_sub(index_of(operation.file_offset)) as u64;
            let most = room.min(operation.length.into()) / file.block;
            let moved = self.random.below(most + 1) * file.block;
            if operation.action == Action::Write && !file.is_gone {
                self.transfer(file, operation, index_of(moved));
            }
        }
        self.queued.clear();
        self.ready.clear();
        self.in_flight = 0;
    }

    fn start(&mut self, operation: Operation) {
        let now = self.clock.0.get();
        let (file, busy_until) = &mut self.files[index(operation.file.0)];
        let file = file.borrow();
        let touches = |fault: &SimFault| {
            let end = operation.file_offset + u64::from(operation.length);
            if fault.action == Action::Flush {
                return operation.action == Action::Flush;
            }
            fault.action == operation.action && (operation.file_offset..end).contains(&fault.offset)
        };
        let hangs = file.faults.iter().any(|fault| fault.errno.is_none() && touches(fault));
        let service = file.page_time.0 * u64::from(operation.length) / 4096;
        busy_until.0 = busy_until.0.max(now) + service;
        let latency = file.latency.0 + self.random.below(file.latency.0 + 1);
        let end = if hangs { u64::MAX } else { busy_until.0 + latency };
        let barrier = file.cache.as_ref().map_or(0, Cache::barrier);
        self.running.push(Running { end, operation, barrier });
    }

    fn start_queued(&mut self) {
        while let Some(operation) = self.queued.pop_front() {
            self.start(operation);
        }
    }

    /// Ends the operation that is due first, if it is due by `limit`.
    fn end_one(&mut self, limit: u64) -> bool {
        let due = self.running.iter().enumerate().min_by_key(|(_, running)| running.end);
        let Some((position, _)) =
            due.filter(|(_, running)| running.end <= limit && running.end < u64::MAX)
        else {
            return false;
        };
        let Running { end, operation, barrier } = self.running.swap_remove(position);
        self.clock.0.set(self.clock.0.get().max(end));
        let result = self.perform(&operation, barrier);
        self.ready.push_back(Completion { tag: operation.tag, result });
        true
    }

    fn chance(&mut self, of_1024: u64) -> bool {
        self.random.below(1024) < of_1024
    }

    fn perform(&mut self, operation: &Operation, barrier: u64) -> Result<u32, Errno> {
        let file = Rc::clone(&self.files[index(operation.file.0)].0);
        let file = &mut *file.borrow_mut();
        if operation.action == Action::Flush {
            return flush(file, barrier, &mut self.random);
        }
        if file.is_gone {
            return gone(operation.action, &mut self.random);
        }
        if self.chance(self.mood.again) {
            return Err(if self.chance(512) { Errno::AGAIN } else { Errno::INTR });
        }
        let (offset, length) = (operation.file_offset, u64::from(operation.length));
        if operation.action == Action::Zero {
            return zero(file, offset, length);
        }
        let is_device = self.regions[index(operation.region.0)].is_device;
        if let Some(errno) = file.device_refusal.filter(|_| is_device) {
            return Err(errno);
        }
        if offset % file.block != 0 || length % file.block != 0 {
            return Err(Errno::INVAL);
        }
        let touched = |fault: &&SimFault| {
            fault.action == operation.action && (offset..offset + length).contains(&fault.offset)
        };
        let fault = file.faults.iter().find(touched).and_then(|fault| fault.errno);
        let left = (file.bytes.len() as u64).saturating_sub(offset);
        let has_end = operation.action == Action::Read || !file.grows;
        let possible = if has_end { length.min(left) } else { length };
        if possible == 0 {
            return if operation.action == Action::Read { Ok(0) } else { Err(Errno::NOSPC) };
        }
        let is_short = possible > 1 && self.chance(self.mood.short);
        let moved = match fault {
            Some(_) => self.random.below(possible + 1),
            None if is_short => 1 + self.random.below(possible - 1),
            None => possible,
        };
        // A medium changes by whole sectors.
        let is_part = operation.action == Action::Write && file.block >= SECTOR && moved < possible;
        let moved = if is_part { moved.next_multiple_of(SECTOR).min(possible) } else { moved };
        self.transfer(file, operation, index_of(moved));
        match fault {
            Some(errno) => Err(errno),
            None => Ok(u32::try_from(moved).unwrap_or(u32::MAX)),
        }
    }

    /// Moves the first bytes of an operation; a read leaves rubbish in the rest of its memory.
    fn transfer(&mut self, file: &mut SimFile, operation: &Operation, moved: usize) {
        let region = &mut self.regions[index(operation.region.0)];
        let start = index_of(operation.region_offset);
        let memory = &mut region.bytes[start..start + index(operation.length)];
        let offset = index_of(operation.file_offset);
        match operation.action {
            Action::Read if region.is_device && file.lost == Lost::Reads => {}
            Action::Read => {
                memory[..moved].copy_from_slice(&file.bytes[offset..offset + moved]);
                self.random.fill(&mut memory[moved..]);
            }
            Action::Write if region.is_device && file.lost == Lost::WholeWrites => {}
            Action::Write => {
                if file.bytes.len() < offset + moved {
                    file.bytes.resize(offset + moved, 0);
                }
                let kept = file.kept(offset..offset + moved);
                let content = &mut file.bytes[offset..offset + moved];
                if region.is_device && file.lost == Lost::Writes {
                    content.fill(0xff);
                } else {
                    content.copy_from_slice(&memory[..moved]);
                }
                file.keep(kept);
                if let Some(cache) = &mut file.cache {
                    cache.wrote(offset, &file.bytes[offset..offset + moved]);
                }
            }
            Action::Flush | Action::Zero | Action::Stage => {}
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn index_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Ring for SimRing {
    type File = SimFile;
    type Region = SimRegion;

    fn attach_file(&mut self, file: SimFile) -> io::Result<FileId> {
        Ok(self.attach_shared(Rc::new(RefCell::new(file))))
    }

    fn attach_region(&mut self, region: SimRegion) -> RegionId {
        self.regions.push(region);
        RegionId(u32::try_from(self.regions.len() - 1).unwrap_or(u32::MAX))
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        self.regions.get(index(region.0)).map(|region| region.bytes.len() as u64)
    }

    fn space(&self) -> u32 {
        let queued = u32::try_from(self.queued.len()).unwrap_or(u32::MAX);
        let completions = 2 * self.entries;
        self.entries.saturating_sub(queued).min(completions.saturating_sub(self.in_flight))
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        let (offset, length) = (operation.region_offset, operation.length);
        if operation.action == Action::Stage {
            return Err(PushError::UnknownStage { stage: operation.file });
        }
        if self.files.len() <= index(operation.file.0) {
            return Err(PushError::UnknownFile { file: operation.file });
        }
        let region = operation.region;
        let region_length =
            self.region_length(region).ok_or(PushError::UnknownRegion { region })?;
        let is_outside = offset.checked_add(length.into()).is_none_or(|end| end > region_length);
        if is_outside && operation.action.has_memory() {
            return Err(PushError::OutOfRegion { offset, length, region_length });
        }
        match self.space() {
            0 => Err(PushError::Full { space: 0 }),
            _ => {
                self.queued.push_back(operation);
                self.in_flight += 1;
                Ok(())
            }
        }
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.start_queued();
        let limit = self.clock.0.get().saturating_add(timeout.0);
        while self.end_one(self.clock.0.get()) {}
        if wait > 0 && self.in_flight == 0 {
            self.clock.0.set(limit);
        }
        while self.ready.len() < index(wait.min(self.in_flight)) {
            if self.chance(self.mood.early) {
                return Ok(());
            }
            if !self.end_one(limit) {
                self.clock.0.set(limit);
                return Ok(());
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        let completion = self.ready.pop_front()?;
        self.in_flight -= 1;
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        let running = self.running.iter().map(|running| &running.operation);
        let overlaps = |one: &Operation| {
            let end = one.region_offset + u64::from(one.length);
            let has_memory = one.action.has_memory();
            has_memory && one.region == region && one.region_offset < range.end && range.start < end
        };
        if running.chain(&self.queued).any(overlaps) {
            return None;
        }
        let region = self.regions.get_mut(index(region.0)).filter(|region| !region.is_device)?;
        region.bytes.get_mut(index_of(range.start)..index_of(range.end))
    }
}
