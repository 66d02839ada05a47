//! An NVMe drive: commands, queue depth, splits, and what lies behind the controller.
//!
//! Leaves out garbage collection and temperature as processes: they are states, given as a sustained rate.
//! The one thing to know: a request above the drive's transfer size is several commands at once, so that
//! one large synchronous request is not queue depth 1.

use super::table::Table;

/// One direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Seconds for one command of a size, alone.
    pub latency: Table,
    /// Bytes a second at any depth.
    pub rate: f64,
    /// Commands a second at any depth.
    pub commands: f64,
}

/// Bytes a second with `depth` commands of `size` in flight: `min(q n / L(n), B, IOPS n)`, which is Little's
/// law under two ceilings (Little, Operations Research 9(3), 1961).
pub fn throughput(side: &Side, size: f64, depth: f64) -> f64 {
    (depth * size / side.latency.time(size)).min(side.rate).min(side.commands * size)
}

/// Seconds of a request alone, of which the table knows the first `known` bytes as one, no more than its last size: the rest is
/// under way at the same time, and takes what the medium does, `L(k) + (n - k) / min(B, IOPS n)`.
pub fn alone(side: &Side, size: f64, known: f64) -> f64 {
    let rate = side.rate.min(side.commands * size);
    beside_medium(side, known.min(size), rate) + size / rate
}

/// Seconds of a request alone, as the table has it, less what a medium of this rate takes of it: `L(n) - n / B`. Beyond
/// the last size of the table the rest streams at the medium's rate, in one command as in several: a drive spreads a
/// large command over its channels and dies as it spreads many (the resources of NVMeVirt's model, FAST 2023).
pub fn beside_medium(side: &Side, size: f64, medium: f64) -> f64 {
    let known = size.min(side.latency.end());
    (side.latency.time(known) - known / medium).max(0.0)
}

/// [`throughput`] of requests that split beyond what the table knows.
pub fn split_throughput(side: &Side, size: f64, depth: f64, known: f64) -> f64 {
    (depth * size / alone(side, size, known)).min(side.rate).min(side.commands * size)
}

/// Seconds from submission to completion with `depth` commands in flight, `q n / X`: Little's law read backwards.
pub fn loaded_latency(side: &Side, size: f64, depth: f64) -> f64 {
    depth * size / throughput(side, size, depth)
}

/// The depth from which on more of it adds latency only: `q* = L(n) B / n`.
pub fn knee(side: &Side, size: f64) -> f64 {
    side.latency.time(size) * side.rate.min(side.commands * size) / size
}

/// Commands that a request becomes (NVM Express base specification 2.0, MDTS; the block layer splits at
/// the lower of that and its own limit).
pub fn commands(request: f64, largest: f64) -> f64 {
    (request / largest).ceil().max(1.0)
}

/// Commands in flight for `depth` requests that split as in [`commands`], at most `queue` of them: what a queue
/// holds (NVM Express base specification 2.0, CAP.MQES).
pub fn commands_in_flight(request: f64, largest: f64, depth: f64, queue: f64) -> f64 {
    (depth * commands(request, largest)).min(queue)
}

/// Bytes on the link for one command besides payload: entry of the submission queue 64, of the completion
/// queue 16, two doorbells of 4, MSI-X 4, and 8 for each page of the data pointer (NVM Express base
/// specification 2.0, sections 3.3 and 4.1.1).
pub fn command_bytes(size: f64) -> f64 {
    64.0 + 16.0 + 8.0 + 4.0 + 8.0 * (size / 4096.0).ceil()
}

/// Bytes a second of reads that the controller can ask for: `tags * MRRS / round trip`, Little's law on
/// requests in flight (PCIe base specification, tag field: 32, extended 256, ten bits 768).
pub fn tag_ceiling(tags: f64, request: f64, round_trip: f64) -> f64 {
    tags * request / round_trip
}

/// Bytes a second that flash delivers: `min(channels B_ch, dies page / t)`, with `t` the time to sense a page, or
/// that to program one times write amplification (the resources of NVMeVirt's model, FAST 2023).
pub fn flash(channels: f64, channel_rate: f64, dies: f64, page: f64, time: f64) -> f64 {
    (channels * channel_rate).min(dies * page / time)
}

/// Seconds, by arithmetic on two rates one after the other, to write `bytes` to a drive whose cache of `cache` bytes takes them at `fast`, and at `slow`
/// from then on. The cache is empty at the start.
pub fn write_time(bytes: f64, cache: f64, fast: f64, slow: f64) -> f64 {
    let cached = bytes.min(cache);
    cached / fast + (bytes - cached) / slow.min(fast)
}

/// Bytes that the same drive takes in `time` seconds: [`write_time`] read backwards.
pub fn written_in(time: f64, cache: f64, fast: f64, slow: f64) -> f64 {
    let cached = (time * fast).min(cache);
    cached + (time - cached / fast).max(0.0) * slow.min(fast)
}

/// Bytes a second of a mixture with `reads` of its bytes read: `x_r / R + x_w / W <= 1`, the utilisation law
/// on one resource used in turns (Lazowska and others, Quantitative System Performance, 1984, chapter 3).
pub fn mixed(reads: f64, read: f64, write: f64) -> f64 {
    let reads = reads.clamp(0.0, 1.0);
    1.0 / (reads / read + (1.0 - reads) / write)
}
