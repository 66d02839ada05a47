//! Parameters in files, and their units.

use serde::{Deserialize, Deserializer};

use super::{Parameter, ParameterError, Provenance};

/// Unit of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    name: &'static str,
    dimension: Dimension,
    /// Size in base units.
    scale: f64,
}

/// Dimension of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Bytes,
    Time,
    Rate,
    Number,
}

/// Units in files.
const UNITS: [Unit; 13] = [
    Unit::BYTE,
    Unit::SECOND,
    Unit::new("us", Dimension::Time, 1e-6),
    Unit::new("ns", Dimension::Time, 1e-9),
    Unit::GIGABYTE_PER_SECOND,
    Unit::new("MB/s", Dimension::Rate, 1e6),
    Unit::new("MiB/s", Dimension::Rate, 1_048_576.0),
    Unit::new("GiB/s", Dimension::Rate, 1_073_741_824.0),
    Unit::new("Gbit/s", Dimension::Rate, 1.25e8),
    // Pixels of one byte.
    Unit::new("Mpix/s", Dimension::Rate, 1e6),
    Unit::new("x", Dimension::Number, 1.0),
    Unit::new("%", Dimension::Number, 0.01),
    Unit::COUNT,
];

impl Unit {
    /// Bytes.
    pub(crate) const BYTE: Self = Self::new("B", Dimension::Bytes, 1.0);
    /// Seconds.
    pub(crate) const SECOND: Self = Self::new("s", Dimension::Time, 1.0);
    /// 10^9 bytes a second.
    pub(crate) const GIGABYTE_PER_SECOND: Self = Self::new("GB/s", Dimension::Rate, 1e9);
    /// A number of items.
    pub(crate) const COUNT: Self = Self::new("count", Dimension::Number, 1.0);

    const fn new(name: &'static str, dimension: Dimension, scale: f64) -> Self {
        Self { name, dimension, scale }
    }

    /// The printed name; empty for a number of items.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::COUNT { "" } else { self.name }
    }

    /// Size in base units: bytes, seconds, bytes a second, or one.
    pub(crate) fn scale(self) -> f64 {
        self.scale
    }

    /// True for two units of one dimension.
    pub(crate) fn is_alike(self, other: Self) -> bool {
        self.dimension == other.dimension
    }

    /// The message for a parameter with a unit of another dimension.
    pub(crate) fn wanted(self) -> &'static str {
        self.dimension.messages().0
    }

    /// The message for an implausible number, in base units as `--vary` takes it.
    pub(crate) fn beyond(self) -> &'static str {
        self.dimension.messages().1
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = UNITS.into_iter().find(|unit| unit.name == name);
        let names = || UNITS.map(|unit| format!("`{}`", unit.name)).join(", ");
        let unknown = || format!("unknown unit `{name}`, expected one of {}", names());
        found.ok_or_else(|| serde::de::Error::custom(unknown()))
    }
}

impl Dimension {
    /// Messages for another unit, and for an implausible number.
    fn messages(self) -> (&'static str, &'static str) {
        macro_rules! beyond {
            ($unit:literal) => {
                concat!("it is a million times beyond what is usual", $unit, ": look at its unit")
            };
        }
        match self {
            Self::Bytes => ("its unit is B", beyond!(", in bytes")),
            Self::Time => ("its unit is s, us or ns", beyond!(", in seconds")),
            Self::Number => ("its unit is count, x or %", beyond!("")),
            Self::Rate => (
                "its unit is one of bytes a second: GB/s, MB/s, GiB/s, MiB/s, Gbit/s or Mpix/s",
                beyond!(", in bytes a second"),
            ),
        }
    }
}

/// A parameter in a file, with numbers in its own unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterShape {
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
    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }

    /// The parameter in base units; `stated` gives the lowest, stated and highest value of a figure.
    ///
    /// # Errors
    /// When a number is missing, or an input has one of its own.
    pub(crate) fn parameter(
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
