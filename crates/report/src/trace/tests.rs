//! Traces read back by a decoder that knows the published field numbers only, and refuses all else.

use std::collections::BTreeMap;

use peerlane_results::{
    KnownEnds, MemoryKind, PhaseKind, Span, TraceAction, TraceMemory, TraceOutcome, TracePhase,
    TraceRequest,
};
use peerlane_units::Nanos;

use super::*;

/// A field of a message: a number, or bytes.
#[derive(Debug, Clone, PartialEq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by number; only those with a number in `known` may be there.
fn fields<'a>(mut bytes: &'a [u8], known: &[u64]) -> Vec<(u64, Field<'a>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a varint goes on");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        unreachable!()
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = key >> 3;
        assert!(known.contains(&number), "field {number} is none of {known:?}");
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(inner)
            }
            other => panic!("wire type {other}"),
        };
        found.push((number, field));
    }
    found
}

#[derive(Debug, Default)]
struct Decoded {
    /// Name and parent of each track.
    tracks: BTreeMap<u64, (String, u64)>,
    counters: Vec<u64>,
    descriptions: BTreeMap<String, String>,
    /// Track, name, begin, end.
    slices: Vec<(u64, String, u64, u64)>,
    counts: Vec<(u64, u64)>,
    instants: Vec<String>,
}

fn number(field: &Field<'_>) -> u64 {
    let Field::Number(number) = field else { panic!("{field:?}") };
    *number
}

fn text(field: &Field<'_>) -> String {
    let Field::Bytes(bytes) = field else { panic!("{field:?}") };
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn decode(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let mut open: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    let mut latest = 0;
    for (index, (_, packet)) in fields(bytes, &[1]).into_iter().enumerate() {
        let Field::Bytes(packet) = packet else { panic!("a packet is bytes") };
        let all = fields(packet, &[8, 10, 11, 13, 60]);
        let get = |wanted| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| field);
        assert_eq!(get(10).map(number), Some(1), "each packet belongs to the sequence");
        assert_eq!(get(13).map(number), (index == 0).then_some(1));
        if let Some(Field::Bytes(descriptor)) = get(60) {
            track(descriptor, &mut decoded);
            continue;
        }
        let at = get(8).map(number).expect("an event has a time");
        assert!(at >= latest, "events are in order");
        latest = at;
        let Some(Field::Bytes(event)) = get(11) else { panic!("neither track nor event") };
        let all = fields(event, &[4, 9, 11, 23, 30]);
        let get = |wanted| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| field);
        let track = get(11).map(number).unwrap();
        assert!(decoded.tracks.contains_key(&track), "a track is described before its events");
        match get(9).map(number).unwrap() {
            1 => {
                let before = open.insert(track, (get(23).map(text).unwrap(), at));
                assert_eq!(before, None, "slices of one track do not overlap");
            }
            2 => {
                let (name, begin) = open.remove(&track).expect("an end has a begin");
                decoded.slices.push((track, name, begin, at));
            }
            3 => decoded.instants.push(get(23).map(text).unwrap()),
            4 => {
                assert!(decoded.counters.contains(&track));
                decoded.counts.push((track, get(30).map(number).unwrap()));
            }
            other => panic!("event type {other}"),
        }
    }
    assert!(open.is_empty(), "every slice ends");
    decoded
}

fn track(descriptor: &[u8], decoded: &mut Decoded) {
    let all = fields(descriptor, &[1, 2, 5, 8, 11, 12, 14]);
    let get = |wanted| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| field);
    let (id, name) = (get(1).map(number).unwrap(), get(2).map(text).unwrap());
    let parent = get(5).map_or(0, number);
    assert!(parent == 0 || decoded.tracks.contains_key(&parent), "parents come first");
    if get(8).is_some() {
        decoded.counters.push(id);
    }
    if let Some(words) = get(14).map(text) {
        decoded.descriptions.insert(name.clone(), words);
    }
    assert_eq!(decoded.tracks.insert(id, (name, parent)), None, "a number is one track's");
}

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
    }
}

fn written(traces: &[Trace]) -> Decoded {
    let mut bytes = Vec::new();
    write(traces, &mut bytes).unwrap();
    decode(&bytes)
}

/// Slices below the track with this name.
fn below(decoded: &Decoded, root: &str, name: &str) -> usize {
    let is_its = |track: &u64| {
        let (own, parent) = &decoded.tracks[track];
        own == name && decoded.tracks.get(parent).is_some_and(|(parent, _)| parent == root)
    };
    decoded.slices.iter().filter(|(track, ..)| is_its(track)).count()
}

#[test]
fn a_copy_between_devices_shows_host_memory_empty() {
    let decoded = written(&[sample("cmb:nvme2", MemoryKind::P2pmem)]);
    assert_eq!(below(&decoded, "nvme0n1", "reads"), 4);
    assert_eq!(below(&decoded, "nvme1n1", "writes"), 4);
    assert_eq!(below(&decoded, "nvme1n1", "flushes"), 1);
    assert_eq!(below(&decoded, "cmb:nvme2", "payload"), 4);
    assert_eq!(below(&decoded, "host memory", "payload"), 0);
    assert_eq!(below(&decoded, "processor: a to b", "phases"), 2);
    assert_eq!(below(&decoded, "processor: a to b", "waits"), 2);
    assert!(decoded.descriptions["host memory"].starts_with("Not involved in moving payload"));
    let host = decoded.tracks.iter().find(|(_, (name, _))| name == "host memory").unwrap().0;
    let counter = |one: &&u64| decoded.tracks[one].1 == *host;
    let counter = decoded.counters.iter().find(counter).unwrap();
    let counts: Vec<u64> =
        decoded.counts.iter().filter(|(track, _)| track == counter).map(|one| one.1).collect();
    assert_eq!(counts, [0, 0], "zero from the begin to the end");
}

#[test]
fn a_copy_through_host_memory_shows_its_slots_there() {
    let decoded = written(&[sample("host memory", MemoryKind::Host)]);
    assert_eq!(below(&decoded, "host memory", "payload"), 4);
    assert_eq!(decoded.descriptions["host memory"], "Payload went through it.");
    assert_eq!(decoded.counts.iter().map(|one| one.1).max(), Some(2), "both slots, no more");
    assert!(decoded.slices.iter().all(|(_, _, begin, end)| begin <= end));
    assert_eq!(decoded.counts.last().map(|one| one.1), Some(0));
}

#[test]
fn requests_at_a_time_lie_in_lanes_and_those_without_length_end() {
    let mut trace = sample("host memory", MemoryKind::Host);
    for one in &mut trace.requests {
        one.span.end = one.span.begin;
    }
    trace.requests.push(request(TraceAction::Read, 1, 100, 900));
    let decoded = written(&[trace]);
    assert_eq!(below(&decoded, "nvme0n1", "reads"), 5);
}

#[test]
fn copies_share_the_track_of_a_drive_and_have_their_own_processor() {
    let first = sample("cmb:nvme2", MemoryKind::P2pmem);
    let second = Trace { name: "a to c".to_owned(), ..first.clone() };
    let decoded = written(&[first, second]);
    assert_eq!(below(&decoded, "nvme0n1", "reads"), 8);
    assert_eq!(below(&decoded, "processor: a to c", "phases"), 2);
    let drives = decoded.tracks.values().filter(|(name, _)| name == "nvme0n1").count();
    assert_eq!(drives, 1);
}

#[test]
fn what_was_left_out_is_said_in_the_trace() {
    let cut = Trace { left_out: 7, ..sample("host memory", MemoryKind::Host) };
    let decoded = written(&[cut]);
    assert_eq!(decoded.instants, ["7 requests are not in this trace: it was full"]);
}
