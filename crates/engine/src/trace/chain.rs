//! Begins and ends of requests, put together from the notes of a ring.

use std::collections::HashMap;

use peerlane_results::{
    KnownEnds, PhaseKind, Span, TraceAction, TraceMemory, TraceOutcome, TraceRequest,
};
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::log::{Note, Notes, Place};
use crate::ring::Action;

/// What the notes of a ring say of its requests.
pub(super) struct Requests {
    pub(super) requests: Vec<TraceRequest>,
    pub(super) drives: Vec<String>,
    pub(super) memories: Vec<TraceMemory>,
    /// Requests whose end there was no room for.
    pub(super) unended: u64,
}

/// A request and the one that it waited for.
struct Seen {
    request: TraceRequest,
    state: State,
    after: Option<usize>,
    before: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Cancelled,
}

struct Reader<'a> {
    notes: &'a Notes,
    seen: Vec<Seen>,
    open: HashMap<u64, usize>,
    /// The request that the next one is chained to.
    chained: Option<usize>,
    drives: Vec<String>,
    memories: Vec<TraceMemory>,
}

pub(super) fn requests(notes: &Notes) -> Requests {
    let mut reader = Reader {
        notes,
        seen: Vec::new(),
        open: HashMap::new(),
        chained: None,
        drives: notes.drives.clone(),
        memories: Vec::new(),
    };
    for (number, note) in notes.all.iter().enumerate() {
        match *note {
            Note::Begun { at, tag, offset, region_offset, place } => {
                let request = reader.request(number, at, (offset, region_offset), place);
                reader.begun(request, tag, place.is_linked);
            }
            Note::Ended { at, tag, result } => reader.ended(at, tag, result),
            Note::Waited(_) => {}
        }
    }
    reader.finish()
}

impl Reader<'_> {
    fn request(
        &mut self,
        number: usize,
        at: Nanos,
        (offset, region_offset): (u64, u64),
        place: Place,
    ) -> TraceRequest {
        let action = match place.action {
            Action::Read => TraceAction::Read,
            Action::Write => TraceAction::Write,
            Action::Flush => TraceAction::Flush,
            Action::Zero => TraceAction::Zero,
        };
        let moves = matches!(action, TraceAction::Read | TraceAction::Write);
        let slot = self.notes.slots.filter(|&(region, ..)| {
            moves
                && region.0 == u32::from(place.region)
                && self.notes.phase_of(number) == PhaseKind::Move
        });
        TraceRequest {
            action,
            drive: self.drive(place.file),
            memory: moves.then(|| self.memory(place.region)),
            slot: slot.map(|(_, stride, _)| region_offset / stride),
            offset,
            bytes: u64::from(place.length),
            span: Span { begin: at, end: at },
            known: KnownEnds::Both,
            outcome: TraceOutcome::Unanswered,
        }
    }

    fn drive(&mut self, file: u16) -> usize {
        self.notes.drive_of(file).unwrap_or_else(|| {
            let name = format!("file {file}");
            index_of(&mut self.drives, |one| *one == name, || name.clone())
        })
    }

    fn memory(&mut self, region: u16) -> usize {
        let memory = self.notes.memory_of(region);
        index_of(&mut self.memories, |one| *one == memory, || memory.clone())
    }

    fn begun(&mut self, request: TraceRequest, tag: u64, is_linked: bool) {
        let number = self.seen.len();
        let before = self.chained.take();
        if let Some(before) = before {
            self.seen[before].after = Some(number);
        }
        self.chained = is_linked.then_some(number);
        self.open.insert(tag, number);
        self.seen.push(Seen { request, state: State::Open, after: None, before });
    }

    fn ended(&mut self, at: Nanos, tag: u64, result: Result<u32, i32>) {
        let Some(number) = self.open.remove(&tag) else { return };
        let Seen { request, state, after, before } = &mut self.seen[number];
        let (after, before) = (*after, *before);
        if before.is_some() && result == Err(Errno::CANCELED.raw_os_error()) {
            *state = State::Cancelled;
            return;
        }
        *state = State::Ended;
        let at = at.max(request.span.begin);
        request.span.end = at;
        request.outcome = match result {
            Err(errno) => TraceOutcome::Failed(errno),
            Ok(moved) if request.memory.is_some() && u64::from(moved) < request.bytes => {
                TraceOutcome::Short(u64::from(moved))
            }
            Ok(_) => TraceOutcome::Full,
        };
        if let (Some(before), true) = (before, request.span.begin == at) {
            let begin = self.seen[before].request.span.begin;
            self.seen[before].request.known = KnownEnds::Begin;
            let own = &mut self.seen[number].request;
            own.span.begin = begin;
            own.known = KnownEnds::End;
        }
        if let Some(after) = after {
            self.seen[after].request.span.begin = at;
        }
    }

    fn finish(mut self) -> Requests {
        let mut unended = 0;
        self.seen.retain_mut(|seen| match seen.state {
            State::Ended => true,
            State::Cancelled => false,
            State::Open if self.notes.is_cut => {
                unended += 1;
                false
            }
            State::Open => {
                seen.request.span.end = self.notes.end.max(seen.request.span.begin);
                true
            }
        });
        let requests = self.seen.into_iter().map(|seen| seen.request).collect();
        Requests { requests, drives: self.drives, memories: self.memories, unended }
    }
}

/// Where the first that `is_it` lies; it is added if there is none.
fn index_of<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    all.iter().position(is_it).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    })
}
