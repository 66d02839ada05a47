//! Notation of single values in a machine file.

use std::fmt;
use std::str::FromStr;

use peerlane_units::{ByteRate, Bytes};
use serde::de::{self, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::notation::{Hex, integer_or_text, size};
use crate::{Acs, Link, LinkSpeed};

/// ACS control of `acs = "redirect"`: source validation, request and completion redirect and
/// upstream forwarding, as Linux sets them once it finds an IOMMU (`pci_std_enable_acs`).
const ACS_AS_LINUX_SETS_IT: u16 = 0x1d;

/// A value written as the text that it prints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<T>(pub(super) T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A size, written as [`size`] does.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Size(pub(super) Bytes);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        size(&self.0, serializer)
    }
}

/// A rate: an integer, or a text beyond TOML's integers.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Rate(pub(super) ByteRate);

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        integer_or_text(self.0.0, serializer)
    }
}

/// The largest command of a drive as NVMe states it: a power of two, in pages.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(transparent)]
pub(super) struct Mdts(pub(super) u8);

impl<'de> Deserialize<'de> for Mdts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MdtsVisitor;
        impl Visitor<'_> for MdtsVisitor {
            type Value = u8;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "0 for no limit, or the power of two of pages of 4 KiB that NVMe Identify has: \
                     5 is 128 KiB, 7 is 512 KiB",
                )
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<u8, E> {
                u8::try_from(value)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
        }
        deserializer.deserialize_any(MdtsVisitor).map(Self)
    }
}

/// Permission bits as text in octal, `"0660"`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OctalMode(pub(super) u32);

impl Serialize for OctalMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for OctalMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_octal = text.len() <= 4 && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let mode = is_octal.then(|| u32::from_str_radix(&text, 8).ok()).flatten();
        mode.filter(|&mode| mode <= 0o777).map(Self).ok_or_else(|| {
            let expected = &"permission bits in octal such as \"0660\"";
            de::Error::invalid_value(de::Unexpected::Str(&text), expected)
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Text<LinkSpeed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<Text<LinkSpeed>>,
}

/// `"16GT/s x4"` for both, or `{ current = ..., maximum = ... }`.
impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { current, maximum } = *self;
        LinkTable { current: current.map(Text), maximum: maximum.map(Text) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LinkVisitor;
        impl<'de> Visitor<'de> for LinkVisitor {
            type Value = Link;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a link such as \"16GT/s x4\" or { current = .., maximum = .. }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Link, E> {
                let speed = Some(text.parse().map_err(E::custom)?);
                Ok(Link { current: speed, maximum: speed })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Link, A::Error> {
                let table = LinkTable::deserialize(MapAccessDeserializer::new(map))?;
                let speed = |value: Option<Text<LinkSpeed>>| value.map(|text| text.0);
                Ok(Link { current: speed(table.current), maximum: speed(table.maximum) })
            }
        }
        deserializer.deserialize_any(LinkVisitor)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcsTable {
    control: Hex<u16>,
}

/// `"unknown"`, `"absent"`, `"not-redirecting"`, `"redirect"`, or `{ control = 0x1d }`.
impl Serialize for Acs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Unknown => serializer.serialize_str("unknown"),
            Self::Absent => serializer.serialize_str("absent"),
            Self::NotRedirecting => serializer.serialize_str("not-redirecting"),
            Self::Present { control } => AcsTable { control: Hex(control) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Acs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AcsVisitor;
        impl<'de> Visitor<'de> for AcsVisitor {
            type Value = Acs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"unknown\", \"absent\", \"not-redirecting\", \"redirect\" or { control = 0x1d }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Acs, E> {
                match text {
                    "unknown" => Ok(Acs::Unknown),
                    "absent" => Ok(Acs::Absent),
                    "not-redirecting" => Ok(Acs::NotRedirecting),
                    "redirect" => Ok(Acs::Present { control: ACS_AS_LINUX_SETS_IT }),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Acs, A::Error> {
                let table = AcsTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Acs::Present { control: table.control.0 })
            }
        }
        deserializer.deserialize_any(AcsVisitor)
    }
}
