//! Functions of two machines that are the same, by the strongest sign of identity first.
//!
//! 1. Place: the same device and function numbers on the way from the same root bus, and no contradiction
//!    in maker, product or serial number. Bus numbers do not count, since a new card shifts them.
//! 2. Serial number of a drive. Captures have made-up ones, which do not count.
//! 3. The only function left of its maker, product and function number in either machine, if both
//!    list every function.
//! 4. Address, for texts that leave out the ports above, and cards below an exchanged switch.
//! 5. Name, for descriptions without addresses.
//!
//! Functions below two matched ones are matched by place again.

use std::collections::HashMap;
use std::hash::Hash;

use peerlane_fabric::{
    Bdf, BridgeId, Fabric, Function, FunctionId, FunctionKind, Origin, Parent, RootBus, capture,
};

/// Functions that two machines have in common, and those of one alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    /// The same function before and after, in the order of the machine after.
    pub both: Vec<(FunctionId, FunctionId)>,
    /// Functions of the machine before alone.
    pub before: Vec<FunctionId>,
    /// Functions of the machine after alone.
    pub after: Vec<FunctionId>,
    moved: Vec<(FunctionId, FunctionId)>,
}

impl Matching {
    /// Matches the functions of two machines.
    pub fn new(before: &Fabric, after: &Fabric) -> Self {
        // Of a list that was cut, another one of the product may be missing.
        let are_whole = lists_all(before) && lists_all(after);
        let mut matcher = Matcher::new(before, after);
        matcher.root_buses();
        matcher.by(|side, id| serial(side.fabric.function(id)).map(str::to_owned));
        loop {
            let known = matcher.both.len();
            matcher.by(|side, id| product(side.fabric.function(id)).filter(|_| are_whole));
            matcher.by(|side, id| side.fabric.function(id).address);
            matcher.by(|side, id| {
                let function = side.fabric.function(id);
                function.address.is_none().then(|| function.name.clone())
            });
            if matcher.both.len() == known {
                break;
            }
        }
        matcher.finish()
    }

    /// Returns the functions that are in another place.
    pub fn moved(&self) -> &[(FunctionId, FunctionId)] {
        &self.moved
    }
}

/// One of the two machines.
struct MachineSide<'a> {
    fabric: &'a Fabric,
    below: HashMap<Parent, Vec<FunctionId>>,
    /// True for each function that is listed and not matched yet.
    is_free: Vec<bool>,
    /// True for each function whose way from the root bus is known.
    is_placed: Vec<bool>,
    /// Its own one of each function of the other machine.
    matched: HashMap<FunctionId, FunctionId>,
}

impl<'a> MachineSide<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut side = Self {
            fabric,
            below: HashMap::new(),
            is_free: Vec::new(),
            is_placed: Vec::new(),
            matched: HashMap::new(),
        };
        for (id, function) in fabric.iter() {
            side.below.entry(function.parent).or_default().push(id);
            side.is_free.push(is_listed(fabric, function));
            let is_named = function.address.is_some() || fabric.origin == Origin::Description;
            // Parents precede children.
            side.is_placed.push(
                is_named
                    && match function.parent {
                        Parent::Bridge(bridge) => {
                            fabric.bridges[bridge.0].root_bus != RootBus::Assumed
                        }
                        Parent::Function(above) => side.is_placed[above.0],
                    },
            );
        }
        side
    }

    fn free(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.fabric.iter().map(|(id, _)| id).filter(|id| self.is_free[id.0])
    }

    /// The functions that are free and alone with their key.
    fn singles<K: Hash + Eq>(
        &self,
        key: impl Fn(&Self, FunctionId) -> Option<K>,
    ) -> Vec<(K, FunctionId)> {
        let mut found: HashMap<K, (FunctionId, usize)> = HashMap::new();
        for id in self.free() {
            if let Some(key) = key(self, id) {
                found.entry(key).or_insert((id, 0)).1 += 1;
            }
        }
        let mut singles: Vec<(K, FunctionId)> = found
            .into_iter()
            .filter(|(_, (_, count))| *count == 1)
            .map(|(key, (id, _))| (key, id))
            .collect();
        singles.sort_unstable_by_key(|(_, id)| *id);
        singles
    }

    /// The root bus below a host bridge, by the addresses on it.
    fn root_bus(&self, bridge: BridgeId) -> RootBusKey {
        let first = self.below.get(&Parent::Bridge(bridge)).and_then(|all| all.first());
        let address = first.and_then(|&id| self.fabric.function(id).address);
        match address {
            Some(address) => RootBusKey::Number(address.domain(), address.bus()),
            None => RootBusKey::Name(self.fabric.bridges[bridge.0].name.clone()),
        }
    }
}

/// Domain and number of a root bus, or the name of its host bridge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum RootBusKey {
    Number(u32, u8),
    Name(String),
}

/// Returns whether a source shows a function, rather than assumes it.
pub(super) fn is_listed(fabric: &Fabric, function: &Function) -> bool {
    fabric.origin != Origin::Text || function.address.is_some()
}

/// Returns whether a function that a machine does not list is not there: pasted text may leave some out. A
/// text with a sign of that has no whole root bus; without registers, some buses are assumed all the same.
pub(super) fn lists_all(fabric: &Fabric) -> bool {
    let mut bridges = fabric.bridges.iter();
    fabric.bridges.is_empty() || bridges.any(|bridge| bridge.root_bus == RootBus::Whole)
}

/// The real serial number of a drive.
fn serial(function: &Function) -> Option<&str> {
    let serial = function.nvme.as_ref()?.serial.as_deref()?;
    (!serial.is_empty() && !capture::is_made_up_serial(serial)).then_some(serial)
}

/// Maker, product and function number.
fn product(function: &Function) -> Option<(u16, u16, Option<u8>, FunctionKind)> {
    let number = function.address.map(Bdf::function);
    Some((function.vendor?, function.device?, number, function.kind))
}

/// Place of a function on its bus.
#[derive(Debug, PartialEq, Eq, Hash)]
enum BusSlot<'a> {
    Number(u8),
    Name(&'a str),
}

fn slot(function: &Function) -> BusSlot<'_> {
    match function.address {
        Some(address) => BusSlot::Number(address.devfn()),
        None => BusSlot::Name(&function.name),
    }
}

/// Functions by slot; `None` for those that share one, as only a description has them.
fn by_slot<'a>(
    side: &MachineSide<'a>,
    ids: &[FunctionId],
) -> HashMap<BusSlot<'a>, Option<FunctionId>> {
    let mut found = HashMap::new();
    for &id in ids {
        let slot = slot(side.fabric.function(id));
        found.entry(slot).and_modify(|one| *one = None).or_insert(Some(id));
    }
    found
}

/// Returns whether nothing speaks against two functions being the same.
fn may_be_same(one: &Function, other: &Function) -> bool {
    fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<bool> {
        one.zip(other).map(|(one, other)| one == other)
    }
    let model = |function: &Function| function.nvme.as_ref().and_then(|nvme| nvme.model.clone());
    let ids = (agree(one.vendor, other.vendor), agree(one.device, other.device));
    let signs = [ids.0, ids.1, agree(serial(one), serial(other)), agree(model(one), model(other))];
    let is_known = ids == (Some(true), Some(true));
    // Without its class a function of a text may be anything.
    let is_open =
        |function: &Function| function.kind == FunctionKind::Other && function.class.is_none();
    let is_alike = one.kind == other.kind
        || is_open(one)
        || is_open(other)
        || one.kind.is_bridge() && other.kind.is_bridge();
    !signs.contains(&Some(false)) && (is_known || is_alike)
}

struct Matcher<'a> {
    before: MachineSide<'a>,
    after: MachineSide<'a>,
    both: Vec<(FunctionId, FunctionId)>,
    /// Host bridges after, by those before.
    bridges: HashMap<BridgeId, BridgeId>,
}

impl<'a> Matcher<'a> {
    fn new(before: &'a Fabric, after: &'a Fabric) -> Self {
        let (before, after) = (MachineSide::new(before), MachineSide::new(after));
        Self { before, after, both: Vec::new(), bridges: HashMap::new() }
    }

    /// Matches root buses by number, those left of a domain by their order if there are as many of
    /// them, and everything below them.
    fn root_buses(&mut self) {
        let keys = |side: &MachineSide<'_>| -> HashMap<RootBusKey, BridgeId> {
            let bridges = (0..side.fabric.bridges.len()).map(BridgeId);
            let is_root =
                |bridge: &BridgeId| side.fabric.bridges[bridge.0].root_bus != RootBus::Assumed;
            bridges.filter(is_root).map(|bridge| (side.root_bus(bridge), bridge)).collect()
        };
        let (mut before, mut after) = (keys(&self.before), keys(&self.after));
        let common: Vec<RootBusKey> =
            before.keys().filter(|key| after.contains_key(*key)).cloned().collect();
        for key in common {
            if let (Some(one), Some(other)) = (before.remove(&key), after.remove(&key)) {
                self.bridges.insert(one, other);
            }
        }
        for (one, other) in in_order(before, after) {
            self.bridges.insert(one, other);
        }
        let mut pairs: Vec<(BridgeId, BridgeId)> =
            self.bridges.iter().map(|(&one, &other)| (one, other)).collect();
        pairs.sort_unstable();
        for (one, other) in pairs {
            self.descend(Parent::Bridge(one), Parent::Bridge(other));
        }
    }

    /// Matches the functions below two matched places, by slot.
    fn descend(&mut self, before: Parent, after: Parent) {
        let mut open = vec![(before, after)];
        while let Some((one, other)) = open.pop() {
            let (Some(ones), Some(others)) =
                (self.before.below.get(&one), self.after.below.get(&other))
            else {
                continue;
            };
            let (ones, others) = (by_slot(&self.before, ones), by_slot(&self.after, others));
            let mut found: Vec<(FunctionId, FunctionId)> = ones
                .into_iter()
                .filter_map(|(slot, one)| Some((one?, (*others.get(&slot)?)?)))
                .filter(|&(one, other)| self.may_match(one, other))
                .collect();
            found.sort_unstable();
            for (one, other) in found {
                self.mark(one, other);
                open.push((Parent::Function(one), Parent::Function(other)));
            }
        }
    }

    fn may_match(&self, one: FunctionId, other: FunctionId) -> bool {
        self.before.is_free[one.0]
            && self.after.is_free[other.0]
            && may_be_same(self.before.fabric.function(one), self.after.fabric.function(other))
    }

    fn mark(&mut self, one: FunctionId, other: FunctionId) {
        self.before.is_free[one.0] = false;
        self.after.is_free[other.0] = false;
        self.before.matched.insert(other, one);
        self.after.matched.insert(one, other);
        self.both.push((one, other));
    }

    /// Matches functions that are alone with a key in both machines, and the functions below them.
    fn by<K: Hash + Eq>(&mut self, key: impl Fn(&MachineSide<'_>, FunctionId) -> Option<K>) {
        let mut others: HashMap<K, FunctionId> = self.after.singles(&key).into_iter().collect();
        for (key, one) in self.before.singles(&key) {
            let Some(other) = others.remove(&key) else { continue };
            if self.may_match(one, other) {
                self.mark(one, other);
                self.descend(Parent::Function(one), Parent::Function(other));
            }
        }
    }

    /// Returns whether two functions that are the same are in other places.
    fn is_moved(&self, one: FunctionId, other: FunctionId) -> bool {
        if !self.before.is_placed[one.0] || !self.after.is_placed[other.0] {
            return false;
        }
        let (before, after) = (self.before.fabric, self.after.fabric);
        let (function, now) = (before.function(one), after.function(other));
        let path = before.path_of(one);
        if path.is_some() && path == after.path_of(other) {
            return false;
        }
        let is_below_same = match (function.parent, now.parent) {
            (Parent::Bridge(one), Parent::Bridge(other)) => self.bridges.get(&one) == Some(&other),
            (Parent::Function(one), Parent::Function(other)) => {
                self.after.matched.get(&one) == Some(&other)
            }
            _ => false,
        };
        let has_same_slot = match (function.address, now.address) {
            (Some(one), Some(other)) => one.devfn() == other.devfn(),
            _ => true,
        };
        !(is_below_same && has_same_slot)
    }

    fn finish(mut self) -> Matching {
        self.both.sort_unstable_by_key(|&(_, after)| after);
        let moved = self.both.iter().copied().filter(|&(one, other)| self.is_moved(one, other));
        Matching {
            moved: moved.collect(),
            before: self.before.free().collect(),
            after: self.after.free().collect(),
            both: self.both,
        }
    }
}

/// Host bridges of each domain in the order of their numbers, if both machines have as many.
fn in_order(
    before: HashMap<RootBusKey, BridgeId>,
    after: HashMap<RootBusKey, BridgeId>,
) -> Vec<(BridgeId, BridgeId)> {
    let by_domain = |all: HashMap<RootBusKey, BridgeId>| {
        let mut found: HashMap<u32, Vec<(u8, BridgeId)>> = HashMap::new();
        for (key, bridge) in all {
            if let RootBusKey::Number(domain, bus) = key {
                found.entry(domain).or_default().push((bus, bridge));
            }
        }
        found.values_mut().for_each(|buses| buses.sort_unstable());
        found
    };
    let (before, after) = (by_domain(before), by_domain(after));
    let mut pairs = Vec::new();
    for (domain, ones) in before {
        let others = after.get(&domain).filter(|others| others.len() == ones.len());
        let others = others.into_iter().flatten();
        pairs.extend(ones.iter().zip(others).map(|(&(_, one), &(_, other))| (one, other)));
    }
    pairs
}
