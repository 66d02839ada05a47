//! Pairs of functions put together where everything that decides is the same.

use std::collections::{BTreeSet, HashMap, HashSet};

use peerlane_fabric::{Bar, DriverBinding, Fabric, FunctionId, FunctionKind};

use crate::Peers;
use crate::matrix::grouped;

/// Pairs of an initiator and the owner of a memory that get the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairGroup {
    /// The owners of memory.
    pub provider: Peers,
    /// The initiators.
    pub initiator: Peers,
    /// Number of pairs; a pair of functions that are both counts once.
    pub count: usize,
}

impl PairGroup {
    /// Two different functions of the group: the owner of the memory, and the initiator.
    pub fn example(&self) -> (FunctionId, FunctionId) {
        let first = self.provider.members[0];
        let other = self.initiator.members.iter().copied().find(|&id| id != first);
        match other {
            Some(other) => (first, other),
            // The only initiator is the first provider itself.
            None => (self.provider.members.last().copied().unwrap_or(first), first),
        }
    }

    /// Number of pairs with at least one end among these functions.
    pub fn count_with(&self, functions: &BTreeSet<FunctionId>) -> usize {
        let outside = |peers: &Peers| {
            let all = peers.members.iter().copied();
            all.filter(|id| !functions.contains(id)).collect::<Vec<_>>()
        };
        self.count - count(&outside(&self.provider), &outside(&self.initiator))
    }
}

/// Number of pairs of different functions, each pair once.
fn count(providers: &[FunctionId], initiators: &[FunctionId]) -> usize {
    let own: HashSet<FunctionId> = providers.iter().copied().collect();
    let shared = initiators.iter().filter(|id| own.contains(id)).count();
    // A pair of two shared functions is there in both orders.
    let twice = shared * shared.saturating_sub(1) / 2;
    (providers.len() * initiators.len()).saturating_sub(shared + twice)
}

/// Puts functions together.
pub(super) struct Grouping<'a> {
    pub(super) fabric: &'a Fabric,
    /// Every function is a group of its own.
    pub(super) is_each: bool,
}

impl Grouping<'_> {
    /// The groups of all pairs; those of the same functions in the other order are left out.
    ///
    /// `through` are functions whose memory pairs of drives go through.
    pub(super) fn pairs(
        &self,
        providers: &[FunctionId],
        initiators: &[FunctionId],
        through: &[FunctionId],
    ) -> Vec<PairGroup> {
        let columns = self.groups(initiators, providers, through);
        let is_symmetrical = providers == initiators;
        let rows = if is_symmetrical {
            columns.clone()
        } else {
            self.groups(providers, initiators, through)
        };
        let mut pairs = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            let first = if is_symmetrical { place } else { 0 };
            for column in &columns[first..] {
                let count = count(&row.members, &column.members);
                if count > 0 {
                    let (provider, initiator) = (row.clone(), column.clone());
                    pairs.push(PairGroup { provider, initiator, count });
                }
            }
        }
        pairs
    }

    fn groups(
        &self,
        functions: &[FunctionId],
        others: &[FunctionId],
        through: &[FunctionId],
    ) -> Vec<Peers> {
        if self.is_each {
            return functions.iter().map(|&id| Peers { members: vec![id] }).collect();
        }
        let further: Vec<FunctionId> = others.iter().chain(through).copied().collect();
        let (by_way, _) = grouped(self.fabric, functions, &further);
        by_way.iter().flat_map(|peers| self.by_profile(peers)).collect()
    }

    fn by_profile(&self, peers: &Peers) -> Vec<Peers> {
        let mut places: HashMap<Profile<'_>, usize> = HashMap::new();
        let mut groups: Vec<Peers> = Vec::new();
        for &id in &peers.members {
            let place = *places.entry(Profile::new(self.fabric, id)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.members.push(id),
                None => groups.push(Peers { members: vec![id] }),
            }
        }
        groups
    }
}

/// Properties of a function that drivers' rules look at.
#[derive(PartialEq, Eq, Hash)]
struct Profile<'a> {
    kind: FunctionKind,
    ids: (Option<u16>, Option<u16>, Option<u32>),
    driver: (bool, Option<&'a str>),
    iommu: Option<&'a str>,
    memory: (Option<bool>, Option<bool>, bool),
    bars: Vec<(u8, u64, Option<u64>, Option<u8>)>,
    memory_size: Option<u64>,
    is_virtual: bool,
    is_divided: bool,
    state: Option<&'a str>,
    has_closed_bars: bool,
    /// Vendor and device of the port on the root bus: drivers tell I/O hubs by them.
    top: (Option<u16>, Option<u16>),
    node: Option<u32>,
}

impl<'a> Profile<'a> {
    fn new(fabric: &'a Fabric, id: FunctionId) -> Self {
        let one = fabric.function(id);
        let top = fabric.function(fabric.upward(id).last().unwrap_or(id));
        let bar = |bar: &Bar| {
            (bar.index, bar.size.0, bar.largest.map(|largest| largest.0), bar.address_bits)
        };
        Self {
            kind: one.kind,
            ids: (one.vendor, one.device, one.class),
            driver: (one.driver == DriverBinding::Unbound, one.driver.name()),
            iommu: one.iommu_type.as_deref(),
            memory: (
                one.p2pmem.map(|pool| pool.published),
                one.fpga_p2p,
                one.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some()),
            ),
            bars: one.bars.iter().map(bar).collect(),
            memory_size: one.memory_size.map(|size| size.0),
            is_virtual: one.physical_function.is_some(),
            is_divided: one.mig_instances.is_some_and(|count| count > 0),
            state: one.nvme.as_ref().and_then(|nvme| nvme.state.as_deref()),
            has_closed_bars: !one.unassigned_bars.is_empty(),
            top: (top.vendor, top.device),
            node: one.numa_node,
        }
    }
}
