//! The simulation's own counts of a copy, byte by byte, from requests that ended.

use std::ops::Range;

use super::world::index;
use crate::io::ring::{Action, Operation};
use crate::io::watch::Phase;

/// Origin of a byte that came to a target in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrigin {
    DeviceMemory,
    HostMemory,
    /// The drive made it zero.
    Zeroed,
    /// A zero out of memory that nothing was ever read into.
    ZeroWritten,
}

/// Memory at the other end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryUsed {
    Device,
    Host,
    /// Host memory that nothing was read into.
    Untouched,
}

/// Each byte of the copy at one drive.
#[derive(Debug, Clone, Default)]
pub(super) struct DriveFigures {
    /// Range of the copy on the drive.
    range: Range<u64>,
    marks: Vec<u8>,
    /// Payload that was read while it was moved, repetitions included.
    pub(super) read: u64,
    /// Anything was written to it, in whatever phase.
    pub(super) is_written: bool,
    /// Flushes of it that failed.
    pub(super) failed_flushes: u32,
}

/// The lower bits hold one more than the number of an origin.
const ORIGIN: u8 = 0b111;
const READ: u8 = 1 << 3;
const LOOKED_AT: u8 = 1 << 4;
const COMPARED: u8 = 1 << 5;

impl DriveFigures {
    pub(super) fn new(range: Range<u64>) -> Self {
        Self { range, ..Self::default() }
    }

    /// Takes account of a request that moved so many bytes; without a phase the copy has not begun yet.
    pub(super) fn note(
        &mut self,
        operation: &Operation,
        moved: u64,
        (phase, memory): (Option<Phase>, MemoryUsed),
        is_source: bool,
    ) {
        let length = if operation.action == Action::Zero { operation.length.into() } else { moved };
        let (keep, set) = match (operation.action, phase) {
            (Action::Write | Action::Zero, _) if is_source => return,
            (Action::Write, Some(Phase::Move)) => {
                let origin = match memory {
                    MemoryUsed::Device => ByteOrigin::DeviceMemory,
                    MemoryUsed::Host => ByteOrigin::HostMemory,
                    MemoryUsed::Untouched => ByteOrigin::ZeroWritten,
                };
                (!ORIGIN, origin as u8 + 1)
            }
            (Action::Zero, Some(Phase::Move)) => (!ORIGIN, ByteOrigin::Zeroed as u8 + 1),
            (Action::Read, Some(Phase::Move)) if is_source => {
                self.read += self.part(operation.file_offset, length).len() as u64;
                (!0, READ)
            }
            (Action::Read, Some(Phase::Verify)) if memory != MemoryUsed::Device => (!0, COMPARED),
            (Action::Read, None) if memory != MemoryUsed::Device => (!0, LOOKED_AT),
            _ => return,
        };
        let part = self.part(operation.file_offset, length);
        if self.marks.is_empty() {
            self.marks = vec![0; index(self.range.end - self.range.start)];
        }
        for mark in &mut self.marks[part] {
            *mark = *mark & keep | set;
        }
    }

    /// The part of the copy in a range of the drive.
    fn part(&self, offset: u64, length: u64) -> Range<usize> {
        let within = |at: u64| index(at.clamp(self.range.start, self.range.end) - self.range.start);
        within(offset)..within(offset + length)
    }

    fn count(&self, holds: impl Fn(u8) -> bool) -> u64 {
        self.marks.iter().filter(|&&mark| holds(mark)).count() as u64
    }

    /// Bytes that came to the target from each origin, and from nowhere else since.
    pub(super) fn bytes_by_origin(&self) -> impl Fn(ByteOrigin) -> u64 + use<> {
        let mut counts = [0; 1 + ORIGIN as usize];
        for mark in &self.marks {
            counts[usize::from(mark & ORIGIN)] += 1;
        }
        move |origin| counts[origin as usize + 1]
    }

    /// Bytes of the copy that were read while it was moved, each once.
    pub(super) fn bytes_read(&self) -> u64 {
        self.count(|mark| mark & READ != 0)
    }

    /// Bytes that verification read.
    pub(super) fn bytes_compared(&self) -> u64 {
        self.count(|mark| mark & COMPARED != 0)
    }

    pub(super) fn is_compared(&self, range: Range<u64>) -> bool {
        self.has_all(range, COMPARED)
    }

    /// True when all of it was read before the copy went on by its journal.
    pub(super) fn is_looked_at(&self, range: Range<u64>) -> bool {
        self.has_all(range, LOOKED_AT)
    }

    fn has_all(&self, range: Range<u64>, mark: u8) -> bool {
        let part = index(range.start)..index(range.end);
        let marks = self.marks.get(part.clone());
        part.is_empty() || marks.is_some_and(|marks| marks.iter().all(|one| one & mark != 0))
    }
}
