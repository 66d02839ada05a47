//! Ethernet: payload of PCIe packets in frames, and of streams.
//!
//! Loss and congestion control are left out. A bridge that sends one frame for each packet pays the frame for every MPS
//! of payload.

/// Bytes of a frame beside its content: preamble and delimiter 8, header 14, check sequence 4, gap 12 (IEEE 802.3).
pub const FRAME_OVERHEAD: f64 = 38.0;

/// Bytes a second of payload with one packet of `payload` and `header` bytes in each frame, and `tunnel` bytes of the
/// bridge (arithmetic on IEEE 802.3; ExpressEther, Suzuki and others, Hot Interconnects 2006).
pub fn tlp_in_frame(wire: f64, payload: f64, header: f64, tunnel: f64) -> f64 {
    wire * payload / (payload + header + tunnel + FRAME_OVERHEAD)
}

/// Bytes a second of payload of a stream in full frames of `mtu` bytes, `headers` of which belong to network and
/// transport (arithmetic on IEEE 802.3, RFC 791 and 9293).
pub fn stream(wire: f64, mtu: f64, headers: f64) -> f64 {
    wire * (mtu - headers) / (mtu + FRAME_OVERHEAD)
}
