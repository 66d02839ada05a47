//! What links carry, by the function below each.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::{Direction, LinkLoad};
use peerlane_units::ByteRate;

/// What links carry.
#[derive(Debug, Default)]
pub(super) struct Loads {
    of: BTreeMap<FunctionId, Load>,
    /// How many loads name no function of this machine.
    pub(super) strange: usize,
}

/// What one link carries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    up: ByteRate,
    down: ByteRate,
    /// Largest share of a ceiling, of both directions.
    share: f64,
}

impl Loads {
    pub(super) fn new(fabric: &Fabric, loads: &[LinkLoad]) -> Self {
        let mut all = Self::default();
        for load in loads {
            let Some(id) = fabric.find(&load.below) else {
                all.strange += 1;
                continue;
            };
            let found = all.of.entry(id).or_default();
            let rate = match load.direction {
                Direction::Up => &mut found.up,
                Direction::Down => &mut found.down,
            };
            *rate = ByteRate(rate.0.saturating_add(load.payload.0));
            if load.ceiling.0 > 0 {
                found.share = found.share.max(rate.0 as f64 / load.ceiling.0 as f64);
            }
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn get(&self, id: FunctionId) -> Option<Load> {
        self.of.get(&id).copied()
    }

    /// The share of the busiest link.
    pub(super) fn most(&self) -> f64 {
        self.of.values().map(|load| load.share).fold(0.0, f64::max)
    }
}

impl Load {
    /// Style of the line: below a quarter, a half, and nine tenths of what the link carries, and above.
    pub(super) fn class(self) -> &'static str {
        match self.share {
            share if share < 0.25 => "l0",
            share if share < 0.5 => "l1",
            share if share < 0.9 => "l2",
            _ => "l3",
        }
    }

    /// The rate that the width of the line stands for.
    pub(super) fn gigabytes(self) -> f64 {
        self.up.0.max(self.down.0) as f64 / 1e9
    }

    /// Short words for beside the line: GB/s up and down.
    pub(super) fn words(self) -> String {
        let one = |sign: char, rate: ByteRate| {
            let gigabytes = rate.0 as f64 / 1e9;
            let places = if gigabytes < 0.095 { 3 } else { 1 };
            (rate.0 > 0).then(|| format!("{sign}{gigabytes:.places$}"))
        };
        [one('\u{2191}', self.up), one('\u{2193}', self.down)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// All of it, for a pointer that rests on the line.
    pub(super) fn title(self) -> String {
        format!("up {}, down {}, {:.0} % of the link", self.up, self.down, self.share * 100.0)
    }
}
