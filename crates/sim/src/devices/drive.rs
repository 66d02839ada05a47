//! NVMe drives: commands, queue depth, splits, and the write cache.
//!
//! Garbage collection and temperature are states here, given as a sustained rate. A request above the drive's transfer
//! size is several commands at once, so one large synchronous request is not queue depth 1.

use super::table::SizeTable;

/// One direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DriveSide {
    /// Seconds for one command of a size, alone.
    pub latency: SizeTable,
    /// Bytes a second at any depth.
    pub rate: f64,
    /// Commands a second at any depth.
    pub commands: f64,
}

impl DriveSide {
    /// Bytes a second at any depth, for commands of a size: `min(B, IOPS n)`.
    fn ceiling(&self, size: f64) -> f64 {
        self.rate.min(self.commands * size)
    }
}

/// Bytes a second with `depth` commands of `size` in flight: `min(q n / L(n), B, IOPS n)`, Little's law under two
/// ceilings (Little, Operations Research 9(3), 1961).
pub(crate) fn throughput(side: &DriveSide, size: f64, depth: f64) -> f64 {
    (depth * size / side.latency.time(size)).min(side.ceiling(size))
}

/// Seconds of a request alone besides its transfer at the rate of a medium: `L(n) - n / B`.
///
/// Beyond the last size of the table the rest streams at the medium's rate, because a drive spreads a large command over
/// its channels and dies as it spreads many (the resources of NVMeVirt's model, FAST 2023).
pub(crate) fn beside_medium(side: &DriveSide, size: f64, medium: f64) -> f64 {
    let known = size.min(side.latency.end());
    (side.latency.time(known) - known / medium).max(0.0)
}

/// Seconds to write `bytes` to a drive with an empty cache, which takes `cache` bytes at `fast` and the rest at `slow`
/// (arithmetic on two rates).
pub(crate) fn write_time(bytes: f64, cache: f64, fast: f64, slow: f64) -> f64 {
    let cached = bytes.min(cache);
    cached / fast + (bytes - cached) / slow.min(fast)
}

/// Bytes that the same drive takes in `time` seconds, the inverse of [`write_time`].
pub(crate) fn written_in(time: f64, cache: f64, fast: f64, slow: f64) -> f64 {
    let cached = (time * fast).min(cache);
    cached + (time - cached / fast).max(0.0) * slow.min(fast)
}
