//! Memory of devices: CMB, GPU, FPGA.
//!
//! Banks and refresh are in the rate. Writes are posted and stream, reads wait for their data, so that reading from a BAR
//! is often the slower direction.

/// One direction of a memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Port {
    /// Bytes a second of the memory itself; infinite where it is not known.
    pub rate: f64,
    /// Reads in flight; `None` for posted writes.
    pub in_flight: Option<InFlight>,
}

/// Reads in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InFlight {
    /// Bytes requested and not yet answered.
    pub bytes: f64,
    /// Seconds from request to data.
    pub round_trip: f64,
}

/// Bytes a second through a port: `min(B, outstanding / round trip)` (Little's law on the reads that the narrowest part of
/// the path keeps in flight: tags of the reader, buffers of the root complex or of the memory).
pub fn port_rate(port: Port) -> f64 {
    let by_latency = port.in_flight.map_or(f64::INFINITY, |reads| reads.bytes / reads.round_trip);
    port.rate.min(by_latency)
}
