//! A transfer rate.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Bytes, Nanos, ParseError};

/// Bytes per second; printed with decimal units, as link rates are, and parsed with the suffixes of a size.
///
/// Text: `250MB/s`, `250MB`, `250M` (binary), `1000000`. Serialised as an integer; read from an integer or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct ByteRate(pub u64);

impl ByteRate {
    /// The mean rate of `bytes` in `elapsed`, rounded to the nearest, or `None` when no time passed or it does not fit.
    pub fn mean(bytes: Bytes, elapsed: Nanos) -> Option<Self> {
        let (bytes, elapsed) = (u128::from(bytes.0), u128::from(elapsed.0));
        let per_second = (bytes * 1_000_000_000 + elapsed / 2).checked_div(elapsed)?;
        u64::try_from(per_second).ok().map(Self)
    }
}

impl fmt::Display for ByteRate {
    /// Prints three significant places of the unit that fits, rounded to the nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u64); 3] =
            [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("KB/s", 1_000)];
        let rate = u128::from(self.0);
        // What rounds to a thousand of the next smaller unit is one of this.
        let fits = |unit: u64| rate * 2000 >= u128::from(unit) * 1999;
        let Some((name, unit)) = NAMES.into_iter().find(|&(_, unit)| fits(unit)) else {
            return f.pad(&format!("{rate} B/s"));
        };
        let unit = u128::from(unit);
        let rounded = |parts: u128| (rate * parts + unit / 2) / unit;
        let text = match (rounded(100), rounded(10)) {
            (hundredths @ ..1000, _) => {
                format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
            }
            (_, tenths @ ..1000) => format!("{}.{} {name}", tenths / 10, tenths % 10),
            _ => format!("{} {name}", rounded(1)),
        };
        f.pad(&text)
    }
}

impl FromStr for ByteRate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let allowed = "KB/s, MB/s, GB/s (decimal) or K, M, G (binary)";
        crate::parse_scaled(text, |unit| crate::bytes::scale(unit, "/s"), allowed).map(Self)
    }
}

impl<'de> Deserialize<'de> for ByteRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| text.parse().map(|Self(number)| number);
        let expected = "a rate: bytes per second as a whole number that is not negative, or a text such as \"250MB/s\"";
        deserializer.deserialize_any(crate::Quantity { expected, parse }).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_bytes_over_time() {
        let mean = ByteRate::mean(Bytes(3_200_000_000), Nanos(2_000_000_000));
        assert_eq!(mean, Some(ByteRate(1_600_000_000)));
        assert_eq!(ByteRate::mean(Bytes(1), Nanos(0)), None);
        assert_eq!(ByteRate::mean(Bytes(u64::MAX), Nanos(1)), None);
    }

    #[test]
    fn mean_rate_is_rounded() {
        // 999.6 and 999.4 bytes a second.
        assert_eq!(ByteRate::mean(Bytes(4_998), Nanos(5_000_000_000)), Some(ByteRate(1_000)));
        assert_eq!(ByteRate::mean(Bytes(4_997), Nanos(5_000_000_000)), Some(ByteRate(999)));
    }

    #[test]
    fn suffixes_are_those_of_sizes() {
        assert_eq!("3.2GB/s".parse(), Ok(ByteRate(3_200_000_000)));
        assert_eq!("20MB".parse(), Ok(ByteRate(20_000_000)));
        assert_eq!("20M".parse(), Ok(ByteRate(20 << 20)));
        assert_eq!("20MiB/s".parse(), Ok(ByteRate(20 << 20)));
        assert!("20 MB/h".parse::<ByteRate>().is_err());
        assert_eq!(ByteRate(3_938_461_538).to_string(), "3.94 GB/s");
        assert_eq!(ByteRate(12_345_678).to_string(), "12.3 MB/s");
        assert_eq!(ByteRate(999).to_string(), "999 B/s");
    }

    #[test]
    fn printed_rates_are_rounded() {
        for (rate, text) in [
            (6_499_999_999, "6.50 GB/s"),
            (9_994_000_000, "9.99 GB/s"),
            (9_995_000_000, "10.0 GB/s"),
            (99_950_000, "100 MB/s"),
            (999_499, "999 KB/s"),
            (999_500, "1.00 MB/s"),
            (u64::MAX, "18446744074 GB/s"),
        ] {
            assert_eq!(ByteRate(rate).to_string(), text);
        }
    }
}
