//! Packets of a Perfetto trace in the wire format of protocol buffers.
//!
//! Field numbers: `trace.proto`, `trace_packet.proto`, `track_event/{track_event,track_descriptor,
//! counter_descriptor,debug_annotation}.proto` below `protos/perfetto/trace` of Perfetto.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whose packets these are; any number but zero.
const SEQUENCE: u64 = 1;

/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing before the first packet is missed.
const CLEARED: u64 = 1;

/// A track, described before its first event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) id: u64,
    /// The track that it lies below; zero for none.
    pub(super) parent: u64,
    pub(super) name: String,
    /// What a reader should know of it; may be empty.
    pub(super) description: String,
    pub(super) kind: TrackKind,
    /// Place among those below the same track.
    pub(super) rank: u64,
}

/// What a track has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackKind {
    /// Slices, or tracks below it.
    Slices,
    /// A number.
    Counter,
}

/// Something at a time on a track.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// Nanoseconds.
    pub(super) at: u64,
    pub(super) track: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Begin { name: &'static str, notes: Vec<(&'static str, Value)> },
    End,
    Instant { name: String },
    Count(u64),
}

/// The value of an annotation.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Number(u64),
    Text(Cow<'static, str>),
}

/// Packets on their way out.
pub(super) struct Packets<'a> {
    out: &'a mut dyn Write,
    packet: Message,
    is_first: bool,
}

impl<'a> Packets<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, packet: Message::default(), is_first: true }
    }

    pub(super) fn describe(&mut self, track: &Track) -> io::Result<()> {
        let mut descriptor = Message::default();
        descriptor.number(1, track.id);
        descriptor.text(2, &track.name);
        if track.parent != 0 {
            descriptor.number(5, track.parent);
        }
        if track.kind == TrackKind::Counter {
            let mut counter = Message::default();
            // UNIT_COUNT.
            counter.number(3, 2);
            descriptor.bytes(8, &counter.0);
        }
        // EXPLICIT: by the rank of those below.
        descriptor.number(11, 3);
        descriptor.number(12, track.rank);
        if !track.description.is_empty() {
            descriptor.text(14, &track.description);
        }
        self.packet.bytes(60, &descriptor.0);
        self.end()
    }

    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut inner = Message::default();
        let kind = match &event.what {
            What::Begin { .. } => 1,
            What::End => 2,
            What::Instant { .. } => 3,
            What::Count(_) => 4,
        };
        inner.number(9, kind);
        inner.number(11, event.track);
        match &event.what {
            What::Begin { name, notes } => {
                inner.text(23, name);
                notes.iter().for_each(|(name, value)| inner.bytes(4, &note(name, value).0));
            }
            What::Instant { name } => inner.text(23, name),
            What::Count(count) => inner.number(30, *count),
            What::End => {}
        }
        self.packet.number(8, event.at);
        self.packet.bytes(11, &inner.0);
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.packet.number(10, SEQUENCE);
        if std::mem::take(&mut self.is_first) {
            self.packet.number(13, CLEARED);
        }
        let mut whole = Message::default();
        whole.bytes(1, &self.packet.0);
        self.packet.0.clear();
        self.out.write_all(&whole.0)
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.out.flush()
    }
}

fn note(name: &str, value: &Value) -> Message {
    let mut message = Message::default();
    message.text(10, name);
    match value {
        Value::Number(number) => message.number(3, *number),
        Value::Text(text) => message.text(6, text),
    }
    message
}

/// A message under way.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or(0));
    }

    /// A number; its wire type is 0.
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Bytes or a message; their wire type is 2.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }
}
