//! Memory of a device: CMB, GPU, FPGA; writing into it, reading out of it, and its own DMA engine.
//!
//! Leaves out banks and refresh: they are in the rate. The one thing to know: writes are posted and
//! stream, reads wait for their data, so that reading out of a BAR is often the slower direction.

/// What one direction of a memory bears.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Port {
    /// Bytes a second of the memory itself; infinite where it is not known.
    pub rate: f64,
    /// Bytes asked for and not yet answered, and the time of an answer; `None` for what is posted.
    pub in_flight: Option<InFlight>,
}

/// Reads in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InFlight {
    /// Bytes asked for at a time.
    pub bytes: f64,
    /// Seconds from request to data.
    pub round_trip: f64,
}

/// Bytes a second through a port: `min(B, outstanding / round trip)` (Little's law on the reads that the
/// slowest part of the way keeps in flight, be it tags of the reader, buffers of the root complex or of
/// the memory).
pub fn port_rate(port: Port) -> f64 {
    let by_latency = port.in_flight.map_or(f64::INFINITY, |reads| reads.bytes / reads.round_trip);
    port.rate.min(by_latency)
}

/// Bytes a second at the peak, by arithmetic, of a memory of `banks` ports, `bits` wide, at `transfers` a second each.
pub fn peak(banks: f64, bits: f64, transfers: f64) -> f64 {
    banks * bits / 8.0 * transfers
}
