//! Parameters in files, and their units.

use serde::Deserialize;

use super::{Parameter, ParameterError, Provenance};

/// Unit of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// Microseconds.
    #[serde(rename = "us")]
    Microsecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanosecond,
    /// 10^9 bytes a second.
    #[serde(rename = "GB/s")]
    GigabytePerSecond,
    /// 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    MegabytePerSecond,
    /// 2^20 bytes a second.
    #[serde(rename = "MiB/s")]
    MebibytePerSecond,
    /// 2^30 bytes a second.
    #[serde(rename = "GiB/s")]
    GibibytePerSecond,
    /// 10^9 bits a second.
    #[serde(rename = "Gbit/s")]
    GigabitPerSecond,
    /// 10^6 pixels a second, of one byte each.
    #[serde(rename = "Mpix/s")]
    MegapixelPerSecond,
    /// A ratio.
    #[serde(rename = "x")]
    Ratio,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// A number of items.
    #[serde(rename = "count")]
    Count,
}

/// Dimension of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Bytes,
    Time,
    Rate,
    Number,
}

impl Unit {
    /// Printed name, dimension, and size in base units: bytes, seconds, bytes a second, or one.
    fn facts(self) -> (&'static str, Dimension, f64) {
        match self {
            Self::Byte => ("B", Dimension::Bytes, 1.0),
            Self::Second => ("s", Dimension::Time, 1.0),
            Self::Microsecond => ("us", Dimension::Time, 1e-6),
            Self::Nanosecond => ("ns", Dimension::Time, 1e-9),
            Self::GigabytePerSecond => ("GB/s", Dimension::Rate, 1e9),
            Self::MegabytePerSecond => ("MB/s", Dimension::Rate, 1e6),
            Self::MebibytePerSecond => ("MiB/s", Dimension::Rate, 1_048_576.0),
            Self::GibibytePerSecond => ("GiB/s", Dimension::Rate, 1_073_741_824.0),
            Self::GigabitPerSecond => ("Gbit/s", Dimension::Rate, 1.25e8),
            Self::MegapixelPerSecond => ("Mpix/s", Dimension::Rate, 1e6),
            Self::Ratio => ("x", Dimension::Number, 1.0),
            Self::Percent => ("%", Dimension::Number, 0.01),
            Self::Count => ("", Dimension::Number, 1.0),
        }
    }

    /// The printed name.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Size in base units: bytes, seconds, bytes a second, or one.
    pub fn scale(self) -> f64 {
        self.facts().2
    }

    /// True for two units of one dimension.
    pub fn is_alike(self, other: Self) -> bool {
        self.facts().1 == other.facts().1
    }

    /// The message for a parameter with a unit of another dimension.
    pub(crate) fn wanted(self) -> &'static str {
        self.facts().1.messages().0
    }

    /// The message for an implausible number, in base units as `--vary` takes it.
    pub(crate) fn beyond(self) -> &'static str {
        self.facts().1.messages().1
    }
}

impl Dimension {
    /// Messages for another unit, and for an implausible number.
    fn messages(self) -> (&'static str, &'static str) {
        match self {
            Self::Bytes => (
                "its unit is B",
                "it is a million times beyond what is usual, in bytes: look at its unit",
            ),
            Self::Time => (
                "its unit is s, us or ns",
                "it is a million times beyond what is usual, in seconds: look at its unit",
            ),
            Self::Number => (
                "its unit is count, x or %",
                "it is a million times beyond what is usual: look at its unit",
            ),
            Self::Rate => (
                "its unit is one of bytes a second: GB/s, MB/s, GiB/s, MiB/s, Gbit/s or Mpix/s",
                "it is a million times beyond what is usual, in bytes a second: look at its unit",
            ),
        }
    }
}

/// A parameter in a file, with numbers in its own unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterShape {
    /// Absent for an input, whose number is that of its row.
    value: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    datasheet: Option<f64>,
    unit: Unit,
    from: Provenance,
    #[serde(default)]
    rows: Vec<String>,
    source: String,
}

impl ParameterShape {
    /// The unit of its numbers.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The parameter in base units; `stated` gives the lowest, stated and highest value of a figure.
    ///
    /// # Errors
    /// When a number is missing, or an input has one of its own.
    pub fn parameter(
        self,
        name: &str,
        stated: impl Fn(&str) -> Option<(f64, f64, f64)>,
    ) -> Result<Parameter, ParameterError> {
        let fail = |problem| ParameterError::Meaning { name: name.to_owned(), problem };
        let scale = self.unit.scale();
        let (lo, value, hi) = if self.from == Provenance::Input {
            if self.value.is_some() || self.lo.is_some() || self.hi.is_some() {
                return Err(fail("the number of an input is that of its row; leave it out"));
            }
            let row = self.rows.first().map(String::as_str).unwrap_or_default();
            stated(row).ok_or_else(|| fail("the row it is taken from states no number"))?
        } else {
            let value = self.value.ok_or_else(|| fail("give a value"))? * scale;
            let ends = (self.lo.map(|lo| lo * scale), self.hi.map(|hi| hi * scale));
            (ends.0.unwrap_or(value), value, ends.1.unwrap_or(value))
        };
        Ok(Parameter {
            name: name.to_owned(),
            value,
            lo,
            hi,
            datasheet: self.datasheet.map(|stated| stated * scale),
            from: self.from,
            rows: self.rows,
            source: self.source,
        })
    }
}
