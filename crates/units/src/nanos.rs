//! A duration or a point on a monotonic clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds; a duration, or a point on a monotonic clock whose zero its owner states.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// `n` seconds.
    ///
    /// # Panics
    /// When the result does not fit 64 bits; at compile time in constants.
    pub const fn seconds(n: u64) -> Self {
        Self(n.checked_mul(1_000_000_000).expect("duration fits 64 bits"))
    }

    /// Time from `earlier` to this; zero when the order is reversed.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The later point, at the end of the clock when it does not fit.
    pub fn after(self, wait: Self) -> Self {
        Self(self.0.saturating_add(wait.0))
    }
}

impl From<Duration> for Nanos {
    /// Durations above 584 years become the largest value.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{}.{} us", self.0 / 1_000, self.0 % 1_000 / 100),
            1_000_000..1_000_000_000 => {
                format!("{}.{} ms", self.0 / 1_000_000, self.0 % 1_000_000 / 100_000)
            }
            _ => format!("{}.{:02} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 10_000_000),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_in_the_unit_that_fits() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(12_340).to_string(), "12.3 us");
        assert_eq!(Nanos(1_230_000_000).to_string(), "1.23 s");
    }

    #[test]
    fn a_reversed_interval_is_empty() {
        assert_eq!(Nanos(1).since(Nanos(2)), Nanos(0));
        assert_eq!(Nanos(u64::MAX).after(Nanos(1)), Nanos(u64::MAX));
    }
}
