//! Packets of a Perfetto trace in the wire format of protocol buffers.
//!
//! Field numbers: `trace.proto`, `trace_packet.proto`, `track_event/{track_event,track_descriptor,
//! counter_descriptor,debug_annotation}.proto` below `protos/perfetto/trace` of Perfetto.

use std::borrow::Cow;
use std::io::{self, Write};

/// Identifier of the writer of these packets; any number but zero.
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
    /// Explanation for a reader; may be empty.
    pub(super) description: String,
    pub(super) kind: TrackKind,
    /// Place among those below the same track.
    pub(super) rank: u64,
}

/// Contents of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackKind {
    /// Slices, or tracks below it.
    Slices,
    /// A number.
    Counter,
}

/// Something at a time on a track.
#[derive(Debug, Clone)]
pub(super) struct TrackEvent<'a> {
    /// Nanoseconds.
    pub(super) at: u64,
    pub(super) track: u64,
    pub(super) what: EventKind<'a>,
}

#[derive(Debug, Clone)]
pub(super) enum EventKind<'a> {
    Begin { name: Cow<'a, str>, notes: Vec<(&'static str, Value<'a>)> },
    End,
    Instant { name: String },
    Count(u64),
}

/// The value of an annotation.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Number(u64),
    Text(Cow<'a, str>),
}

/// Packets on their way out. Messages within others are made in memory that is used again.
pub(super) struct PacketWriter<'a> {
    out: &'a mut dyn Write,
    whole: OpenMessage,
    packet: OpenMessage,
    inner: OpenMessage,
    note: OpenMessage,
    is_first: bool,
}

impl<'a> PacketWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let [whole, packet, inner, note] = std::array::from_fn(|_| OpenMessage::default());
        Self { out, whole, packet, inner, note, is_first: true }
    }

    pub(super) fn describe(&mut self, track: &Track) -> io::Result<()> {
        let mut descriptor = OpenMessage::default();
        descriptor.number(1, track.id);
        descriptor.text(2, &track.name);
        if track.parent != 0 {
            descriptor.number(5, track.parent);
        }
        if track.kind == TrackKind::Counter {
            let mut counter = OpenMessage::default();
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

    pub(super) fn event(&mut self, event: &TrackEvent<'_>) -> io::Result<()> {
        let inner = &mut self.inner;
        inner.0.clear();
        let kind = match &event.what {
            EventKind::Begin { .. } => 1,
            EventKind::End => 2,
            EventKind::Instant { .. } => 3,
            EventKind::Count(_) => 4,
        };
        inner.number(9, kind);
        inner.number(11, event.track);
        match &event.what {
            EventKind::Begin { name, notes } => {
                inner.text(23, name);
                for (name, value) in notes {
                    self.note.annotate(name, value);
                    inner.bytes(4, &self.note.0);
                }
            }
            EventKind::Instant { name } => inner.text(23, name),
            EventKind::Count(count) => inner.number(30, *count),
            EventKind::End => {}
        }
        self.packet.number(8, event.at);
        self.packet.bytes(11, &self.inner.0);
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.packet.number(10, SEQUENCE);
        if std::mem::take(&mut self.is_first) {
            self.packet.number(13, CLEARED);
        }
        self.whole.0.clear();
        self.whole.bytes(1, &self.packet.0);
        self.packet.0.clear();
        self.out.write_all(&self.whole.0)
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A message under way.
#[derive(Debug, Default)]
struct OpenMessage(Vec<u8>);

impl OpenMessage {
    /// Makes it an annotation.
    fn annotate(&mut self, name: &str, value: &Value<'_>) {
        self.0.clear();
        self.text(10, name);
        match value {
            Value::Number(number) => self.number(3, *number),
            Value::Text(text) => self.text(6, text),
        }
    }

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
