//! A count of bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ParseError;

/// A size or an offset in bytes; printed with binary units, parsed with binary and decimal ones.
///
/// Text: `4096`, `64K`, `64KiB`, `1.5G`, `64KB` (decimal). Serialised as an integer; read from an integer or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` KiB.
    ///
    /// # Panics
    /// When the result does not fit 64 bits; at compile time in constants.
    pub const fn kib(n: u64) -> Self {
        Self(n.checked_mul(1 << 10).expect("size fits 64 bits"))
    }

    /// `n` MiB.
    ///
    /// # Panics
    /// When the result does not fit 64 bits; at compile time in constants.
    pub const fn mib(n: u64) -> Self {
        Self(n.checked_mul(1 << 20).expect("size fits 64 bits"))
    }

    /// The sum, or `None` when it does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns whether this is a multiple of `unit`; only zero is a multiple of zero.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        if unit.0 == 0 { self.0 == 0 } else { self.0 % unit.0 == 0 }
    }

    /// The largest multiple of `unit` that is not above this.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub fn round_down(self, unit: Self) -> Self {
        Self(self.0 / unit.0 * unit.0)
    }

    /// The smallest multiple of `unit` that is not below this, or `None` when it does not fit.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub fn round_up(self, unit: Self) -> Option<Self> {
        self.0.div_ceil(unit.0).checked_mul(unit.0).map(Self)
    }
}

/// Bytes of a unit, which may end in `end`: `K` and `KiB` are binary, `KB` is decimal.
pub(crate) fn scale(unit: &str, end: &str) -> Option<u64> {
    const PREFIXES: &[u8] = b"kmgtp";
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix(end).unwrap_or(&unit);
    if matches!(unit, "" | "b") {
        return Some(1);
    }
    let (prefix, rest) = unit.split_at_checked(1)?;
    let place = PREFIXES.iter().position(|&known| prefix.as_bytes() == [known])?;
    let base: u64 = match rest {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    base.checked_pow(u32::try_from(place).ok()? + 1)
}

impl fmt::Display for Bytes {
    /// Prints the largest unit that divides the value, else two decimals of the largest unit that fits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u64); 5] = [
            ("PiB", 1 << 50),
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        let Some((name, unit)) = NAMES.into_iter().find(|&(_, unit)| self.0 >= unit) else {
            return f.pad(&format!("{} B", self.0));
        };
        let text = if self.0 % unit == 0 {
            format!("{} {name}", self.0 / unit)
        } else {
            let hundredths = u128::from(self.0) * 100 / u128::from(unit);
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        };
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let allowed = "K, M, G, T (binary), KB, MB, GB, TB (decimal) or none for bytes";
        crate::parse_scaled(text, |unit| scale(unit, ""), allowed).map(Self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| text.parse().map(|Self(number)| number);
        let expected =
            "a size: bytes as a whole number that is not negative, or a text such as \"64K\"";
        deserializer.deserialize_any(crate::Quantity { expected, parse }).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_are_binary_or_decimal() {
        for (text, value) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65536),
            ("64kib", 65536),
            ("1.5G", 3 << 29),
            (" 2 MiB ", 2 << 20),
            ("16_384", 16384),
            ("64KB", 64_000),
            ("1.5gb", 1_500_000_000),
            ("2P", 1 << 51),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(value)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_size() {
        for text in [
            "",
            "K",
            "-1",
            "1.",
            "1..2",
            "1.3K ",
            "1 furlong",
            "1KB/s",
            "1Ki",
            "99999999999999999999",
            "0.1",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_in_largest_unit() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes::mib(64).to_string(), "64 MiB");
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
    }

    #[test]
    fn bad_numbers_have_plain_messages() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, F64Deserializer, I64Deserializer, StrDeserializer};
        let negative: I64Deserializer<Error> = (-5i64).into_deserializer();
        let said = Bytes::deserialize(negative).unwrap_err().to_string();
        assert!(said.starts_with("invalid value: integer `-5`, expected a size"), "{said}");
        let broken: F64Deserializer<Error> = 1.5f64.into_deserializer();
        let said = Bytes::deserialize(broken).unwrap_err().to_string();
        assert!(said.contains("`1.5`, expected a size"), "{said}");
        let text: StrDeserializer<'_, Error> = "1 furlong".into_deserializer();
        let said = Bytes::deserialize(text).unwrap_err().to_string();
        assert!(said.contains("`1 furlong` ends in an unknown unit"), "{said}");
    }

    proptest! {
        #[test]
        fn number_survives_printing_as_integer(n: u64) {
            prop_assert_eq!(n.to_string().parse::<Bytes>(), Ok(Bytes(n)));
        }

        #[test]
        fn whole_units_survive_printing(n in 0u64..1 << 13, shift in 0u32..6) {
            let bytes = Bytes(n << (10 * shift));
            let shown = bytes.to_string();
            if !shown.contains('.') {
                prop_assert_eq!(shown.parse::<Bytes>(), Ok(bytes));
            }
        }

        #[test]
        fn rounding_encloses(n in 0u64..u64::MAX / 2, unit in 1u64..1 << 30) {
            let (n, unit) = (Bytes(n), Bytes(unit));
            prop_assert!(n.round_down(unit) <= n);
            prop_assert!(n.round_up(unit).is_some_and(|up| up >= n && up.is_multiple_of(unit)));
        }
    }
}
