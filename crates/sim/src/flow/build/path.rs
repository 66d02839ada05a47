//! The path of packets through links, buffers and root complexes.

use super::{Built, NetworkBuild, UNBOUNDED};
use crate::flow::network::{NONE, NetworkFlow, ResourceVisit};
use crate::model::{
    FlowSpec, Leg, LinkIndex, NodeIndex, NodeKind, Op, PacketKind, ResourceOrigin, Topology,
    as_f64, per_nano, picos,
};
use crate::way::{PacketRoute, RouteLink, rate_of};

/// Relative excess of the turns of a relay's second stage at a memory: slots are empty at first, so of two equally
/// fast stages the second waits for the first, and rounding must not decide it.
const SECOND_STAGE: f64 = 2e-2;

impl NetworkBuild<'_> {
    /// Adds the hops of one kind of packets of a leg.
    pub(super) fn way(
        &mut self,
        flow: &FlowSpec,
        leg: &Leg,
        way: &PacketRoute,
        class: &mut NetworkFlow,
    ) {
        let mut chain = Chain { hops: Vec::with_capacity(way.steps.len() + 1), port: NONE };
        if way.kind == PacketKind::Completion {
            let answers =
                self.resource(ResourceOrigin::Answers(flow.memory, leg.initiator), UNBOUNDED);
            chain.push(class, &self.built, (answers, 1.0, 1.0));
            chain.port = answers;
        }
        for (position, step) in way.steps.iter().enumerate() {
            if let Some(&(_, root)) = way.roots.iter().find(|&&(before, _)| before == position) {
                self.peers(root, way, step, class, &mut chain);
            }
            let rate = rate_of(self.topology, step.link);
            let link = self.resource(ResourceOrigin::Link(step.link, step.direction), rate);
            let buffer = self.buffer(way, position);
            if let Some(buffer) = buffer {
                chain.push(class, &self.built, (buffer, way.payload, 1.0));
            }
            // On a chip, requests and data do not share wires.
            if step.cost > 0.0 {
                let turn = step.packet * self.weight(way, position);
                chain.push(class, &self.built, (link, turn, step.cost));
                chain.port = link;
            }
            chain.port = buffer.unwrap_or(chain.port);
            self.walkers(way, position, class);
            let other = (step.link, step.direction.reverse());
            if step.back > 0.0 && self.kinds.contains_key(&other) {
                class
                    .priority
                    .push((self.resource(ResourceOrigin::Link(other.0, other.1), rate), step.back));
            }
        }
        let op = match way.kind {
            PacketKind::Posted => Some(Op::Write),
            PacketKind::NonPosted => Some(Op::Read),
            PacketKind::Completion => None,
        };
        if let Some((resource, cost)) = op.and_then(|op| self.memory(flow.memory, op)) {
            // Turns of equal bytes.
            let is_second = flow.second.is_some() && leg.op == Op::Read;
            let has_both = is_second && !flow.is_own(&flow.first);
            let turn = if has_both { cost * (1.0 + SECOND_STAGE) } else { cost };
            chain.push(class, &self.built, (resource, turn, cost));
        }
        class.legs.push(chain.hops);
    }

    /// Weight of the port of the step before at the sender of a step (weighted round robin).
    fn weight(&self, way: &PacketRoute, position: usize) -> f64 {
        let Some(before) = position.checked_sub(1).map(|before| way.steps[before].link) else {
            return 1.0;
        };
        let step = &way.steps[position];
        let sender = self.topology.sender(step.link, step.direction);
        match &self.topology.node(sender).kind {
            NodeKind::Switch(switch) => {
                let named = switch.weights.iter().find(|(link, _)| *link == before);
                named.map_or(1.0, |&(_, weight)| f64::from(weight.max(1)))
            }
            _ => 1.0,
        }
    }

    /// The buffer behind a link as a resource of its own: where kinds of packets share the link, outputs have queues of
    /// their own, or credits are few. Elsewhere the link itself is held up.
    fn buffer(&mut self, way: &PacketRoute, position: usize) -> Option<u32> {
        let step = &way.steps[position];
        let next = way.steps.get(position + 1).map(|step| step.link);
        let kinds = self.kinds.get(&(step.link, step.direction)).copied().unwrap_or_default();
        let is_shared = self.is_shared(way, position);
        let credits = credit_rate(self.topology, step, way, next);
        let is_tight = credits < rate_of(self.topology, step.link) / step.cost;
        if is_shared && kinds.count_ones() == 1 && !is_tight {
            return None;
        }
        let next = next.filter(|_| !is_shared);
        let what = ResourceOrigin::Buffer(step.link, step.direction, way.kind, next);
        Some(self.resource(what, credits.min(UNBOUNDED)))
    }

    /// True if packets for several outputs share one queue behind a step. Completions of host memory wait in the memory
    /// controller, each output for itself.
    fn is_shared(&self, way: &PacketRoute, position: usize) -> bool {
        let step = &way.steps[position];
        let lower = self.topology.link(step.link).lower;
        let is_answer = way.kind == PacketKind::Completion && position == 0;
        if is_answer && matches!(self.topology.node(lower).kind, NodeKind::HostMemory(_)) {
            return false;
        }
        let at = self.topology.receiver(step.link, step.direction);
        self.topology.node(at).kind.has_shared_queue()
    }

    /// Peer-to-peer forwarding of a root complex, with one queue for each kind of packet.
    fn peers(
        &mut self,
        at: NodeIndex,
        way: &PacketRoute,
        next: &RouteLink,
        class: &mut NetworkFlow,
        chain: &mut Chain,
    ) {
        let NodeKind::RootComplex(root) = &self.topology.node(at).kind else { return };
        let cap = match way.kind {
            PacketKind::Posted => root.p2p_write,
            PacketKind::Completion => root.p2p_read,
            PacketKind::NonPosted => None,
        };
        let Some(rate) = cap else { return };
        let is_shared = root.has_shared_queue;
        let peers = self.resource(ResourceOrigin::Peers(at, way.kind), per_nano(rate.0));
        let mut port = peers;
        if !is_shared {
            port = self.resource(ResourceOrigin::PeersBuffer(at, way.kind, next.link), UNBOUNDED);
            chain.push(class, &self.built, (port, way.payload, 1.0));
        }
        chain.push(class, &self.built, (peers, way.payload, 1.0));
        chain.port = port;
    }

    /// Page walks of the IOMMU behind a step; packets wait for walkers, not for each other.
    fn walkers(&mut self, way: &PacketRoute, position: usize, class: &mut NetworkFlow) {
        let step = &way.steps[position];
        let at = self.topology.receiver(step.link, step.direction);
        let NodeKind::RootComplex(root) = &self.topology.node(at).kind else { return };
        let Some(iommu) = root.iommu.filter(|iommu| iommu.miss_per_mille > 0) else { return };
        if way.kind == PacketKind::Completion || position + 1 == way.steps.len() {
            return;
        }
        let walks = f64::from(iommu.walkers.max(1)) / picos(iommu.walk.0).max(1e-3);
        let misses = f64::from(iommu.miss_per_mille) / 1000.0;
        let cost = misses / as_f64(iommu.bytes_per_translation).max(1.0);
        let resource = self.resource(ResourceOrigin::Walkers(at), walks);
        class.legs.push(vec![ResourceVisit { resource, port: NONE, quantum: 1.0, cost }]);
    }
}

/// A leg under construction.
struct Chain {
    hops: Vec<ResourceVisit>,
    /// The buffer in front of the next hop.
    port: u32,
}

impl Chain {
    /// Adds a visit: resource, quantum, cost. One against the order of sweeps begins a new leg, which waits for the first
    /// without blocking anybody.
    fn push(&mut self, class: &mut NetworkFlow, built: &Built, visit: (u32, f64, f64)) {
        let (resource, quantum, cost) = visit;
        let rank = |resource: u32| built.network.resources[resource as usize].rank;
        if self.hops.last().is_some_and(|last| rank(last.resource) >= rank(resource)) {
            class.legs.push(std::mem::take(&mut self.hops));
        }
        let is_known = self.hops.iter().any(|before| before.resource == self.port);
        let port = if is_known { self.port } else { NONE };
        self.hops.push(ResourceVisit { resource, port, quantum, cost });
    }
}

/// Payload a nanosecond that credits allow: the room of the receiver in each round trip of credits (PCIe base
/// specification, "Flow control"). Initiators accept every completion.
fn credit_rate(
    topology: &Topology,
    step: &RouteLink,
    way: &PacketRoute,
    next: Option<LinkIndex>,
) -> f64 {
    if way.kind == PacketKind::Completion && next.is_none() {
        return f64::INFINITY;
    }
    let wire = &topology.link(step.link).wire;
    // Requests carry no payload.
    let units = if way.kind == PacketKind::NonPosted { u32::MAX } else { wire.credits.data };
    let room = (f64::from(wire.credits.headers) * way.payload).min(16.0 * f64::from(units));
    let node = topology.node(topology.receiver(step.link, step.direction));
    let around = 2.0 * picos(wire.propagation.0) + step.packet / rate_of(topology, step.link);
    let onwards = next
        .map_or(0.0, |next| picos(node.kind.latency().0) + step.packet / rate_of(topology, next));
    room / (around + onwards).max(1e-3)
}
