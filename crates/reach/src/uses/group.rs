//! Pairs of functions put together where everything that decides is the same.
//!
//! Two functions meet at the lowest place above both: a port, a root bus, or the machine. What decides on a pair is
//! that place and the class of its ends. So the pairs of two classes that meet at one place are a group, of which one
//! is judged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use peerlane_fabric::{BridgeId, Fabric, FunctionId, HostBridge};

use super::class::{Apart, Class, Classes};

/// Pairs of an initiator and the owner of a memory that get the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairGroup {
    providers: Arc<Ends>,
    initiators: Arc<Ends>,
    /// The port where the two of each pair meet; `None` where that is above all ports.
    pub(super) port: Option<FunctionId>,
    /// Owners and initiators are the same functions: each pair is there in both orders.
    is_both_ways: bool,
    example: (FunctionId, FunctionId),
    /// Number of pairs; a pair of functions that are both counts once.
    pub count: usize,
}

/// Functions of one class below a place, each with the branch of the place that it is in.
///
/// Two functions of one branch meet further down, and are no pair of the place.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ends(Vec<(Branch, FunctionId)>);

/// A branch below a place: position of the function, the host bridge or the machine at its top.
type Branch = usize;

/// A place where functions meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Port(FunctionId),
    Bus(BridgeId),
    Machine(usize),
    /// All that the description has: functions of different machines meet nowhere else.
    Description,
}

impl PairGroup {
    /// The group of the pairs of two classes at a place, if there are any.
    fn new(
        place: Place,
        (mut providers, mut initiators): (Arc<Ends>, Arc<Ends>),
        is_both_ways: bool,
    ) -> Option<Self> {
        let only = (providers.only_branch(), initiators.only_branch());
        if let Some(branch) = only.1 {
            providers = providers.without(branch);
        }
        if let Some(branch) = only.0 {
            initiators = initiators.without(branch);
        }
        let (branch, provider) = providers.first(|_| true)?;
        let (_, initiator) = initiators.first(|other| other != branch)?;
        let port = match place {
            Place::Port(port) => Some(port),
            Place::Bus(_) | Place::Machine(_) | Place::Description => None,
        };
        let count = count(&providers, &initiators, is_both_ways);
        let example = (provider, initiator);
        Some(Self { providers, initiators, port, is_both_ways, example, count })
    }

    /// Two different functions of the group: the owner of the memory, and the initiator.
    pub fn example(&self) -> (FunctionId, FunctionId) {
        self.example
    }

    /// The owners of memory, in the order of the fabric within each branch.
    pub fn providers(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.providers.functions()
    }

    /// The initiators, in the order of the fabric within each branch.
    pub fn initiators(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.initiators.functions()
    }

    /// Every pair, the owner of the memory first.
    pub fn pairs(&self) -> impl Iterator<Item = (FunctionId, FunctionId)> + '_ {
        self.providers.0.iter().flat_map(|&(branch, provider)| {
            let others = self.initiators.0.iter().filter(move |(other, _)| *other != branch);
            others.map(move |&(_, initiator)| (provider, initiator))
        })
    }

    /// Number of pairs with at least one end among these functions.
    pub fn count_with(&self, functions: &BTreeSet<FunctionId>) -> usize {
        let is_among = |ends: &Ends| ends.functions().any(|id| functions.contains(&id));
        if !is_among(&self.providers) && !is_among(&self.initiators) {
            return 0;
        }
        let outside = |ends: &Ends| ends.filtered(|(_, id)| !functions.contains(&id));
        let (providers, initiators) = (outside(&self.providers), outside(&self.initiators));
        self.count - count(&providers, &initiators, self.is_both_ways)
    }
}

/// Number of pairs in different branches.
fn count(providers: &Ends, initiators: &Ends, is_both_ways: bool) -> usize {
    let mut in_branch: HashMap<Branch, usize> = HashMap::new();
    for (branch, _) in &initiators.0 {
        *in_branch.entry(*branch).or_default() += 1;
    }
    let met_below =
        |(branch, _): &(Branch, FunctionId)| in_branch.get(branch).copied().unwrap_or(0);
    let all = providers.0.len() * initiators.0.len();
    let pairs = all - providers.0.iter().map(met_below).sum::<usize>();
    if is_both_ways { pairs / 2 } else { pairs }
}

impl Ends {
    fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.0.iter().map(|&(_, id)| id)
    }

    /// The first in the order of the fabric, of those in some branches.
    fn first(&self, is_wanted: impl Fn(Branch) -> bool) -> Option<(Branch, FunctionId)> {
        let wanted = self.0.iter().filter(|(branch, _)| is_wanted(*branch));
        wanted.min_by_key(|(_, id)| *id).copied()
    }

    /// The branch that all of them are in.
    fn only_branch(&self) -> Option<Branch> {
        // They are in the order of their branches.
        let (first, last) = (self.0.first()?.0, self.0.last()?.0);
        (first == last).then_some(first)
    }

    fn without(self: Arc<Self>, branch: Branch) -> Arc<Self> {
        let is_there = |(one, _): &(Branch, FunctionId)| *one == branch;
        if self.0.iter().any(is_there) {
            self.filtered(|(one, _)| one != branch).into()
        } else {
            self
        }
    }

    fn filtered(&self, is_wanted: impl Fn((Branch, FunctionId)) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|&one| is_wanted(one)).collect())
    }
}

/// Groups the pairs of owners of memory and initiators; those of the same functions in the other order are left out.
pub(super) fn pair_groups(
    fabric: &Fabric,
    providers: &[FunctionId],
    initiators: &[FunctionId],
    apart: Apart,
) -> Vec<PairGroup> {
    let mut classes = Classes::new(fabric, apart);
    let machines = machines(fabric);
    let mut below = |functions: &[FunctionId]| by_place(fabric, &machines, &mut classes, functions);
    let columns = below(initiators);
    let is_symmetrical = providers == initiators;
    let rows = if is_symmetrical { columns.clone() } else { below(providers) };
    let mut groups = Vec::new();
    for (place, rows) in &rows {
        let Some(columns) = columns.get(place) else { continue };
        for (number, row) in rows.iter().enumerate() {
            let first = if is_symmetrical { number } else { 0 };
            for (other, column) in columns.iter().enumerate().skip(first) {
                let ends = (row.clone(), column.clone());
                groups.extend(PairGroup::new(*place, ends, is_symmetrical && number == other));
            }
        }
    }
    groups.sort_by_key(PairGroup::example);
    groups
}

/// Position of the machine of each host bridge, of the several that a description may have.
fn machines(fabric: &Fabric) -> Vec<usize> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let number = |machine| {
        let next = numbers.len();
        *numbers.entry(machine).or_insert(next)
    };
    fabric.bridges.iter().map(HostBridge::machine).map(number).collect()
}

/// Functions by each place above them, put together by class.
fn by_place(
    fabric: &Fabric,
    machines: &[usize],
    classes: &mut Classes<'_>,
    functions: &[FunctionId],
) -> BTreeMap<Place, Vec<Arc<Ends>>> {
    let mut found: BTreeMap<(Place, Class), Ends> = BTreeMap::new();
    for &id in functions {
        let class = classes.class(id);
        for (place, branch) in places(fabric, machines, id) {
            found.entry((place, class)).or_default().0.push((branch, id));
        }
    }
    let mut by_place: BTreeMap<Place, Vec<Arc<Ends>>> = BTreeMap::new();
    for ((place, _), mut ends) in found {
        ends.0.sort_unstable();
        by_place.entry(place).or_default().push(ends.into());
    }
    by_place
}

/// The places above a function, itself first, each with the branch that holds it.
fn places(
    fabric: &Fabric,
    machines: &[usize],
    id: FunctionId,
) -> impl Iterator<Item = (Place, Branch)> {
    let mut branch = id.0;
    let bridge = fabric.bridge_of(id);
    let ports = fabric.upward(id).map(Place::Port);
    let machine = machines[bridge.0];
    let above = [Place::Bus(bridge), Place::Machine(machine), Place::Description];
    ports.chain(above).map(move |place| {
        let within = branch;
        branch = match place {
            Place::Port(port) => port.0,
            Place::Bus(bridge) => bridge.0,
            Place::Machine(number) => number,
            Place::Description => within,
        };
        (place, within)
    })
}
