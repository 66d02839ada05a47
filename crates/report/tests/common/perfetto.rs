//! Reads traces back: knows the published field numbers only, and panics at all else.

use std::collections::BTreeMap;

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
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
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

/// Contents of a trace.
#[derive(Debug, Default)]
pub(crate) struct DecodedTrace {
    /// Name and parent of each track.
    pub(crate) tracks: BTreeMap<u64, (String, u64)>,
    counters: Vec<u64>,
    pub(crate) descriptions: BTreeMap<String, String>,
    /// Track and name.
    pub(crate) slices: Vec<(u64, String)>,
    /// Begin and end of each slice, in the same order.
    spans: Vec<(u64, u64)>,
    counts: Vec<(u64, u64)>,
    pub(crate) instants: Vec<String>,
}

impl DecodedTrace {
    fn is_below(&self, track: u64, root: &str, name: &str) -> bool {
        let (own, parent) = &self.tracks[&track];
        own == name && self.tracks.get(parent).is_some_and(|(parent, _)| parent == root)
    }

    /// Slices on the tracks called `name` below the track called `root`.
    pub(crate) fn below(&self, root: &str, name: &str) -> usize {
        self.slices.iter().filter(|(track, _)| self.is_below(*track, root, name)).count()
    }

    /// Begin and end of the slices on tracks of a name, whatever they are below.
    pub(crate) fn spans_of(&self, name: &str) -> Vec<(u64, u64)> {
        let all = self.slices.iter().zip(&self.spans);
        all.filter(|((track, _), _)| self.tracks[track].0 == name).map(|(_, span)| *span).collect()
    }

    /// Values of a counter.
    pub(crate) fn counts_of(&self, root: &str, name: &str) -> Vec<u64> {
        let own = self.counts.iter().filter(|(track, _)| self.is_below(*track, root, name));
        own.map(|one| one.1).collect()
    }
}

fn number(field: &Field<'_>) -> u64 {
    let Field::Number(number) = field else { panic!("{field:?}") };
    *number
}

fn text(field: &Field<'_>) -> String {
    let Field::Bytes(bytes) = field else { panic!("{field:?}") };
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Reads a trace; panics where it is none.
pub(crate) fn decode(bytes: &[u8]) -> DecodedTrace {
    let mut decoded = DecodedTrace::default();
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
        let track = get(11).map(number).expect("a number");
        assert!(decoded.tracks.contains_key(&track), "a track is described before its events");
        match get(9).map(number).expect("a number") {
            1 => {
                let before = open.insert(track, (get(23).map(text).expect("a name"), at));
                assert_eq!(before, None, "slices of one track do not overlap");
            }
            2 => {
                let (name, begin) = open.remove(&track).expect("an end has a begin");
                assert!(begin <= at, "{name} ends before it begins");
                decoded.slices.push((track, name));
                decoded.spans.push((begin, at));
            }
            3 => decoded.instants.push(get(23).map(text).expect("a name")),
            4 => {
                assert!(decoded.counters.contains(&track));
                decoded.counts.push((track, get(30).map(number).expect("a number")));
            }
            other => panic!("event type {other}"),
        }
    }
    assert!(open.is_empty(), "every slice ends");
    decoded
}

fn track(descriptor: &[u8], decoded: &mut DecodedTrace) {
    let all = fields(descriptor, &[1, 2, 5, 8, 11, 12, 14]);
    let get = |wanted| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| field);
    let (id, name) = (get(1).map(number).expect("a number"), get(2).map(text).expect("a name"));
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
