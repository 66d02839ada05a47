//! Traces as one file of [Perfetto](https://perfetto.dev): a track for each drive, memory and engine.
//!
//! The format is Perfetto's own, protocol buffers with track events, and not the JSON of Chrome: it
//! has tracks below tracks in an order that the writer says, counters with a unit and times in
//! nanoseconds, while JSON has processes, threads and microseconds; and it is a third of the size.
//! So little of it is needed that it is encoded here (`wire`), by the field numbers of
//! `protos/perfetto/trace`.
//!
//! Host memory has a track even where nothing used it, so that one sees that it was not involved.
//! Requests of one drive that overlap lie in lanes of the same name, which the viewer draws
//! together. Tracks of predictions say in their names that they are predicted.

mod lanes;
mod occupancy;
#[cfg(test)]
mod tests;
mod tracks;
mod wire;

use std::io::{self, Write};

use peerlane_results::Trace;

pub use occupancy::{Occupied, occupied};

/// Writes traces as one file.
///
/// # Errors
/// The system's answer when `out` cannot be written.
pub fn write(traces: &[Trace], out: &mut dyn Write) -> io::Result<()> {
    let tracks = tracks::Tracks::new(traces);
    let mut packets = wire::PacketWriter::new(out);
    for track in &tracks.described {
        packets.describe(track)?;
    }
    let mut events = tracks.events;
    // Those of one track lie in their order already, which an end and a begin at the same time keep.
    events.sort_by_key(|event| event.at);
    for event in &events {
        packets.event(event)?;
    }
    packets.finish()
}
