//! Tracks of a file and the events on them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use peerlane_results::{
    Action, MemoryKind, PhaseKind, Span, Trace, TraceOutcome, TracePhase, TraceRequest,
};
use peerlane_units::Nanos;

use super::lanes::Lanes;
use super::occupancy::occupied;
use super::wire::{EventKind, Track, TrackEvent, TrackKind, Value};

/// Host memory has this name in every trace.
const HOST: &str = "host memory";

/// Tracks and events of a file.
#[derive(Debug, Default)]
pub(super) struct Tracks<'a> {
    pub(super) described: Vec<Track>,
    pub(super) events: Vec<TrackEvent<'a>>,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(traces: &'a [Trace]) -> Self {
        let mut tracks = Self::default();
        tracks.drives(traces);
        tracks.memories(traces);
        tracks.engines(traces);
        tracks
    }

    fn track(&mut self, parent: u64, name: &str, description: String, kind: TrackKind) -> u64 {
        let id = self.described.len() as u64 + 1;
        let (name, rank) = (name.to_owned(), id);
        self.described.push(Track { id, parent, name, description, kind, rank });
        id
    }

    fn root(&mut self, name: &str, description: &str) -> u64 {
        self.track(0, name, description.to_owned(), TrackKind::Slices)
    }

    fn slices(&mut self, parent: u64, name: &str) -> u64 {
        self.track(parent, name, String::new(), TrackKind::Slices)
    }

    fn slice(
        &mut self,
        track: u64,
        span: Span,
        name: Cow<'a, str>,
        notes: Vec<(&'static str, Value<'a>)>,
    ) {
        self.events.push(TrackEvent {
            at: span.begin.0,
            track,
            what: EventKind::Begin { name, notes },
        });
        self.events.push(TrackEvent { at: span.end.0, track, what: EventKind::End });
    }

    /// Slices that may overlap, in lanes of one name below `parent`.
    fn in_lanes(&mut self, parent: u64, name: &str, mut all: Vec<Slice<'a>>) {
        all.sort_by_key(|slice| slice.span.begin);
        let mut lanes = Lanes::default();
        let mut ids: Vec<u64> = Vec::new();
        for Slice { span, name: own, notes } in all {
            let lane = lanes.place(span);
            if lane == ids.len() {
                ids.push(self.slices(parent, name));
            }
            self.slice(ids[lane], span, own, notes);
        }
    }

    /// A track for each drive and stage of any trace, and below it one for each kind of request.
    fn drives(&mut self, traces: &'a [Trace]) {
        for drive in names(traces.iter().flat_map(|trace| &trace.drives)) {
            let root = self.root(drive, "");
            for (action, name) in [
                (Action::Read, "reads"),
                (Action::Write, "writes"),
                (Action::Zero, "made zero"),
                (Action::Flush, "flushes"),
                (Action::Stage, "work"),
            ] {
                let slices = traces.iter().flat_map(|trace| {
                    let is_its = move |one: &&TraceRequest| {
                        one.action == action
                            && trace.drives.get(one.drive).is_some_and(|name| name == drive)
                    };
                    trace.requests.iter().filter(is_its).map(move |one| slice(trace, one))
                });
                self.in_lanes(root, name, slices.collect());
            }
        }
    }

    /// A track for each memory with the amount in use and the content of each slot; host memory
    /// last and always.
    fn memories(&mut self, traces: &'a [Trace]) {
        let of_devices = traces
            .iter()
            .flat_map(|trace| &trace.memories)
            .filter(|memory| memory.kind != MemoryKind::Host)
            .map(|memory| &memory.name);
        let mut all: Vec<&str> = names(of_devices);
        all.push(HOST);
        for memory in all {
            self.memory(memory, traces);
        }
    }

    fn memory(&mut self, memory: &str, traces: &'a [Trace]) {
        let root = self.root(memory, description(memory, traces));
        let (mut payload, mut checks) = (Vec::new(), Vec::new());
        for trace in traces {
            for one in occupied(trace) {
                if trace.memories.get(one.memory).is_none_or(|found| found.name != memory) {
                    continue;
                }
                let slot = one.slot.map(|slot| ("slot", Value::Number(slot)));
                let mut notes = vec![("offset", Value::Number(one.offset))];
                notes.extend(slot);
                match one.slot {
                    Some(_) => payload.push(Slice { span: one.span, name: "block".into(), notes }),
                    None => checks.push(Slice { span: one.span, name: "in use".into(), notes }),
                }
            }
        }
        let begin =
            traces.iter().filter_map(|trace| trace.phases.first()).map(|one| one.span.begin);
        let end = traces.iter().filter_map(|trace| trace.phases.last()).map(|one| one.span.end);
        let ends = [begin.min(), end.max()];
        self.count(root, "slots in use", &payload, ends);
        self.in_lanes(root, "payload", payload);
        self.count(root, "requests of proof and checks", &checks, ends);
        self.in_lanes(root, "proof, checks, tails and zeroes", checks);
    }

    /// Counts slices at a time: one value for each time at which the count changes.
    fn count(&mut self, root: u64, name: &str, slices: &[Slice<'_>], ends: [Option<Nanos>; 2]) {
        let track = self.track(root, name, String::new(), TrackKind::Counter);
        let mut changes: BTreeMap<Nanos, i64> =
            ends.into_iter().flatten().map(|at| (at, 0)).collect();
        for slice in slices {
            *changes.entry(slice.span.begin).or_default() += 1;
            *changes.entry(slice.span.end).or_default() -= 1;
        }
        let mut in_use = 0_i64;
        for (at, change) in changes {
            in_use += change;
            let what = EventKind::Count(u64::try_from(in_use).unwrap_or(0));
            self.events.push(TrackEvent { at: at.0, track, what });
        }
    }

    /// A track for each copy: phases of the engine, and sleeps of its thread.
    fn engines(&mut self, traces: &'a [Trace]) {
        for copy in names(traces.iter().map(|trace| &trace.name)) {
            let own = || traces.iter().filter(|trace| trace.name == copy);
            let root = self.root(&format!("processor: {copy}"), "");
            let about = own().flat_map(|trace| trace.phases.iter().map(phase));
            self.in_lanes(root, "phases", about.collect());
            let waits = own().flat_map(|trace| &trace.waits);
            let waits = waits.map(|&span| Slice { span, name: "waits".into(), notes: Vec::new() });
            self.in_lanes(root, "waits", waits.collect());
            let left_out: u64 = own().map(|trace| trace.left_out).sum();
            let full = (left_out > 0)
                .then(|| format!("{left_out} requests are not in this trace: it was full"));
            let last = own().flat_map(|trace| &trace.phases).map(|one| one.span.end).max();
            for (name, end) in full.into_iter().zip(last) {
                self.events.push(TrackEvent {
                    at: end.0,
                    track: root,
                    what: EventKind::Instant { name },
                });
            }
        }
    }
}

/// Something on a track that has lanes.
struct Slice<'a> {
    span: Span,
    name: Cow<'a, str>,
    notes: Vec<(&'static str, Value<'a>)>,
}

fn phase<'a>(phase: &TracePhase) -> Slice<'a> {
    Slice { span: phase.span, name: name_of(phase.kind).into(), notes: Vec::new() }
}

fn slice<'a>(trace: &'a Trace, request: &TraceRequest) -> Slice<'a> {
    let name = match request.action {
        Action::Read => "read",
        Action::Write => "write",
        Action::Flush => "flush",
        Action::Zero => "made zero",
        Action::Stage => "work",
    };
    let mut notes = Vec::new();
    if request.action != Action::Flush {
        notes.push(("offset", Value::Number(request.offset)));
        notes.push(("bytes", Value::Number(request.bytes)));
    }
    notes.extend(request.slot.map(|slot| ("slot", Value::Number(slot))));
    let memory = request.memory.and_then(|memory| trace.memories.get(memory));
    notes.extend(memory.map(|one| ("memory", Value::Text(Cow::Borrowed(one.name.as_str())))));
    notes.extend(match request.outcome {
        TraceOutcome::Full => None,
        TraceOutcome::Short(bytes) => Some(("moved", Value::Number(bytes))),
        TraceOutcome::Failed(errno) => {
            Some(("error", Value::Text(Cow::Owned(format!("errno {errno}")))))
        }
        TraceOutcome::Unanswered => Some(("error", Value::Text(Cow::Borrowed("no answer")))),
    });
    Slice { span: request.span, name: name.into(), notes }
}

fn name_of(kind: PhaseKind) -> &'static str {
    match kind {
        PhaseKind::Prepare => "prepare",
        PhaseKind::Prove => "proof of the route",
        PhaseKind::Move => "move",
        PhaseKind::Flush => "flush",
        PhaseKind::Verify => "verification",
    }
}

/// States in words whether payload went through a memory.
fn description(memory: &str, traces: &[Trace]) -> &'static str {
    let is_payload = |trace: &Trace, one: &TraceRequest| {
        let name = one.memory.and_then(|memory| trace.memories.get(memory));
        one.slot.is_some() && name.is_some_and(|found| found.name == memory)
    };
    let carries =
        traces.iter().any(|trace| trace.requests.iter().any(|one| is_payload(trace, one)));
    match (memory == HOST, carries) {
        (_, true) => "Payload went through it.",
        (true, false) => "Not involved in moving payload; in use for proof and verification only.",
        (false, false) => "No payload went through it.",
    }
}

/// Names, each once, in the order of first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}
