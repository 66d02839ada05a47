//! A link: what the wire carries, and how much wire a byte of payload takes.
//!
//! Leaves out replays, credits that run short, and queues: those need the TLP engine. The one thing to
//! know: a flow takes wire in both directions, so that two flows that cross take from one another.

use peerlane_fabric::LinkSpeed;

/// Bytes around the payload of a memory write and around a read request, with a 64-bit address
/// (PCIe base specification, transaction and data link layers).
pub const REQUEST_OVERHEAD: f64 = 24.0;
/// Bytes around the payload of a completion.
pub const COMPLETION_OVERHEAD: f64 = 20.0;
/// Bytes of a data link layer packet: an acknowledgement or an update of credits, with framing.
pub const DLLP: f64 = 8.0;

/// How payload is cut into packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packets {
    /// Payload of a memory write: the maximum payload size (MPS) on the path.
    pub write: f64,
    /// Payload of a completion: between the read completion boundary and MPS.
    pub completion: f64,
    /// Bytes asked for by one read request (MRRS).
    pub request: f64,
    /// Data link layer packets sent back for each packet of data.
    pub dllps: f64,
}

/// Who starts the packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// The source writes: posted requests.
    Pushed,
    /// The target reads: completions, and requests against them.
    Pulled,
}

/// Wire bytes for each byte of payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// In the direction of the payload.
    pub with: f64,
    /// In the other direction: requests and data link layer packets.
    pub against: f64,
}

/// Bytes a second that packets have in one direction: the rate after line encoding less SKP ordered sets,
/// 4 of 1538 symbols with 8b/10b and about one of 376 blocks with 128b/130b (PCIe base specification,
/// clock tolerance compensation).
pub fn wire_rate(link: LinkSpeed) -> f64 {
    let skip = if link.megatransfers < 8_000 { 4.0 / 1538.0 } else { 1.0 / 376.0 };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let raw = link.raw_rate().0 as f64;
    raw * (1.0 - skip)
}

/// Wire that a byte of payload takes: headers of its packets, and against them acknowledgements and, for
/// what is pulled, requests (Neugebauer et al., SIGCOMM 2018, section 3; data link layer packets are
/// charged to the direction that they travel in, once for each packet of data).
pub fn wire(carry: Carry, packets: Packets) -> Wire {
    match carry {
        Carry::Pushed => Wire {
            with: (packets.write + REQUEST_OVERHEAD) / packets.write,
            against: DLLP * packets.dllps / packets.write,
        },
        Carry::Pulled => Wire {
            with: (packets.completion + COMPLETION_OVERHEAD) / packets.completion,
            against: DLLP * packets.dllps / packets.completion + REQUEST_OVERHEAD / packets.request,
        },
    }
}

/// Most payload one way with nothing in the other direction.
pub fn one_way(link: LinkSpeed, carry: Carry, packets: Packets) -> f64 {
    wire_rate(link) / wire(carry, packets).with
}

/// Most payload each way while both directions carry the same.
pub fn both_ways(link: LinkSpeed, up: Carry, down: Carry, packets: Packets) -> f64 {
    let (up, down) = (wire(up, packets), wire(down, packets));
    wire_rate(link) / (up.with + down.against).max(down.with + up.against)
}
