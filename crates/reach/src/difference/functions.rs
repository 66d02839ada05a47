//! Facts of functions that both machines have, and functions that one of them has alone.

use std::collections::HashMap;

use peerlane_fabric::{
    Acs, DriverBinding, Fabric, Function, FunctionId, FunctionKind, LinkSpeed, Origin, Parent,
};
use peerlane_units::Bytes;

use super::collector::{Collector, Judged};
use super::matching::lists_all;
use super::{
    ChangeEffect, ChangeKind, ComparedFunction, MachineChange, Matching, UncomparedReason,
};

type Both<'a> = (&'a Fabric, &'a Fabric);

impl ComparedFunction {
    pub(super) fn in_both(before: FunctionId, after: FunctionId) -> Self {
        Self { before: Some(before), after: Some(after) }
    }
}

/// Notes functions that are gone, new, in another place, or at another address.
pub(super) fn presence(found: &mut Collector, fabrics: Both<'_>, matching: &Matching) {
    let (before, after) = fabrics;
    let gone = |id| ComparedFunction { before: Some(id), after: None };
    let new = |id| ComparedFunction { before: None, after: Some(id) };
    if lists_all(after) {
        for branch in branches(before, &matching.before) {
            let functions = branch.into_iter().map(gone).collect();
            found.single(alone(ChangeKind::Removed, ChangeEffect::Worse, functions));
        }
    } else {
        for &id in &matching.before {
            found.uncompared(ChangeKind::Removed, UncomparedReason::UnknownAfter, Some(gone(id)));
        }
    }
    if lists_all(before) {
        for branch in branches(after, &matching.after) {
            let functions = branch.into_iter().map(new).collect();
            found.single(alone(ChangeKind::Added, ChangeEffect::Neutral, functions));
        }
    } else {
        for &id in &matching.after {
            found.uncompared(ChangeKind::Added, UncomparedReason::UnknownBefore, Some(new(id)));
        }
    }
    places(found, fabrics, matching);
}

/// Notes functions in another place, and those at another address in the same place.
fn places(found: &mut Collector, (before, after): Both<'_>, matching: &Matching) {
    let address = |fabric: &Fabric, id: FunctionId| {
        let function = fabric.function(id);
        function.address.map_or_else(|| function.name.clone(), |address| address.to_string())
    };
    for &(one, other) in matching.moved() {
        let (mut from, mut to) = (address(before, one), address(after, other));
        if from == to {
            (from, to) = (above(before, one), above(after, other));
        }
        let functions = vec![ComparedFunction::in_both(one, other)];
        found.single(MachineChange {
            before: Some(from),
            after: Some(to),
            ..alone(ChangeKind::Moved, ChangeEffect::Neutral, functions)
        });
    }
    let is_renumbered = |&&(one, other): &&(FunctionId, FunctionId)| {
        let addresses = (before.function(one).address, after.function(other).address);
        matches!(addresses, (Some(one), Some(other)) if one != other)
            && matching.moved().binary_search_by_key(&other, |&(_, moved)| moved).is_err()
    };
    let renumbered: Vec<_> = matching.both.iter().filter(is_renumbered).copied().collect();
    let Some(&(one, other)) = renumbered.first() else { return };
    let functions = renumbered.iter().map(|&(one, other)| ComparedFunction::in_both(one, other));
    found.single(MachineChange {
        before: Some(address(before, one)),
        after: Some(address(after, other)),
        ..alone(ChangeKind::Renumbered, ChangeEffect::Neutral, functions.collect())
    });
}

fn alone(
    kind: ChangeKind,
    effect: ChangeEffect,
    functions: Vec<ComparedFunction>,
) -> MachineChange {
    MachineChange { kind, effect, before: None, after: None, functions, pairs: None }
}

/// The way from the root bus, or the port above where addresses are unknown.
fn above(fabric: &Fabric, id: FunctionId) -> String {
    fabric.path_of(id).unwrap_or_else(|| match fabric.function(id).parent {
        Parent::Function(port) => format!("below {}", fabric.function(port).name),
        Parent::Bridge(bridge) => format!("below {}", fabric.bridges[bridge.0].name),
    })
}

/// Functions with those below them, topmost first.
fn branches(fabric: &Fabric, functions: &[FunctionId]) -> Vec<Vec<FunctionId>> {
    let mut branch_of: HashMap<FunctionId, usize> = HashMap::new();
    let mut branches: Vec<Vec<FunctionId>> = Vec::new();
    for &id in functions {
        // Parents precede children.
        let above = match fabric.function(id).parent {
            Parent::Function(above) => branch_of.get(&above).copied(),
            Parent::Bridge(_) => None,
        };
        let branch = above.unwrap_or(branches.len());
        if branch == branches.len() {
            branches.push(Vec::new());
        }
        branch_of.insert(id, branch);
        branches[branch].push(id);
    }
    branches
}

/// Compares the facts of each function that both machines have.
pub(super) fn compare(found: &mut Collector, fabrics: Both<'_>, matching: &Matching) {
    for &(one, other) in &matching.both {
        let pair = FunctionPair {
            fabrics,
            ids: (one, other),
            before: fabrics.0.function(one),
            after: fabrics.1.function(other),
        };
        pair.acs(found);
        pair.links(found);
        pair.windows(found);
        pair.driver(found);
        pair.memory(found);
    }
}

/// A function of both machines.
struct FunctionPair<'a> {
    fabrics: Both<'a>,
    ids: (FunctionId, FunctionId),
    before: &'a Function,
    after: &'a Function,
}

impl FunctionPair<'_> {
    fn compared(&self) -> Option<ComparedFunction> {
        Some(ComparedFunction::in_both(self.ids.0, self.ids.1))
    }

    fn acs(&self, found: &mut Collector) {
        let words = |redirects: bool| if redirects { "on" } else { "off" };
        let redirects = (self.before.acs.redirects(), self.after.acs.redirects());
        // Ports decide; of other functions nothing is missed that neither machine shows.
        if (self.before.acs, self.after.acs) == (Acs::Unknown, Acs::Unknown) && !self.is_port() {
            return;
        }
        found.compare(ChangeKind::AcsRedirection, redirects, self.compared(), |one, other| {
            Judged::new(ChangeEffect::of_growth(other, one), words(*one), words(*other))
        });
    }

    fn is_port(&self) -> bool {
        self.before.kind.is_bridge() || self.after.kind.is_bridge()
    }

    /// Returns whether there is a link above the function.
    fn has_link(&self) -> bool {
        let is_below_port = |fabric: &Fabric, id: FunctionId| match fabric.function(id).parent {
            Parent::Function(port) => {
                matches!(
                    fabric.function(port).kind,
                    FunctionKind::RootPort | FunctionKind::DownstreamPort
                )
            }
            Parent::Bridge(_) => false,
        };
        let (before, after) = self.fabrics;
        let is_shown = self.before.link.is_some() || self.after.link.is_some();
        let is_virtual = self.before.physical_function.is_some();
        let is_below =
            is_below_port(before, self.ids.0) && is_below_port(after, self.ids.1) && !is_virtual;
        is_shown || is_below
    }

    fn links(&self, found: &mut Collector) {
        if !self.has_link() {
            return;
        }
        let (before, after) = self.fabrics;
        let judge = |one: &LinkSpeed, other: &LinkSpeed| {
            let effect = ChangeEffect::of_growth(&one.raw_rate(), &other.raw_rate());
            Judged::new(effect, one.to_string(), other.to_string())
        };
        let current = |function: &Function| function.link.and_then(|link| link.current);
        let trained = (current(self.before), current(self.after));
        if self.is_idle(trained) {
            let reason = UncomparedReason::IdleLink;
            found.uncompared(ChangeKind::LinkTrained, reason, self.compared());
        } else {
            found.compare(ChangeKind::LinkTrained, trained, self.compared(), judge);
        }
        let most = (before.trainable(self.ids.0), after.trainable(self.ids.1));
        found.compare(ChangeKind::LinkMaximum, most, self.compared(), judge);
    }

    /// Returns whether the slower of two speeds may be that of an idle GPU.
    fn is_idle(&self, trained: (Option<LinkSpeed>, Option<LinkSpeed>)) -> bool {
        let (Some(one), Some(other)) = trained else { return false };
        let (before, after) = self.fabrics;
        let may_save = match one.megatransfers.cmp(&other.megatransfers) {
            std::cmp::Ordering::Less => before.may_save_power(self.ids.0),
            std::cmp::Ordering::Equal => false,
            std::cmp::Ordering::Greater => after.may_save_power(self.ids.1),
        };
        may_save && one.width == other.width
    }

    fn windows(&self, found: &mut Collector) {
        let (before, after) = self.fabrics;
        let windows = (WindowSizes::new(before, self.before), WindowSizes::new(after, self.after));
        // Windows of bridges are left out of fabrics, but for some of texts.
        if windows == (None, None) || self.is_port() {
            return;
        }
        found.compare(ChangeKind::Windows, windows, self.compared(), |one, other| {
            let effect = match ChangeEffect::of_growth(&other.lost(), &one.lost()) {
                ChangeEffect::Neutral => ChangeEffect::of_growth(&one.total(), &other.total()),
                effect => effect,
            };
            Judged::new(effect, one.in_words(), other.in_words())
        });
    }

    fn driver(&self, found: &mut Collector) {
        let known = |driver: &DriverBinding| match driver {
            DriverBinding::Unknown => None,
            DriverBinding::Unbound => Some("none".to_owned()),
            DriverBinding::Bound(name) => Some(name.clone()),
        };
        let drivers = (known(&self.before.driver), known(&self.after.driver));
        if drivers != (None, None) {
            found.compare(ChangeKind::Driver, drivers, self.compared(), |one, other| {
                let is_bound = |driver: &DriverBinding| *driver != DriverBinding::Unbound;
                let bound = (is_bound(&self.before.driver), is_bound(&self.after.driver));
                let effect = ChangeEffect::of_growth(&bound.0, &bound.1);
                Judged::new(effect, one.as_str(), other.as_str())
            });
        }
        if let (Some(_), Some(_)) = (&self.before.iommu_type, &self.after.iommu_type) {
            let types = (self.before.iommu_type.as_ref(), self.after.iommu_type.as_ref());
            found.compare(ChangeKind::Translation, types, self.compared(), |one, other| {
                let effect = ChangeEffect::of_growth(&translates(other), &translates(one));
                Judged::new(effect, one.as_str(), other.as_str())
            });
        }
    }

    fn memory(&self, found: &mut Collector) {
        let (before, after) = self.fabrics;
        let pool = |fabric: &Fabric, function: &Function| match function.p2pmem {
            None if fabric.origin == Origin::Text => None,
            pool => Some(pool.map(|pool| (pool.size, pool.published))),
        };
        let pools = (pool(before, self.before), pool(after, self.after));
        let lends = self.before.p2pmem.is_some() || self.after.p2pmem.is_some();
        if lends {
            found.compare(ChangeKind::MemoryLent, pools, self.compared(), |one, other| {
                let offered = |pool: &Option<(Bytes, bool)>| {
                    pool.filter(|(_, published)| *published).map(|(size, _)| size)
                };
                let effect = ChangeEffect::of_growth(&offered(one), &offered(other));
                Judged::new(effect, pool_in_words(*one), pool_in_words(*other))
            });
        }
        let cards = (self.before.fpga_p2p, self.after.fpga_p2p);
        if cards != (None, None) {
            let words = |lends: bool| if lends { "lent" } else { "not lent" };
            found.compare(ChangeKind::MemoryLent, cards, self.compared(), |one, other| {
                Judged::new(ChangeEffect::of_growth(one, other), words(*one), words(*other))
            });
        }
    }
}

/// Returns whether a type of IOMMU group translates: `DMA` and `DMA-FQ` do, `identity` does not.
fn translates(kind: &str) -> bool {
    kind.starts_with("DMA")
}

fn pool_in_words(pool: Option<(Bytes, bool)>) -> String {
    match pool {
        None => "none".to_owned(),
        Some((size, true)) => format!("{size}, offered to peers"),
        Some((size, false)) => format!("{size}, not offered to peers"),
    }
}

/// Sizes of windows, the largest first.
#[derive(Debug, PartialEq, Eq)]
struct WindowSizes {
    assigned: Vec<Bytes>,
    unassigned: Vec<Option<Bytes>>,
}

impl WindowSizes {
    /// The windows of a function; `None` where they are unknown: text without them may be short of lines.
    fn new(fabric: &Fabric, function: &Function) -> Option<Self> {
        let mut assigned: Vec<Bytes> = function.bars.iter().map(|bar| bar.size).collect();
        let mut unassigned: Vec<Option<Bytes>> =
            function.unassigned_bars.iter().map(|bar| bar.size).collect();
        let is_shown = !assigned.is_empty() || !unassigned.is_empty();
        assigned.sort_unstable_by(|one, other| other.cmp(one));
        unassigned.sort_unstable_by(|one, other| other.cmp(one));
        (is_shown || fabric.origin != Origin::Text).then_some(Self { assigned, unassigned })
    }

    fn total(&self) -> u128 {
        self.assigned.iter().map(|size| u128::from(size.0)).sum()
    }

    fn lost(&self) -> usize {
        self.unassigned.len()
    }

    fn in_words(&self) -> String {
        let size = |size: &Option<Bytes>| {
            let size = size.map_or_else(|| "one of unknown size".to_owned(), |s| s.to_string());
            format!("{size} without address space")
        };
        let assigned = self.assigned.iter().map(Bytes::to_string);
        let words: Vec<String> = assigned.chain(self.unassigned.iter().map(size)).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }
}
