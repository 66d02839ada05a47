//! PCIe links: the rate of the wire, and wire bytes for each byte of payload.
//!
//! Replays, short credits and queues are left out; the TLP engine has them. A flow takes wire in both directions, so
//! that two flows in opposite directions take from each other.

use peerlane_fabric::LinkSpeed;

/// Bytes around the payload of a memory write, and of a read request, with a 64-bit address (PCIe base specification,
/// transaction and data link layers).
pub const REQUEST_OVERHEAD: f64 = 24.0;
/// Bytes around the payload of a completion.
pub const COMPLETION_OVERHEAD: f64 = 20.0;
/// Bytes of a data link layer packet with framing: an acknowledgement, or an update of credits.
pub const DLLP: f64 = 8.0;

/// Packet sizes of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packets {
    /// Payload of a memory write: the maximum payload size (MPS) on the path.
    pub write: f64,
    /// Payload of a completion: between the read completion boundary and MPS.
    pub completion: f64,
    /// Bytes of one read request (MRRS).
    pub request: f64,
    /// Data link layer packets sent back for each packet with payload.
    pub dllps: f64,
}

/// Initiator of the packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// The source posts writes.
    Pushed,
    /// The target reads: requests, and completions against them.
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

/// Bytes a second of packets in one direction: the rate after line encoding and SKP ordered sets, 4 of 1538 symbols with
/// 8b/10b and about one of 376 blocks with 128b/130b (PCIe base specification, clock tolerance compensation).
pub fn wire_rate(link: LinkSpeed) -> f64 {
    let skip = if link.megatransfers < 8_000 { 4.0 / 1538.0 } else { 1.0 / 376.0 };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let raw = link.raw_rate().0 as f64;
    raw * (1.0 - skip)
}

/// Wire bytes for each byte of payload (Neugebauer et al., SIGCOMM 2018, section 3). Data link layer packets count in
/// the direction in which they travel.
pub fn wire(carry: Carry, packets: Packets) -> Wire {
    let Packets { write, completion, request, dllps } = packets;
    match carry {
        Carry::Pushed => {
            Wire { with: (write + REQUEST_OVERHEAD) / write, against: DLLP * dllps / write }
        }
        Carry::Pulled => Wire {
            with: (completion + COMPLETION_OVERHEAD) / completion,
            against: DLLP * dllps / completion + REQUEST_OVERHEAD / request,
        },
    }
}
