//! Simulated time, and the numbers that engines calculate with.

use std::fmt;

use peerlane_units::{ByteRate, Bytes, Nanos};

/// Picoseconds: a duration, or a time since the start of a simulation. 2^64 of them are 213 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picos(pub u64);

impl Picos {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `n` nanoseconds, saturating.
    pub const fn nanos(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` microseconds, saturating.
    pub(crate) const fn micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` milliseconds, saturating.
    pub const fn millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// Whole nanoseconds, rounded to the nearest.
    pub const fn to_nanos(self) -> Nanos {
        Nanos(self.0 / 1_000 + (self.0 % 1_000) / 500)
    }

    /// Mean rate of `bytes` in this time; `None` for no time, or on overflow.
    pub(crate) fn rate_of(self, bytes: Bytes) -> Option<ByteRate> {
        let scaled = u128::from(bytes.0) * 1_000_000_000_000;
        u64::try_from(scaled.checked_div(u128::from(self.0))?).ok().map(ByteRate)
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => f.pad(&format!("{} ps", self.0)),
            _ => self.to_nanos().fmt(f),
        }
    }
}

/// Picoseconds for 1024 bytes at `rate`, at least one: the engines' unit of rates, within 0.01 % up to 126 GB/s.
pub(crate) fn picos_per_kib(rate: ByteRate) -> u64 {
    let rate = u128::from(rate.0.max(1));
    let picos = (1024 * 1_000_000_000_000 + rate / 2) / rate;
    u64::try_from(picos).unwrap_or(u64::MAX).max(1)
}

/// Bytes as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 9 PB")]
pub fn as_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

/// Picoseconds as nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "2^53 ps are 2.5 hours")]
pub(crate) fn picos(picos: u64) -> f64 {
    picos as f64 / 1000.0
}

/// Bytes a second as bytes a nanosecond.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
pub(crate) fn per_nano(rate: u64) -> f64 {
    rate.max(1) as f64 / 1e9
}
