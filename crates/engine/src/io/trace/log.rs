//! The notes of one ring.

use std::sync::Arc;

use peerlane_results::{MemoryKind, PhaseKind, Span, Trace, TraceMemory, TracePhase};
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::{SharedTrace, requests};
use crate::io::clock::Clock;
use crate::io::ring::{Action, Completion, FileId, Operation, RegionId};

/// Changes of phase that a log has room for: a fan-out to 16 targets proves and verifies each.
const PHASES: usize = 256;

/// Name of memory that has no other.
const HOST: &str = "host memory";

/// Notes of one ring, in memory taken beforehand.
pub struct NoteLog {
    clock: Box<dyn Clock>,
    notes: Notes,
    /// The first note that was not handed to the kernel yet.
    fresh: usize,
    /// Time of the last look at the ring.
    seen: Nanos,
    room: usize,
    home: Option<Arc<SharedTrace>>,
}

/// Content of a log; it outlives its ring.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    pub(super) name: String,
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    pub(super) all: Vec<Note>,
    /// Start of each phase, and the note that it precedes.
    pub(super) phases: Vec<(PhaseKind, Nanos, usize)>,
    pub(super) drives: Vec<String>,
    /// The drive of each file that has a name.
    pub(super) files: Vec<(FileId, usize)>,
    /// Stages, in the order of their work.
    pub(super) stages: Vec<String>,
    /// Memories by region; others are host memory.
    pub(super) regions: Vec<(RegionId, TraceMemory)>,
    /// The region that payload takes, from slot to slot, and how many there are.
    pub(super) slots: Option<(RegionId, u64, u32)>,
    pub(super) left_out: u64,
    /// Set when there was no room for a note.
    pub(super) is_cut: bool,
}

/// One note.
#[derive(Debug, Clone, Copy)]
pub(super) enum Note {
    /// A request was handed over.
    Begun { at: Nanos, tag: u64, offset: u64, region_offset: u64, place: RequestSubject },
    /// It ended with so many bytes, or with the number of an error.
    Ended { at: Nanos, tag: u64, result: Result<u32, i32> },
    /// The thread slept.
    Waited(Span),
}

/// Ends and length of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSubject {
    pub(super) action: Action,
    pub(super) file: u16,
    pub(super) region: u16,
    pub(super) length: u32,
}

impl NoteLog {
    /// A log with room for `room` notes.
    pub(super) fn new(
        name: String,
        clock: Box<dyn Clock>,
        room: usize,
        home: Option<Arc<SharedTrace>>,
    ) -> Self {
        let begin = clock.now();
        let notes = Notes {
            name,
            begin,
            all: Vec::with_capacity(room),
            phases: Vec::with_capacity(PHASES),
            ..Notes::default()
        };
        let mut log = Self { clock, notes, fresh: 0, seen: begin, room, home };
        log.phase(PhaseKind::Prepare);
        log
    }

    /// Says which drive a file is on.
    pub(super) fn name_file(&mut self, file: FileId, drive: &str) {
        let drives = &mut self.notes.drives;
        let known = drives.iter().position(|one| one == drive);
        let index = known.unwrap_or_else(|| {
            drives.push(drive.to_owned());
            drives.len() - 1
        });
        self.notes.files.push((file, index));
    }

    /// Says which stages there are.
    pub(super) fn name_stages(&mut self, names: Vec<String>) {
        self.notes.stages = names;
    }

    /// Says whose memory a region is.
    pub(super) fn name_region(&mut self, region: RegionId, name: &str, kind: MemoryKind) {
        let name = if kind == MemoryKind::Host { HOST } else { name }.to_owned();
        self.notes.regions.push((region, TraceMemory { name, kind }));
    }

    pub(super) fn slots(&mut self, region: RegionId, stride: u64, count: u32) {
        self.notes.slots = Some((region, stride.max(1), count));
    }

    pub(super) fn phase(&mut self, kind: PhaseKind) {
        if self.notes.phases.len() < PHASES {
            let at = self.clock.now();
            self.notes.phases.push((kind, at, self.notes.all.len()));
        }
    }

    fn note(&mut self, note: Note) -> bool {
        let has_room = self.notes.all.len() < self.room;
        if has_room {
            self.notes.all.push(note);
        }
        self.notes.is_cut |= !has_room;
        has_room
    }

    /// Notes a request; [`NoteLog::submits`] notes when it is handed over.
    pub(super) fn pushed(&mut self, operation: &Operation) {
        let narrow = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let place = RequestSubject {
            action: operation.action,
            file: narrow(operation.file.0),
            region: narrow(operation.region.0),
            length: operation.length,
        };
        let (tag, offset, region_offset) =
            (operation.tag, operation.file_offset, operation.region_offset);
        let note = Note::Begun { at: self.seen, tag, offset, region_offset, place };
        if !self.note(note) {
            self.notes.left_out += 1;
        }
    }

    /// Times the pushed requests; returns the time.
    pub(super) fn submits(&mut self) -> Nanos {
        let now = self.clock.now();
        for note in &mut self.notes.all[self.fresh..] {
            if let Note::Begun { at, .. } = note {
                *at = now;
            }
        }
        self.fresh = self.notes.all.len();
        now
    }

    /// Notes that the ring was looked at again, after a sleep since `begin` if it slept.
    pub(super) fn looks(&mut self, begin: Nanos, slept: bool) {
        self.seen = self.clock.now();
        if slept {
            self.note(Note::Waited(Span { begin, end: self.seen }));
        }
    }

    pub(super) fn popped(&mut self, completion: Completion) {
        let result = completion.result.map_err(Errno::raw_os_error);
        self.note(Note::Ended { at: self.seen, tag: completion.tag, result });
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Notes so far, as a trace.
    #[cfg(test)]
    pub(super) fn read(&self) -> Trace {
        Notes { end: self.clock.now(), ..self.notes.clone() }.read()
    }
}

impl Drop for NoteLog {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let mut notes = std::mem::take(&mut self.notes);
        notes.end = self.clock.now();
        let unused = self.room - notes.all.len();
        notes.all.shrink_to_fit();
        home.take(notes, unused);
    }
}

impl Notes {
    /// Pairs the notes into phases, waits and requests.
    pub(super) fn read(self) -> Trace {
        let ends = self.phases.iter().skip(1).map(|&(_, at, _)| at).chain([self.end]);
        let phases = self.phases.iter().zip(ends);
        let phases =
            phases.map(|(&(kind, begin, _), end)| TracePhase { kind, span: Span { begin, end } });
        let phases = phases.collect();
        let waits = self.all.iter().filter_map(|note| match note {
            Note::Waited(span) => Some(*span),
            _ => None,
        });
        let waits = waits.collect();
        let requests::RequestNotes { requests, drives, memories, unended } =
            requests::requests(&self);
        Trace {
            name: self.name,
            drives,
            memories,
            slots: self.slots.map_or(0, |(.., count)| count),
            phases,
            requests,
            waits,
            left_out: self.left_out + unended,
        }
    }

    /// The phase of a note.
    pub(super) fn phase_of(&self, note: usize) -> PhaseKind {
        let after = self.phases.partition_point(|&(.., first)| first <= note);
        after.checked_sub(1).map_or(PhaseKind::Prepare, |at| self.phases[at].0)
    }

    pub(super) fn memory_of(&self, region: u16) -> TraceMemory {
        let named = self.regions.iter().find(|(one, _)| one.0 == u32::from(region));
        let host = || TraceMemory { name: HOST.to_owned(), kind: MemoryKind::Host };
        named.map_or_else(host, |(_, memory)| memory.clone())
    }

    pub(super) fn drive_of(&self, file: u16) -> Option<usize> {
        let named = self.files.iter().find(|(one, _)| one.0 == u32::from(file));
        named.map(|&(_, drive)| drive)
    }
}
