//! Loads of links, by the function below each.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::{Direction, LinkLoad};
use peerlane_units::ByteRate;

use crate::chart::{rate_unit, three};

/// Loads of all links.
#[derive(Debug, Default)]
pub(super) struct Loads {
    of: BTreeMap<FunctionId, CarriedLoad>,
    /// Number of loads that name no function of this machine.
    pub(super) strange: usize,
    /// Loads of links between sockets, in words; these links have no line.
    pub(super) between_sockets: Vec<String>,
    /// Reference of colours and widths.
    pub(super) scale: LoadScale,
    /// The most that any direction of a link carries.
    most: ByteRate,
}

/// References that a load is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LoadScale {
    /// The ceiling of its link.
    #[default]
    Ceilings,
    /// The busiest link, since the ceiling of some is unknown.
    Busiest,
    /// The same, on a machine whose link speeds mean nothing.
    Speedless,
}

/// Load of one link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CarriedLoad {
    up: ByteRate,
    down: ByteRate,
    /// Larger of the shares of the reference that both directions reach.
    share: f64,
}

impl Loads {
    pub(super) fn new(fabric: &Fabric, loads: &[LinkLoad]) -> Self {
        let mut all = Self::default();
        let (between, loads): (Vec<_>, Vec<_>) =
            loads.iter().partition(|load| load.other_end.is_some());
        all.between_sockets = between.into_iter().filter_map(between_sockets).collect();
        for load in &loads {
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
            all.most = all.most.max(*rate);
            if load.ceiling.0 > 0 {
                found.share = found.share.max(rate.0 as f64 / load.ceiling.0 as f64);
            }
        }
        let known = loads.iter().filter(|load| load.ceiling.0 > 0).count();
        all.scale = match known {
            known if known == loads.len() => LoadScale::Ceilings,
            0 => LoadScale::Speedless,
            _ => LoadScale::Busiest,
        };
        if all.scale != LoadScale::Ceilings {
            let most = all.most.0.max(1) as f64;
            for load in all.of.values_mut() {
                load.share = load.up.max(load.down).0 as f64 / most;
            }
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn get(&self, id: FunctionId) -> Option<CarriedLoad> {
        self.of.get(&id).copied()
    }

    /// The share of the busiest link.
    pub(super) fn most(&self) -> f64 {
        self.of.values().map(|load| load.share).fold(0.0, f64::max)
    }

    /// The unit of all words next to lines.
    pub(super) fn unit(&self) -> &'static str {
        rate_unit(self.most.0 as f64).1
    }

    /// Short words next to the line: up and down, in the unit of all.
    pub(super) fn words(&self, load: CarriedLoad) -> String {
        let unit = rate_unit(self.most.0 as f64).0;
        let one = |sign: char, rate: ByteRate| {
            (rate.0 > 0).then(|| format!("{sign}{}", three(rate.0 as f64 / unit)))
        };
        [one('\u{2191}', load.up), one('\u{2193}', load.down)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("  ")
    }

    /// All of it, for a pointer that rests on the line.
    pub(super) fn title(&self, load: CarriedLoad) -> String {
        let of = if self.scale == LoadScale::Ceilings { "the link" } else { "the busiest link" };
        format!("up {}, down {}, {:.0} % of {of}", load.up, load.down, load.share * 100.0)
    }

    /// Meanings of colours, by their style.
    pub(super) fn classes(&self) -> [(&'static str, &'static str); 4] {
        let first = match self.scale {
            LoadScale::Ceilings => "below a quarter of the link",
            _ => "below a quarter of the busiest link",
        };
        [
            ("l0", first),
            ("l1", "below half"),
            ("l2", "below nine tenths"),
            ("l3", "nine tenths and more"),
        ]
    }
}

/// One direction of a link between sockets.
fn between_sockets(load: &LinkLoad) -> Option<String> {
    let ends = (load.below.as_str(), load.other_end.as_deref()?);
    let (from, to) = match load.direction {
        Direction::Up => ends,
        Direction::Down => (ends.1, ends.0),
    };
    Some(format!("{} from {from} to {to}", load.payload))
}

impl CarriedLoad {
    /// Style of the line: below a quarter, a half, and nine tenths of its reference, and above.
    pub(super) fn class(self) -> &'static str {
        match self.share {
            share if share < 0.25 => "l0",
            share if share < 0.5 => "l1",
            share if share < 0.9 => "l2",
            _ => "l3",
        }
    }

    /// Width of the line, if links have no widths to draw it into.
    pub(super) fn width(self) -> f64 {
        2.0 + 6.0 * self.share.clamp(0.0, 1.0)
    }

    /// The rate that the width of the line stands for where links have widths.
    pub(super) fn gigabytes(self) -> f64 {
        self.up.max(self.down).0 as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_links_are_listed_not_strange() {
        let fabric = peerlane_testing::machine("slot root-port\n a nvme");
        let load = |below: &str, other_end: Option<&str>, direction| LinkLoad {
            below: below.to_owned(),
            other_end: other_end.map(str::to_owned),
            direction,
            payload: ByteRate(12_000_000_000),
            ceiling: ByteRate(31_000_000_000),
            busy: None,
        };
        let all = [
            load("a", None, Direction::Up),
            load("pci0000:80", Some("pci0000:00"), Direction::Down),
            load("pci0000:80", Some("pci0000:00"), Direction::Up),
        ];
        let loads = Loads::new(&fabric, &all);
        assert_eq!((loads.strange, loads.scale, loads.of.len()), (0, LoadScale::Ceilings, 1));
        let words =
            ["12.0 GB/s from pci0000:00 to pci0000:80", "12.0 GB/s from pci0000:80 to pci0000:00"];
        assert_eq!(loads.between_sockets, words);
    }
}
