//! PCIe over Ethernet, and a NIC: how much payload a wire of frames carries.
//!
//! Leaves out loss and congestion control. The one thing to know: a bridge that sends a frame for each
//! TLP pays the frame for every MPS of payload.

/// Bytes of a frame that are no content: preamble and delimiter 8, header 14, check sequence 4, gap 12
/// (IEEE 802.3).
pub const FRAME_OVERHEAD: f64 = 38.0;

/// Bytes a second of payload with one TLP of `payload` bytes and `header` bytes in each frame, `tunnel` bytes of
/// the bridge's own beside it (arithmetic on IEEE 802.3; ExpressEther, Suzuki and others, Hot Interconnects
/// 2006).
pub fn tlp_in_frame(wire: f64, payload: f64, header: f64, tunnel: f64) -> f64 {
    wire * payload / (payload + header + tunnel + FRAME_OVERHEAD)
}

/// Bytes a second of payload of a stream in full frames of `mtu` bytes with `headers` of them taken by
/// network and transport (arithmetic on IEEE 802.3, RFC 791 and 9293).
pub fn stream(wire: f64, mtu: f64, headers: f64) -> f64 {
    wire * (mtu - headers) / (mtu + FRAME_OVERHEAD)
}
