//! Traces read back.

use peerlane_results::{
    Action, MemoryKind, PhaseKind, Span, TraceMemory, TraceOutcome, TracePhase, TraceRequest,
};
use peerlane_units::Nanos;

use super::*;
use perfetto::{DecodedTrace, decode};

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../tests/common/perfetto.rs"]
mod perfetto;

fn span(begin: u64, end: u64) -> Span {
    Span { begin: Nanos(begin), end: Nanos(end) }
}

fn request(action: Action, slot: u64, begin: u64, end: u64) -> TraceRequest {
    TraceRequest {
        action,
        drive: usize::from(action != Action::Read),
        memory: (action != Action::Flush).then_some(0),
        slot: (action != Action::Flush).then_some(slot),
        offset: begin,
        bytes: 4096,
        span: span(begin, end),
        outcome: TraceOutcome::Full,
    }
}

/// Two slots in turn, four blocks, and a flush.
fn sample(memory: &str, kind: MemoryKind) -> Trace {
    let blocks = (0..4).flat_map(|block| {
        let begin = 100 + block * 50;
        [
            request(Action::Read, block % 2, begin, begin + 50),
            request(Action::Write, block % 2, begin + 50, begin + 100),
        ]
    });
    Trace {
        name: "a to b".to_owned(),
        drives: vec!["nvme0n1".to_owned(), "nvme1n1".to_owned()],
        memories: vec![TraceMemory { name: memory.to_owned(), kind }],
        slots: 2,
        phases: vec![
            TracePhase { kind: PhaseKind::Move, span: span(90, 400) },
            TracePhase { kind: PhaseKind::Flush, span: span(400, 460) },
        ],
        requests: blocks.chain([request(Action::Flush, 0, 410, 450)]).collect(),
        waits: vec![span(110, 150), span(420, 450)],
        left_out: 0,
    }
}

fn written(traces: &[Trace]) -> DecodedTrace {
    let mut bytes = Vec::new();
    write(traces, &mut bytes).unwrap();
    decode(&bytes)
}

#[test]
fn a_copy_between_devices_shows_host_memory_empty() {
    let decoded = written(&[sample("cmb:nvme2", MemoryKind::P2pmem)]);
    assert_eq!(decoded.below("nvme0n1", "reads"), 4);
    assert_eq!(decoded.below("nvme1n1", "writes"), 4);
    assert_eq!(decoded.below("nvme1n1", "flushes"), 1);
    assert_eq!(decoded.below("cmb:nvme2", "payload"), 4);
    assert_eq!(decoded.below("host memory", "payload"), 0);
    assert_eq!(decoded.below("processor: a to b", "phases"), 2);
    assert_eq!(decoded.below("processor: a to b", "waits"), 2);
    assert!(decoded.descriptions["host memory"].starts_with("Not involved in moving payload"));
    let counts = decoded.counts_of("host memory", "slots in use");
    assert_eq!(counts, [0, 0], "zero from the begin to the end");
}

#[test]
fn a_copy_through_host_memory_shows_its_slots_there() {
    let decoded = written(&[sample("host memory", MemoryKind::Host)]);
    assert_eq!(decoded.below("host memory", "payload"), 4);
    assert_eq!(decoded.descriptions["host memory"], "Payload went through it.");
    let counts = decoded.counts_of("host memory", "slots in use");
    assert_eq!(counts.iter().max(), Some(&2), "both slots, no more");
    assert_eq!(counts.last(), Some(&0));
}

#[test]
fn simultaneous_requests_lie_in_lanes() {
    let mut trace = sample("host memory", MemoryKind::Host);
    for one in &mut trace.requests {
        one.span.end = one.span.begin;
    }
    trace.requests.push(request(Action::Read, 1, 100, 900));
    let decoded = written(&[trace]);
    assert_eq!(decoded.below("nvme0n1", "reads"), 5);
}

#[test]
fn copies_share_drive_tracks_not_processors() {
    let first = sample("cmb:nvme2", MemoryKind::P2pmem);
    let second = Trace { name: "a to c".to_owned(), ..first.clone() };
    let decoded = written(&[first, second]);
    assert_eq!(decoded.below("nvme0n1", "reads"), 8);
    assert_eq!(decoded.below("processor: a to c", "phases"), 2);
    let tracks = decoded.tracks.values().filter(|(name, _)| name == "nvme0n1");
    assert_eq!(tracks.count(), 1);
}

#[test]
fn what_was_left_out_is_said_in_the_trace() {
    let cut = Trace { left_out: 7, ..sample("host memory", MemoryKind::Host) };
    let decoded = written(&[cut]);
    assert_eq!(decoded.instants, ["7 requests are not in this trace: it was full"]);
}

#[test]
fn a_file_without_traces_still_has_host_memory() {
    let decoded = written(&[]);
    assert!(decoded.tracks.values().any(|(name, _)| name == "host memory"));
}
