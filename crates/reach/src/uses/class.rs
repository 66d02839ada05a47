//! Functions that no rule tells apart: equal ones, below ports that are equal up to the same host bridge.

use std::collections::HashMap;

use peerlane_fabric::{
    Acs, Bar, BridgeId, DriverBinding, Fabric, FunctionId, FunctionKind, Parent,
};

use crate::matrix::{UpwardPath, UpwardPaths};

/// What sets functions apart besides their properties and the ports above them.
pub(super) enum Apart {
    /// Nothing.
    Alike,
    /// Their way up among those of these functions: pairs of drives go through memory of a third.
    ByWay(Vec<FunctionId>),
    /// Each is one of its own, as NVLink and XGMI connect single GPUs.
    Each,
}

/// A class of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(usize);

/// Tells the class of functions of a fabric.
pub(super) struct Classes<'a> {
    fabric: &'a Fabric,
    /// Equal for functions with equal ports above them, themselves included.
    chains: Vec<usize>,
    ways: Option<UpwardPaths<'a>>,
    is_each: bool,
    known: HashMap<Key<'a>, Class>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    chain: usize,
    profile: Profile<'a>,
    way: Option<UpwardPath>,
    own: Option<FunctionId>,
}

impl<'a> Classes<'a> {
    pub(super) fn new(fabric: &'a Fabric, apart: Apart) -> Self {
        let is_each = matches!(apart, Apart::Each);
        let ways = match apart {
            Apart::ByWay(functions) => Some(UpwardPaths::new(fabric, functions.into_iter())),
            Apart::Alike | Apart::Each => None,
        };
        Self { fabric, chains: chains(fabric), ways, is_each, known: HashMap::new() }
    }

    pub(super) fn class(&mut self, id: FunctionId) -> Class {
        let key = Key {
            chain: self.chains[id.0],
            profile: Profile::new(self.fabric, id),
            way: self.ways.as_ref().map(|ways| ways.path(id)),
            own: self.is_each.then_some(id),
        };
        let next = Class(self.known.len());
        *self.known.entry(key).or_insert(next)
    }
}

/// The facts about a function that bear on pairs below it.
#[derive(PartialEq, Eq, Hash)]
struct Link {
    above: Above,
    kind: FunctionKind,
    ids: (Option<u16>, Option<u16>),
    acs: Acs,
    has_address: bool,
}

#[derive(PartialEq, Eq, Hash)]
enum Above {
    Bridge(BridgeId),
    Chain(usize),
}

fn chains(fabric: &Fabric) -> Vec<usize> {
    let mut numbers: HashMap<Link, usize> = HashMap::new();
    let mut chains: Vec<usize> = Vec::with_capacity(fabric.functions.len());
    // Parents precede children.
    for one in &fabric.functions {
        let above = match one.parent {
            Parent::Bridge(bridge) => Above::Bridge(bridge),
            Parent::Function(FunctionId(parent)) => Above::Chain(chains[parent]),
        };
        let link = Link {
            above,
            kind: one.kind,
            ids: (one.vendor, one.device),
            acs: one.acs,
            has_address: one.address.is_some(),
        };
        let next = numbers.len();
        chains.push(*numbers.entry(link).or_insert(next));
    }
    chains
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
    node: Option<u32>,
}

impl<'a> Profile<'a> {
    fn new(fabric: &'a Fabric, id: FunctionId) -> Self {
        let one = fabric.function(id);
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
            node: one.numa_node,
        }
    }
}
