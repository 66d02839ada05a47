//! Quantities that must not be confused: [`Bytes`], [`ByteRate`], [`Nanos`]; and values [by name](Named).
//!
//! Sizes are printed in binary units (`64 KiB`), rates in decimal ones (`3.2 GB/s`). Both are read with
//! the same suffixes: `K`, `M`, `G` are binary, `KB`, `MB`, `GB` decimal. Durations are nanoseconds.
//! Arithmetic that could overflow is checked. This crate knows neither PCIe nor Linux.
#![forbid(unsafe_code)]

mod bytes;
mod named;
mod nanos;
mod rate;
mod schema;

use std::fmt;

use serde::de::{self, Visitor};

pub use bytes::Bytes;
pub use named::Named;
pub use nanos::Nanos;
pub use rate::ByteRate;

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No digits where a number is required.
    #[error("`{0}` is not a number with an optional unit")]
    NotANumber(String),
    /// A suffix that is not a unit of this quantity.
    #[error("`{text}` ends in an unknown unit; use {allowed}")]
    UnknownUnit {
        /// The text that was given.
        text: String,
        /// Units that are understood.
        allowed: &'static str,
    },
    /// The value does not fit, or is not a whole number of the smallest unit.
    #[error("`{0}` is out of range or not a whole number of units")]
    OutOfRange(String),
}

/// Reads a quantity from a whole number or a text; `expected` describes both in an error.
struct Quantity {
    expected: &'static str,
    parse: fn(&str) -> Result<u64, ParseError>,
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

/// Splits `text` into its decimal number and its unit, and scales the number to the smallest unit.
///
/// The number may have a fraction (`1.5G`); the result must be whole.
fn parse_scaled(
    text: &str,
    scale: impl FnOnce(&str) -> Option<u64>,
    allowed: &'static str,
) -> Result<u64, ParseError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let scale = scale(unit.trim());
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return Err(ParseError::NotANumber(text.to_owned()));
    }
    let scale = scale.ok_or_else(|| ParseError::UnknownUnit { text: text.to_owned(), allowed })?;
    let out_of_range = || ParseError::OutOfRange(text.to_owned());
    let whole: u64 = whole.parse().map_err(|_| out_of_range())?;
    let mut value = u128::from(whole) * u128::from(scale);
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).map_err(|_| out_of_range())?;
        let denominator = 10u128.checked_pow(digits).ok_or_else(out_of_range)?;
        let numerator: u128 = fraction.parse().map_err(|_| out_of_range())?;
        let scaled = numerator.checked_mul(u128::from(scale)).ok_or_else(out_of_range)?;
        if scaled % denominator != 0 {
            return Err(out_of_range());
        }
        value += scaled / denominator;
    }
    u64::try_from(value).map_err(|_| out_of_range())
}
