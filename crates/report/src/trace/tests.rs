//! Traces read back.

use peerlane_results::{
    KnownEnds, MemoryKind, PhaseKind, Span, TraceAction, TraceMemory, TraceOutcome, TracePhase,
    TraceRequest, TraceWindow,
};
use peerlane_units::Nanos;

use super::*;
use perfetto::{Decoded, decode};

#[path = "../../tests/common/perfetto.rs"]
mod perfetto;

fn span(begin: u64, end: u64) -> Span {
    Span { begin: Nanos(begin), end: Nanos(end) }
}

fn request(action: TraceAction, slot: u64, begin: u64, end: u64) -> TraceRequest {
    TraceRequest {
        action,
        drive: usize::from(action != TraceAction::Read),
        memory: (action != TraceAction::Flush).then_some(0),
        slot: (action != TraceAction::Flush).then_some(slot),
        offset: begin,
        bytes: 4096,
        span: span(begin, end),
        known: KnownEnds::Both,
        outcome: TraceOutcome::Full,
    }
}

/// Two slots in turn, four blocks, and a flush.
fn sample(memory: &str, kind: MemoryKind) -> Trace {
    let blocks = (0..4).flat_map(|block| {
        let begin = 100 + block * 50;
        [
            request(TraceAction::Read, block % 2, begin, begin + 50),
            request(TraceAction::Write, block % 2, begin + 50, begin + 100),
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
        requests: blocks.chain([request(TraceAction::Flush, 0, 410, 450)]).collect(),
        waits: vec![span(110, 150), span(420, 450)],
        left_out: 0,
        window: None,
        remarks: Vec::new(),
    }
}

fn written(traces: &[Trace]) -> Decoded {
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
fn requests_at_a_time_lie_in_lanes_and_those_without_length_end() {
    let mut trace = sample("host memory", MemoryKind::Host);
    for one in &mut trace.requests {
        one.span.end = one.span.begin;
    }
    trace.requests.push(request(TraceAction::Read, 1, 100, 900));
    let decoded = written(&[trace]);
    assert_eq!(decoded.below("nvme0n1", "reads"), 5);
}

#[test]
fn copies_share_the_track_of_a_drive_and_have_their_own_processor() {
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

/// The same copy in a window of a prediction, which cuts a read at its begin and a write at its end.
fn predicted(memory: &str, kind: MemoryKind) -> Trace {
    let window = TraceWindow {
        case: "one p2p".to_owned(),
        from: Nanos(0),
        out_of: Nanos(2_500_000_000),
        warm_up: Nanos(1_200_000),
        is_settled: true,
        train: 16,
        depth: 2,
    };
    let measured = sample(memory, kind);
    let payload = measured.requests.iter().filter(|one| one.memory.is_some()).cloned();
    let mut requests: Vec<TraceRequest> = payload.collect();
    let (first, last) = (0, requests.len() - 1);
    for (cut, moved) in [(first, 1024), (last, 3072)] {
        requests[cut].outcome = TraceOutcome::Partly(moved);
    }
    let phases = vec![TracePhase { kind: PhaseKind::Move, span: span(100, 350) }];
    let (waits, window) = (Vec::new(), Some(window));
    Trace { phases, requests, waits, window, ..measured }
}

/// Tracks in the order of the file, those below others set in, and what is said of them.
fn tracks(decoded: &Decoded) -> String {
    let line = |(name, parent): &(String, u64)| {
        let indent = if *parent == 0 { "" } else { "  " };
        let words = decoded.descriptions.get(name).filter(|_| *parent == 0);
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        format!("{indent}{name}{words}\n")
    };
    decoded.tracks.values().map(line).collect()
}

const TRACKS: &str = "\
nvme0n1 (predicted): Predicted by the model, not measured.
  reads
nvme1n1 (predicted): Predicted by the model, not measured.
  writes
cmb:nvme2 (predicted): Predicted by the model, not measured. Payload went through it.
  slots in use
  payload
  payload
host memory (predicted): Predicted by the model, not measured. Not involved in moving payload.
  slots in use
transfer: a to b (predicted): Predicted by the model, not measured.
  windows
";

#[test]
fn tracks_of_a_prediction_say_that_it_is_one() {
    let decoded = written(&[predicted("cmb:nvme2", MemoryKind::P2pmem)]);
    assert_eq!(tracks(&decoded), TRACKS);
    let windows: Vec<&str> = decoded.named_below("transfer: a to b (predicted)", "windows");
    assert_eq!(windows, ["one p2p: a window of 250 ns out of 2.50 s"]);
}

#[test]
fn a_prediction_shows_the_same_of_host_memory_as_a_measurement() {
    for (memory, kind, blocks) in
        [("cmb:nvme2", MemoryKind::P2pmem, [4, 0]), ("host memory", MemoryKind::Host, [0, 4])]
    {
        let decoded = written(&[predicted(memory, kind)]);
        let host = "host memory (predicted)";
        let other = "cmb:nvme2 (predicted)";
        let found = [other, host].map(|track| decoded.below(track, "payload"));
        assert_eq!(found, blocks);
        assert_eq!(decoded.descriptions[host].contains("Not involved"), blocks[1] == 0);
        let counts = decoded.counts_of(host, "slots in use");
        assert_eq!(counts.iter().max().copied(), Some(blocks[1].min(2) as u64), "{counts:?}");
        assert_eq!(counts.last(), Some(&0));
    }
}

#[test]
fn requests_that_a_window_cuts_say_so() {
    let decoded = written(&[predicted("cmb:nvme2", MemoryKind::P2pmem)]);
    let of = |drive, name| decoded.named_below(drive, name);
    let reads = of("nvme0n1 (predicted)", "reads");
    assert_eq!(reads.iter().filter(|name| **name == "read (cut by the window)").count(), 1);
    let writes = of("nvme1n1 (predicted)", "writes");
    assert_eq!(writes.iter().filter(|name| **name == "write (cut by the window)").count(), 1);
    assert_eq!((reads.len(), writes.len()), (4, 4));
}

#[test]
fn a_measurement_and_a_prediction_of_one_copy_share_no_track() {
    let both =
        [sample("host memory", MemoryKind::Host), predicted("host memory", MemoryKind::Host)];
    let decoded = written(&both);
    for (drive, name) in [("nvme0n1", "reads"), ("nvme1n1", "writes"), ("host memory", "payload")] {
        assert_eq!(decoded.below(drive, name), 4);
        assert_eq!(decoded.below(&format!("{drive} (predicted)"), name), 4);
    }
    assert_eq!(decoded.below("processor: a to b", "phases"), 2);
}

#[test]
fn what_a_reader_must_be_told_is_in_the_trace() {
    let remark = "many: 129 of 129 transfers are in no window".to_owned();
    let whole = predicted("host memory", MemoryKind::Host);
    let decoded =
        written(&[Trace { remarks: vec![remark.clone()], left_out: 3, ..whole.clone() }, whole]);
    assert_eq!(
        decoded.instants,
        ["3 requests are not in this trace: it was full".to_owned(), remark]
    );
}

#[test]
fn a_file_without_traces_still_has_host_memory() {
    let decoded = written(&[]);
    assert!(decoded.tracks.values().any(|(name, _)| name == "host memory"));
}
