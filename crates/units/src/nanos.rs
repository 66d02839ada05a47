//! A duration or a point on a monotonic clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ParseError;

/// Nanoseconds; a duration, or a point on a monotonic clock whose zero its owner states.
///
/// Text: `500ms`, `1s`, `2m`, `1h`; a number without a unit is seconds. Serialised as an integer.
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

    /// The duration as a text without spaces that reads back exactly: `90s`, `1500ms`.
    pub fn exact(self) -> String {
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let unit = units.into_iter().find(|&(_, scale)| self.0 % scale == 0);
        unit.map_or_else(String::new, |(name, scale)| format!("{}{name}", self.0 / scale))
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

impl FromStr for Nanos {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let scale = |unit: &str| {
            Some(match unit {
                "ns" => 1,
                "us" => 1_000,
                "ms" => 1_000_000,
                "" | "s" => 1_000_000_000,
                "m" | "min" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            })
        };
        crate::parse_scaled(text, scale, "ms, s, m, h or none for seconds").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back_as_printed() {
        for (text, nanos) in [
            ("1s", 1_000_000_000),
            ("500ms", 500_000_000),
            ("2m", 120_000_000_000),
            ("1.5", 1_500_000_000),
            ("0.25s", 250_000_000),
            ("1.23 s", 1_230_000_000),
            ("7us", 7_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
            assert_eq!(Nanos(nanos).exact().parse(), Ok(Nanos(nanos)), "{text}");
        }
        assert_eq!((Nanos::seconds(90).exact(), Nanos(0).exact()), ("90s".into(), "0s".into()));
        for text in ["", "s", "-1s", "1 fortnight", "inf", "1S"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

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
