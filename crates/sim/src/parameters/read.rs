//! A parameter as a file has it.

use serde::Deserialize;

use super::{Parameter, ParameterError, Provenance};

/// What a number counts, and how much of the base unit one of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// Millionths of a second.
    #[serde(rename = "us")]
    Microsecond,
    /// Thousand millionths of a second.
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
    /// A number of things.
    #[serde(rename = "count")]
    Count,
}

/// What units measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Bytes,
    Time,
    Rate,
    Number,
}

impl Unit {
    /// How much of the base unit (byte, second, byte a second, one) one of it is.
    pub fn scale(self) -> f64 {
        match self {
            Self::Byte | Self::Second | Self::Ratio | Self::Count => 1.0,
            Self::Microsecond => 1e-6,
            Self::Nanosecond => 1e-9,
            Self::GigabytePerSecond => 1e9,
            Self::MegabytePerSecond | Self::MegapixelPerSecond => 1e6,
            Self::GigabitPerSecond => 1.25e8,
            Self::MebibytePerSecond => 1_048_576.0,
            Self::GibibytePerSecond => 1_073_741_824.0,
            Self::Percent => 0.01,
        }
    }

    /// What it measures.
    fn dimension(self) -> Dimension {
        match self {
            Self::Byte => Dimension::Bytes,
            Self::Second | Self::Microsecond | Self::Nanosecond => Dimension::Time,
            Self::Ratio | Self::Percent | Self::Count => Dimension::Number,
            Self::GigabytePerSecond
            | Self::MegabytePerSecond
            | Self::MebibytePerSecond
            | Self::GibibytePerSecond
            | Self::GigabitPerSecond
            | Self::MegapixelPerSecond => Dimension::Rate,
        }
    }

    /// Whether both measure the same: bytes, time, bytes a second, or neither of them.
    pub fn is_alike(self, other: Self) -> bool {
        self.dimension() == other.dimension()
    }

    /// What to say where another was meant to be.
    pub(crate) fn wanted(self) -> &'static str {
        match self.dimension() {
            Dimension::Bytes => "its unit is B",
            Dimension::Time => "its unit is s, us or ns",
            Dimension::Number => "its unit is count, x or %",
            Dimension::Rate => {
                "its unit is one of bytes a second: GB/s, MB/s, GiB/s, MiB/s, Gbit/s or Mpix/s"
            }
        }
    }

    /// What to say of a number that nothing has, in base units as `--vary` takes it, or in others as a file may have it.
    pub(crate) fn beyond(self) -> &'static str {
        match self.dimension() {
            Dimension::Bytes => {
                "it is a million times beyond what is usual, in bytes: look at its unit"
            }
            Dimension::Time => {
                "it is a million times beyond what is usual, in seconds: look at its unit"
            }
            Dimension::Number => "it is a million times beyond what is usual: look at its unit",
            Dimension::Rate => {
                "it is a million times beyond what is usual, in bytes a second: look at its unit"
            }
        }
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byte => "B",
            Self::Second => "s",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
            Self::GigabytePerSecond => "GB/s",
            Self::MegabytePerSecond => "MB/s",
            Self::MebibytePerSecond => "MiB/s",
            Self::GibibytePerSecond => "GiB/s",
            Self::GigabitPerSecond => "Gbit/s",
            Self::MegapixelPerSecond => "Mpix/s",
            Self::Ratio => "x",
            Self::Percent => "%",
            Self::Count => "",
        }
    }
}

/// A parameter as a file has it: numbers in its own unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterShape {
    /// Left out of an input, whose number is that of its row.
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
    /// The unit that its numbers are in.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The parameter; `stated` gives lowest, stated and highest value of a figure in base units.
    ///
    /// # Errors
    /// When a number is missing, or one is there that has to come from a row.
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
