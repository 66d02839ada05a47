//! Begins and ends of requests, put together from the notes of a ring.

use std::collections::HashMap;

use peerlane_results::{PhaseKind, Span, TraceMemory, TraceOutcome, TraceRequest};
use peerlane_units::Nanos;

use super::log::{Note, Notes, RequestSubject};
use crate::io::ring::Action;

/// Requests of a ring, as its notes have them.
pub(super) struct RequestNotes {
    pub(super) requests: Vec<TraceRequest>,
    pub(super) drives: Vec<String>,
    pub(super) memories: Vec<TraceMemory>,
    /// Requests whose end there was no room for.
    pub(super) unended: u64,
}

struct NoteReader<'a> {
    notes: &'a Notes,
    requests: Vec<TraceRequest>,
    open: HashMap<u64, usize>,
    drives: Vec<String>,
    memories: Vec<TraceMemory>,
}

pub(super) fn requests(notes: &Notes) -> RequestNotes {
    let mut reader = NoteReader {
        notes,
        requests: Vec::new(),
        open: HashMap::new(),
        drives: notes.drives.clone(),
        memories: Vec::new(),
    };
    for (number, note) in notes.all.iter().enumerate() {
        match *note {
            Note::Begun { at, tag, offset, region_offset, place } => {
                let request = reader.request(number, at, (offset, region_offset), place);
                reader.open.insert(tag, reader.requests.len());
                reader.requests.push(request);
            }
            Note::Ended { at, tag, result } => reader.ended(at, tag, result),
            Note::Waited(_) => {}
        }
    }
    reader.finish()
}

impl NoteReader<'_> {
    fn request(
        &mut self,
        number: usize,
        at: Nanos,
        (offset, region_offset): (u64, u64),
        place: RequestSubject,
    ) -> TraceRequest {
        let moves = place.action.has_memory();
        let slot = self.notes.slots.filter(|&(region, ..)| {
            moves
                && region.0 == u32::from(place.region)
                && self.notes.phase_of(number) == PhaseKind::Move
        });
        TraceRequest {
            action: place.action,
            drive: match place.action {
                Action::Stage => self.stage(place.file),
                _ => self.drive(place.file),
            },
            memory: moves.then(|| self.memory(place.region)),
            slot: slot.map(|(_, stride, _)| region_offset / stride),
            offset,
            bytes: u64::from(place.length),
            span: Span { begin: at, end: at },
            outcome: TraceOutcome::Unanswered,
        }
    }

    fn drive(&mut self, file: u16) -> usize {
        self.notes.drive_of(file).unwrap_or_else(|| {
            let name = format!("file {file}");
            index_of(&mut self.drives, |one| *one == name, || name.clone())
        })
    }

    fn stage(&mut self, number: u16) -> usize {
        let name = match self.notes.stages.get(usize::from(number)) {
            Some(name) => format!("stage {name}"),
            None => format!("stage {}", number + 1),
        };
        index_of(&mut self.drives, |one| *one == name, || name.clone())
    }

    fn memory(&mut self, region: u16) -> usize {
        let memory = self.notes.memory_of(region);
        index_of(&mut self.memories, |one| *one == memory, || memory.clone())
    }

    fn ended(&mut self, at: Nanos, tag: u64, result: Result<u32, i32>) {
        let Some(number) = self.open.remove(&tag) else { return };
        let request = &mut self.requests[number];
        request.span.end = at.max(request.span.begin);
        request.outcome = match result {
            Err(errno) => TraceOutcome::Failed(errno),
            Ok(moved) if request.memory.is_some() && u64::from(moved) < request.bytes => {
                TraceOutcome::Short(u64::from(moved))
            }
            Ok(_) => TraceOutcome::Full,
        };
    }

    /// Requests without an answer last until the end, unless there was no room to note their answers.
    fn finish(mut self) -> RequestNotes {
        let mut unended = 0;
        self.requests.retain_mut(|request| {
            if request.outcome != TraceOutcome::Unanswered {
                return true;
            }
            request.span.end = self.notes.end.max(request.span.begin);
            unended += u64::from(self.notes.is_cut);
            !self.notes.is_cut
        });
        let Self { requests, drives, memories, .. } = self;
        RequestNotes { requests, drives, memories, unended }
    }
}

/// Returns the index of the first that `is_it`; it is added if there is none.
fn index_of<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    all.iter().position(is_it).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    })
}
