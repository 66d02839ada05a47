//! The network of a topology and its flows.
//!
//! Leaves out drives and processors beyond their [`Leg`]. One queue of the machine is one input
//! here. Packets of different kinds have buffers of their own, so that a link of several kinds gets
//! a *buffer* resource for each.

mod path;

use std::collections::HashMap;

use peerlane_units::Bytes;

use crate::closed::{Bound, By, Closed, latency, own_bounds};
use crate::media::{MediumSide, Mixed};
use crate::model::{
    FlowSpec, Leg, LinkDirection, LinkIndex, NodeIndex, NodeKind, Op, PathError, PayloadStore,
    ResourceOrigin, TargetMemory, Topology, as_f64, per_nano, picos,
};
use crate::way::{PacketRoute, round_trip, ways};
use crate::work::SharedProcessors;

use super::network::{FlowNetwork, NONE, NetworkFlow, Resource, ResourceVisit};

/// Depth beyond that of any tree (PCI has 256 buses).
const DEEPEST: u32 = 1 << 10;
/// Capacity of a buffer, which only its outputs hold up.
const UNBOUNDED: f64 = 1e12;

/// A network, and the machine behind its resources.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Built {
    /// The network of the flows, in their order.
    pub network: FlowNetwork,
    /// The part of the machine behind each resource.
    pub what: Vec<ResourceOrigin>,
}

impl Built {
    /// The network of flows on a topology, each with its demand on an idle machine.
    ///
    /// # Errors
    /// The flow without a path, and the reason.
    pub(crate) fn new(
        topology: &Topology,
        flows: &[FlowSpec],
        demands: &[f64],
    ) -> Result<Self, (usize, PathError)> {
        let mut build = NetworkBuild::new(topology, Mixed::from_flows(topology, flows));
        build.shared = SharedProcessors::new(topology, flows.iter(), |index, _| demands[index]);
        // Paths are found twice: all of them together would take as much memory as the network.
        for (index, flow) in flows.iter().enumerate() {
            build.note(flow).map_err(|error| (index, error))?;
        }
        build.built.network.flows.reserve_exact(flows.len());
        for (index, (flow, &demand)) in flows.iter().zip(demands).enumerate() {
            build.flow(flow, demand).map_err(|error| (index, error))?;
        }
        Ok(build.built)
    }

    /// The resource of a part of the machine.
    pub(crate) fn find(&self, what: ResourceOrigin) -> Option<usize> {
        self.what.iter().position(|&known| known == what)
    }
}

struct NetworkBuild<'a> {
    topology: &'a Topology,
    /// Drives that are read and written at once.
    mixed: Mixed,
    /// Processors that the flows could saturate.
    shared: SharedProcessors,
    built: Built,
    number: HashMap<ResourceOrigin, u32>,
    /// Kinds of packets on each direction of each link, as bits.
    kinds: HashMap<(LinkIndex, LinkDirection), u8>,
    /// Most payload in outstanding reads of each initiator.
    reads: HashMap<NodeIndex, f64>,
    /// Links above each node up to its root complex.
    depth: Vec<u32>,
}

impl<'a> NetworkBuild<'a> {
    fn new(topology: &'a Topology, mixed: Mixed) -> Self {
        let mut depth = vec![0; topology.nodes().len()];
        // Lower nodes come after upper ones.
        for (index, link) in topology.links().iter().enumerate() {
            let is_above = |link_above: LinkIndex| link_above.0 as usize == index;
            if topology.link_above(link.lower).is_some_and(is_above) {
                depth[link.lower.0 as usize] = depth[link.upper.0 as usize] + 1;
            }
        }
        Self {
            topology,
            mixed,
            shared: SharedProcessors::default(),
            built: Built::default(),
            number: HashMap::new(),
            kinds: HashMap::new(),
            reads: HashMap::new(),
            depth,
        }
    }

    /// Notes the kinds of packets of a flow by link, and its outstanding reads.
    fn note(&mut self, flow: &FlowSpec) -> Result<(), PathError> {
        for (flow, leg) in flow.parts().flat_map(|part| part.legs().map(move |leg| (part, leg))) {
            for way in ways(self.topology, flow, leg)? {
                for step in &way.steps {
                    let kinds = self.kinds.entry((step.link, step.direction)).or_default();
                    *kinds |= 1 << way.kind as u8;
                }
            }
            if leg.op == Op::Read && !flow.is_own(leg) {
                let most = as_f64(flow.request) * f64::from(flow.depth);
                *self.reads.entry(leg.initiator).or_default() += most;
            }
        }
        Ok(())
    }

    fn resource(&mut self, what: ResourceOrigin, capacity: f64) -> u32 {
        if let Some(&number) = self.number.get(&what) {
            return number;
        }
        let number = u32::try_from(self.built.what.len()).unwrap_or(NONE);
        let rank = self.rank(what);
        self.built.what.push(what);
        self.built.network.resources.push(Resource { capacity, rank });
        self.number.insert(what, number);
        number
    }

    /// Up-links deepest first, root complexes, links between sockets, down-links, memories. A buffer
    /// stands before its link.
    fn rank(&self, what: ResourceOrigin) -> u32 {
        let link_rank = |link: LinkIndex, direction| {
            let lower = self.topology.link(link).lower;
            let depth = self.depth[lower.0 as usize].min(DEEPEST);
            match direction {
                _ if self.topology.link_above(lower) != Some(link) => {
                    4 * DEEPEST + 4 + 2 * link.0.min(DEEPEST)
                }
                LinkDirection::Up => 2 + 2 * (DEEPEST - depth),
                LinkDirection::Down => 8 * DEEPEST + 2 * depth,
            }
        };
        match what {
            ResourceOrigin::Medium(..)
            | ResourceOrigin::Tags(_)
            | ResourceOrigin::Processors(_)
            | ResourceOrigin::Stage(_) => 0,
            ResourceOrigin::Link(link, direction) => link_rank(link, direction),
            ResourceOrigin::Buffer(link, direction, ..) => link_rank(link, direction) - 1,
            ResourceOrigin::Answers(..) => 0,
            ResourceOrigin::PeersBuffer(..) => 3 * DEEPEST,
            ResourceOrigin::Peers(..) => 3 * DEEPEST + 1,
            ResourceOrigin::Walkers(_) => 3 * DEEPEST + 2,
            ResourceOrigin::Copies(_) => 16 * DEEPEST - 1,
            ResourceOrigin::Memory(..) | ResourceOrigin::Wire(..) => 16 * DEEPEST,
        }
    }

    fn flow(&mut self, flow: &FlowSpec, demand: f64) -> Result<(), PathError> {
        let mut class = NetworkFlow { demand, ..NetworkFlow::default() };
        for part in flow.parts() {
            self.part(part, &mut class)?;
        }
        // Workloads have up to a hundred thousand flows.
        class.legs.shrink_to_fit();
        class.legs.iter_mut().for_each(Vec::shrink_to_fit);
        class.priority.shrink_to_fit();
        self.built.network.flows.push(class);
        Ok(())
    }

    /// Adds the legs and the work of a flow in one machine.
    fn part(&mut self, flow: &FlowSpec, class: &mut NetworkFlow) -> Result<(), PathError> {
        for leg in flow.legs() {
            let ways = ways(self.topology, flow, leg)?;
            for (resource, cost) in self.media(leg, self.mixed.side(self.topology, leg)) {
                class.legs.push(vec![ResourceVisit { resource, port: NONE, quantum: cost, cost }]);
            }
            if !flow.is_own(leg) {
                self.own_memory(leg, class);
            }
            let tags = class.legs.len();
            self.initiator(flow, leg, &ways, class);
            let under_way = class.legs.len();
            for way in &ways {
                self.way(flow, leg, way, class);
            }
            if tags < under_way {
                class.tags.push((tags, under_way..class.legs.len()));
            }
        }
        if let Some(stage) = flow.stage {
            let resource = self.resource(ResourceOrigin::Stage(stage.at), 1.0);
            let cost = picos(stage.busy.0) / as_f64(flow.request);
            class.legs.push(vec![ResourceVisit { resource, port: NONE, quantum: cost, cost }]);
        }
        self.processors(flow, class);
        self.copies(flow, class);
        Ok(())
    }

    /// Time of processors for a flow; threads take equal turns.
    fn processors(&mut self, flow: &FlowSpec, class: &mut NetworkFlow) {
        let Some(work) = &flow.work else { return };
        if let Some(cores) = self.shared.cores(work) {
            let resource = self.resource(ResourceOrigin::Processors(work.at), cores.into());
            let cost = work.per_byte(flow.request);
            class.legs.push(vec![ResourceVisit { resource, port: NONE, quantum: 1.0, cost }]);
        }
    }

    /// Load of processor copies on host memory: one input next to the reads and the writes of devices.
    fn copies(&mut self, flow: &FlowSpec, class: &mut NetworkFlow) {
        let Some(work) = &flow.work else { return };
        let time = work.memory_time(self.topology).filter(|_| work.traffic > Bytes::ZERO);
        if let Some(turn) = time {
            let copies = self.resource(ResourceOrigin::Copies(work.at), UNBOUNDED);
            let memory = self.resource(ResourceOrigin::Memory(work.at, None), 1.0);
            let cost = turn * as_f64(work.traffic) / as_f64(flow.request);
            let hop = |resource, port, cost| ResourceVisit { resource, port, quantum: turn, cost };
            class.legs.push(vec![hop(copies, NONE, 1.0), hop(memory, copies, cost)]);
        }
    }

    /// Load of a leg on the memory of its initiator, where that is its source or target: one input for all such legs. Both
    /// directions of a wire have nothing in common.
    fn own_memory(&mut self, leg: &Leg, class: &mut NetworkFlow) {
        if leg.store != PayloadStore::Memory {
            return;
        }
        if let Some((memory, cost)) = self.memory(leg.initiator, leg.op.at_initiator()) {
            if self.topology.node(leg.initiator).kind.is_network() {
                class.legs.push(vec![ResourceVisit {
                    resource: memory,
                    port: NONE,
                    quantum: cost,
                    cost,
                }]);
                return;
            }
            let own = self.resource(ResourceOrigin::Copies(leg.initiator), UNBOUNDED);
            let hop = |resource, port, cost| ResourceVisit { resource, port, quantum: cost, cost };
            class.legs.push(vec![hop(own, NONE, 1.0), hop(memory, own, cost)]);
        }
    }

    /// Tags of the initiator, where outstanding reads could use them up (Little's law).
    fn initiator(
        &mut self,
        flow: &FlowSpec,
        leg: &Leg,
        ways: &[PacketRoute],
        class: &mut NetworkFlow,
    ) {
        if let NodeKind::Endpoint(endpoint) = &self.topology.node(leg.initiator).kind {
            let in_flight = f64::from(endpoint.tags) * as_f64(endpoint.mrrs.min(flow.request));
            if leg.op == Op::Read
                && !flow.is_own(leg)
                && self.reads.get(&leg.initiator).is_some_and(|&most| most > in_flight)
            {
                let tags = self.resource(ResourceOrigin::Tags(leg.initiator), in_flight);
                let time = round_trip(self.topology, flow.memory, ways);
                class.legs.push(vec![ResourceVisit {
                    resource: tags,
                    port: NONE,
                    quantum: time,
                    cost: time,
                }]);
            }
        }
    }

    /// Load on a medium for each byte: shares of time where it is read and written at once, and of each direction.
    fn media(&mut self, leg: &Leg, side: Option<MediumSide>) -> Vec<(u32, f64)> {
        let mut media = Vec::new();
        let shares = self.mixed.of_drive(leg.initiator).zip(leg.medium_rate(self.topology));
        if let Some((capacity, rate)) = shares {
            let resource = self.resource(ResourceOrigin::Medium(leg.initiator, None), capacity);
            media.push((resource, 1.0 / per_nano(rate.0)));
        }
        if let Some(MediumSide { rate, own, .. }) = side {
            let resource = self
                .resource(ResourceOrigin::Medium(leg.initiator, Some(leg.op)), per_nano(rate.0));
            media.push((resource, per_nano(rate.0) / per_nano(own.0)));
        }
        media
    }

    fn memory(&mut self, at: NodeIndex, op: Op) -> Option<(u32, f64)> {
        let kind = &self.topology.node(at).kind;
        let memory: TargetMemory = *kind.memory()?;
        let rate = per_nano(memory.rate(op)?.0);
        if kind.is_network() {
            Some((self.resource(ResourceOrigin::Wire(at, op), rate), 1.0))
        } else if memory.is_shared {
            // Shares of time: reads and writes together take no more than all of it.
            Some((self.resource(ResourceOrigin::Memory(at, None), 1.0), 1.0 / rate))
        } else {
            Some((self.resource(ResourceOrigin::Memory(at, Some(op)), rate), 1.0))
        }
    }
}

impl Closed {
    /// The bounds of a flow: the capacity of each resource over the cost of a byte (`R p / (p + 24)` of a link,
    /// `tags MRRS / round trip` and so on: `docs/model.md`), and its own limits.
    ///
    /// # Errors
    /// When it has no path.
    pub(crate) fn for_flow(topology: &Topology, flow: &FlowSpec) -> Result<Self, PathError> {
        let built =
            Built::new(topology, std::slice::from_ref(flow), &[1.0]).map_err(|(_, error)| error)?;
        let class = &built.network.flows[0];
        let mut cost = vec![0.0; built.what.len()];
        for hop in class.legs.iter().flatten() {
            cost[hop.resource as usize] += hop.cost;
        }
        for &(resource, back) in &class.priority {
            cost[resource as usize] += back;
        }
        let resources = built.network.resources.iter().zip(cost).zip(&built.what);
        let mut bounds: Vec<Bound> = resources
            .filter(|((resource, cost), _)| *cost > 0.0 && resource.capacity < 1e9)
            .map(|((resource, cost), &what)| Bound {
                by: By::Resource(what),
                rate: resource.capacity / cost,
            })
            .collect();
        let latency = latency(topology, flow)?;
        bounds.extend(own_bounds(flow, latency));
        let others = bounds.iter().filter(|bound| bound.by != By::Depth);
        let most = others.map(|bound| bound.rate).fold(f64::INFINITY, f64::min);
        bounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok(Self { bounds, latency, knee: latency * most / as_f64(flow.request) })
    }
}
