//! Notation of sizes and registers, in machine files and wherever the model serialises itself.

use std::fmt;

use peerlane_units::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Returns whether a key can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes an integer, or a text when that is whole MiB or beyond TOML's integers.
pub(crate) fn size<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    if bytes.0 >= 1 << 20 && bytes.is_multiple_of(Bytes::mib(1)) {
        return serializer.collect_str(&format_args!("{}M", bytes.0 >> 20));
    }
    integer_or_text(bytes.0, serializer)
}

/// TOML integers have 63 bits.
pub(crate) fn integer_or_text<S: Serializer>(value: u64, serializer: S) -> Result<S::Ok, S::Error> {
    match i64::try_from(value) {
        Ok(value) => serializer.serialize_i64(value),
        Err(_) => serializer.collect_str(&value),
    }
}

/// An identifier of 16 or a class of 24 bits in hexadecimal; `0x8086` with or without quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hex<T>(pub(crate) T);

impl<T: fmt::LowerHex> Serialize for Hex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let width = if size_of::<T>() == size_of::<u16>() { 4 } else { 6 };
        serializer.collect_str(&format_args!("0x{:0width$x}", self.0))
    }
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Hex<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HexVisitor;
        impl Visitor<'_> for HexVisitor {
            type Value = u64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a hexadecimal number such as 0x8086")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
                u64::try_from(value)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
                text.strip_prefix("0x")
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        let value = deserializer.deserialize_any(HexVisitor)?;
        T::try_from(value)
            .map(Self)
            .map_err(|_| de::Error::custom(format_args!("{value:#x} is too large here")))
    }
}

/// A register in hexadecimal, as [`Hex`].
pub(crate) mod hex {
    use super::{Deserialize, Deserializer, Hex, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        Hex(*value).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        Hex::deserialize(from).map(|Hex(value)| value)
    }
}
