//! Decisions on many pairs of one fabric: what several pairs depend on is looked up once.

use std::collections::HashMap;

use peerlane_fabric::{BridgeId, Fabric, FunctionId, HostBridge, Parent, RootBus};

use crate::decision::{
    MapType, Reach, Tri, bridge_forwards, cpu_forwards, decide_by, first_of_root_bus, forwarded,
};

/// The kernel's decision without its reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixCell {
    /// The decision.
    pub map: MapType,
    /// Hops, where it is not refused.
    pub distance: Option<u32>,
}

/// Decides many pairs of one fabric.
#[derive(Debug)]
pub struct Decisions<'a> {
    pub(crate) fabric: &'a Fabric,
    /// The functions by which the kernel knows the host bridges.
    test_devices: Vec<Option<FunctionId>>,
    /// The host bridges as decisions see them.
    bridges: Vec<BridgeTrust>,
    /// The CPU forwards between root ports.
    pub(crate) cpu: Tri,
    /// The host bridge above each function.
    above: Vec<BridgeId>,
    /// Functions from each one up to the root bus, itself included.
    depths: Vec<u32>,
}

/// A host bridge as decisions see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BridgeTrust {
    /// Number of its machine, of the several that a description may have.
    pub(crate) machine: usize,
    /// The bridges above its bus are not listed.
    pub(crate) is_assumed: bool,
    /// The kernel's trust for packets that stay below it.
    pub(crate) within: Tri,
    /// The kernel's trust for packets from or to another host bridge.
    pub(crate) across: Tri,
}

impl<'a> Decisions<'a> {
    /// The decisions on a fabric.
    pub fn new(fabric: &'a Fabric) -> Self {
        let mut on_root_bus = vec![Vec::new(); fabric.bridges.len()];
        let (mut above, mut depths) = (Vec::new(), Vec::new());
        // Parents precede children.
        for (id, function) in fabric.iter() {
            let (bridge, depth) = match function.parent {
                Parent::Bridge(bridge) => {
                    on_root_bus[bridge.0].push(id);
                    (bridge, 1)
                }
                Parent::Function(FunctionId(parent)) => (above[parent], depths[parent] + 1),
            };
            above.push(bridge);
            depths.push(depth);
        }
        let test_devices: Vec<_> = on_root_bus
            .into_iter()
            .map(|functions| first_of_root_bus(fabric, functions.into_iter()))
            .collect();
        let mut machines = HashMap::new();
        let trust = |(index, bridge): (usize, &'a HostBridge)| {
            let count = machines.len();
            let listed =
                |same| bridge_forwards(fabric, BridgeId(index), test_devices[index], same).0;
            BridgeTrust {
                machine: *machines.entry(bridge.machine()).or_insert(count),
                is_assumed: bridge.root_bus == RootBus::Assumed,
                within: listed(true),
                across: listed(false),
            }
        };
        let bridges = fabric.bridges.iter().enumerate().map(trust).collect();
        let cpu = cpu_forwards(fabric).0;
        Self { fabric, test_devices, bridges, cpu, above, depths }
    }

    /// As [`decide`](crate::decide).
    pub fn decide(&self, provider: FunctionId, initiator: FunctionId) -> Reach {
        decide_by(self.fabric, provider, initiator, &|bridge| self.test_devices[bridge.0])
    }

    /// The decision without its reasons.
    pub(crate) fn outcome(&self, provider: FunctionId, initiator: FunctionId) -> MatrixCell {
        let (mut one, mut other) = (provider, initiator);
        let (mut hops, mut redirect) = (0, Tri::No);
        while one != other {
            let depths = (self.depths[one.0], self.depths[other.0]);
            if depths == (1, 1) {
                let bridges = (self.bridge(one), self.bridge(other));
                let trusts = (self.trust(bridges.0), self.trust(bridges.1));
                return self.across_root(trusts, bridges.0 == bridges.1, hops + 2);
            }
            let deeper = if depths.0 >= depths.1 { &mut one } else { &mut other };
            redirect = redirect.max(self.redirects(*deeper));
            hops += 1;
            if let Parent::Function(parent) = self.fabric.function(*deeper).parent {
                *deeper = parent;
            }
        }
        let trust = self.trust(self.bridge(one));
        self.below_root(redirect.max(self.redirects(one)), trust, hops)
    }

    /// The host bridge above a function.
    pub(crate) fn bridge(&self, id: FunctionId) -> BridgeId {
        self.above[id.0]
    }

    /// A host bridge as decisions see it.
    pub(crate) fn trust(&self, bridge: BridgeId) -> BridgeTrust {
        self.bridges[bridge.0]
    }

    /// Returns whether a function redirects peer traffic to the root complex.
    pub(crate) fn redirects(&self, id: FunctionId) -> Tri {
        self.fabric.function(id).acs.redirects().into()
    }

    /// The decision on two functions that meet below the root complex; `redirect`: a function on the way redirects.
    pub(crate) fn below_root(&self, redirect: Tri, trust: BridgeTrust, hops: u32) -> MatrixCell {
        let map = match redirect {
            Tri::No => MapType::BusAddress,
            Tri::Unknown => MapType::Unknown,
            Tri::Yes => forwarded(self.cpu, trust.within),
        };
        MatrixCell { map, distance: (map != MapType::NotSupported).then_some(hops) }
    }

    /// The decision on two functions that meet at the root complex, below one root bus or two.
    pub(crate) fn across_root(
        &self,
        (one, other): (BridgeTrust, BridgeTrust),
        is_one: bool,
        hops: u32,
    ) -> MatrixCell {
        if one.machine != other.machine {
            return MatrixCell { map: MapType::NotSupported, distance: None };
        }
        if one.is_assumed || other.is_assumed {
            return MatrixCell { map: MapType::Unknown, distance: None };
        }
        let listed = if is_one { one.within } else { one.across.min(other.across) };
        let map = forwarded(self.cpu, listed);
        MatrixCell { map, distance: (map != MapType::NotSupported).then_some(hops) }
    }
}
