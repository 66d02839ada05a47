//! From values to places on an axis, and which values are written at it.

use peerlane_units::{Bytes, Nanos};

/// Spacing of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScaleKind {
    /// Evenly, from zero.
    Linear,
    /// Evenly, around the values.
    Free,
    /// Evenly, from the lowest value to the highest.
    Span,
    /// By powers of two.
    Log2,
    /// By powers of ten.
    Log10,
}

/// Kinds of values, which decide how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Bytes a second.
    Rate,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// Percent.
    Percent,
    /// A ratio.
    Times,
    /// A number of something.
    Count,
}

/// An axis between two places.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    kind: ScaleKind,
    values: ValueKind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// Values beyond this do not measure anything.
const LARGEST: f64 = 1e19;

impl Scale {
    /// A scale that shows all finite values.
    pub(super) fn new(
        kind: ScaleKind,
        values: ValueKind,
        all: impl IntoIterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let is_log = matches!(kind, ScaleKind::Log2 | ScaleKind::Log10);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let is_signed = matches!(values, ValueKind::Percent | ValueKind::Count);
        for value in all.into_iter().filter(|value| value.is_finite() && value.abs() <= LARGEST) {
            // However wide an interval is, no rate, size, time or ratio is below nothing.
            let value = if is_signed { value } else { value.max(0.0) };
            if !is_log || value > 0.0 {
                low = low.min(value);
                high = high.max(value);
            }
        }
        if low > high {
            (low, high) = if is_log { (1.0, 2.0) } else { (0.0, 1.0) };
        }
        match kind {
            ScaleKind::Linear => {
                low = low.min(0.0);
                high = if high <= low { 1.0_f64.max(low + 1.0) } else { high };
                let step = step_of((high - low) / 4.5);
                (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            }
            ScaleKind::Free => {
                let room = ((high - low) * 0.06).max(high.abs().max(1e-9) * 1e-3);
                let floor = if is_signed { f64::NEG_INFINITY } else { 0.0 };
                (low, high) = ((low - room).max(floor), high + room);
            }
            ScaleKind::Span if low >= high => {
                // A share, too: beside a large value, 1 is below the precision of a float.
                let room = (high.abs() * 1e-3).max(1.0);
                (low, high) = (low - room, high + room);
            }
            ScaleKind::Log2 if low >= high => (low, high) = (low / 2.0, high * 2.0),
            ScaleKind::Log10 => {
                low = 10f64.powf(low.log10().floor());
                high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
            }
            ScaleKind::Log2 | ScaleKind::Span => {}
        }
        Self { kind, values, low, high, from, to }
    }

    /// The place of a value; one outside lies at the end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = match self.kind {
            ScaleKind::Linear | ScaleKind::Free | ScaleKind::Span => {
                (value - self.low) / (self.high - self.low)
            }
            ScaleKind::Log2 | ScaleKind::Log10 => {
                (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Values to write at the axis, at least `room` apart, with their words.
    pub(super) fn ticks(&self, room: f64) -> Vec<(f64, String)> {
        let most = ((self.to - self.from).abs() / room).clamp(1.0, 20.0);
        let values = match self.kind {
            ScaleKind::Linear | ScaleKind::Free | ScaleKind::Span => {
                let step = step_of((self.high - self.low) / most);
                let first = (self.low / step).ceil();
                (0..40)
                    .map(|index| (first + f64::from(index)) * step)
                    .take_while(|value| *value <= self.high + step * 1e-6)
                    // A sum of steps that should be nothing is written as nothing.
                    .map(|value| if value.abs() < step * 1e-6 { 0.0 } else { value })
                    .collect()
            }
            ScaleKind::Log2 => self.powers(2.0, most),
            ScaleKind::Log10 => self.powers(10.0, most),
        };
        let values: Vec<f64> = if self.values == ValueKind::Count {
            values.into_iter().filter(|value: &f64| value.fract() == 0.0).collect()
        } else {
            values
        };
        let unit = values.iter().copied().fold(self.high.abs(), f64::max);
        values.into_iter().map(|value| (value, self.values.short(value, unit))).collect()
    }

    fn powers(&self, base: f64, most: f64) -> Vec<f64> {
        let (first, last) = (
            (self.low.ln() / base.ln() - 1e-9).ceil(),
            (self.high.ln() / base.ln() + 1e-9).floor(),
        );
        // Steps at which a reader can count on: 4K, 16K, 64K and not 4K, 32K, 256K.
        let least = (last - first + 1.0) / most;
        let step =
            [1.0, 2.0, 4.0, 10.0].into_iter().find(|step| *step >= least).unwrap_or(least.ceil());
        let mut values = Vec::new();
        let mut power = first;
        while power <= last && values.len() < 64 {
            values.push(base.powf(power));
            power += step;
        }
        values
    }

    /// The unit of the axis, if all values share one.
    pub(super) fn unit(&self) -> &'static str {
        match self.values {
            ValueKind::Rate => rate_unit(self.high).1,
            ValueKind::Percent => "%",
            _ => "",
        }
    }
}

impl ValueKind {
    /// A value in as few characters as say it; `largest` decides the unit of rates.
    pub(super) fn short(self, value: f64, largest: f64) -> String {
        match self {
            Self::Rate => trimmed(value / rate_unit(largest).0),
            Self::Size => {
                let text = Bytes(whole(value)).to_string();
                text.replace("iB", "").replace(' ', "").replace(".00", "")
            }
            Self::Time => time(value),
            Self::Percent | Self::Times | Self::Count => trimmed(value),
        }
    }

    /// A value with its unit.
    pub(crate) fn long(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{} {}", three(value / rate_unit(value).0), rate_unit(value).1),
            Self::Size => Bytes(whole(value)).to_string(),
            Self::Time => Nanos(whole(value)).to_string(),
            Self::Percent => format!("{value:.1} %"),
            Self::Times => format!("{value:.2} times"),
            Self::Count => trimmed(value),
        }
    }
}

fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded on the line before"
    )]
    let whole = value.clamp(0.0, 1e19).round() as u64;
    whole
}

fn time(nanos: f64) -> String {
    [("s", 1e9), ("ms", 1e6), ("us", 1e3)].into_iter().find(|(_, unit)| nanos >= *unit).map_or_else(
        || format!("{} ns", trimmed(nanos)),
        |(name, unit)| format!("{} {name}", trimmed(nanos / unit)),
    )
}

pub(crate) fn rate_unit(largest: f64) -> (f64, &'static str) {
    match largest.abs() {
        rate if rate >= 1e9 => (1e9, "GB/s"),
        rate if rate >= 1e6 => (1e6, "MB/s"),
        rate if rate >= 1e3 => (1e3, "KB/s"),
        _ => (1.0, "B/s"),
    }
}

/// Three significant places.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// As few decimals as say the value to three of them.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The next of 1, 2, 5 times a power of ten.
fn step_of(rough: f64) -> f64 {
    let rough = rough.max(1e-12);
    let power = 10f64.powf(rough.log10().floor());
    let first = rough / power;
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| first <= *digit + 1e-9).unwrap_or(10.0);
    digit * power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(kind: ScaleKind, values: ValueKind, all: &[f64], room: f64) -> Vec<String> {
        let scale = Scale::new(kind, values, all.iter().copied(), (0.0, 400.0));
        scale.ticks(room).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn an_axis_says_round_values_in_one_unit() {
        assert_eq!(
            words(ScaleKind::Linear, ValueKind::Rate, &[1e8, 3.3e9], 60.0),
            ["0", "1", "2", "3", "4"]
        );
        assert_eq!(
            words(ScaleKind::Log2, ValueKind::Size, &[4096.0, 1048576.0], 80.0),
            ["4K", "16K", "64K", "256K", "1M"]
        );
        assert_eq!(
            words(ScaleKind::Log10, ValueKind::Time, &[2e3, 3e5], 60.0),
            ["1 us", "10 us", "100 us", "1 ms"]
        );
        assert_eq!(words(ScaleKind::Linear, ValueKind::Count, &[1.0, 2.0], 20.0), ["0", "1", "2"]);
    }

    proptest! {
        #[test]
        fn any_value_has_a_place_on_the_axis(values: Vec<f64>, probe: f64, which in 0usize..5) {
            let kind = [ScaleKind::Linear, ScaleKind::Free, ScaleKind::Log2, ScaleKind::Log10, ScaleKind::Span][which];
            let scale = Scale::new(kind, ValueKind::Rate, values, (10.0, 400.0));
            let place = scale.at(probe);
            prop_assert!((10.0..=400.0).contains(&place), "{place}");
            for (value, text) in scale.ticks(40.0) {
                prop_assert!(scale.at(value).is_finite() && text.len() < 40, "{}", text);
            }
        }
    }
}
