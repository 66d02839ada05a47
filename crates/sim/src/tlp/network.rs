//! The network of a topology and its flows: a route of hops for each leg.
//!
//! A leg has one row of hops, out and, for reads, back; a train is at one of them. `hops` adds the hops of a route,
//! `stages` those inside nodes. Leaves out everything that no flow uses, except the two ports of each link.

use std::collections::BTreeMap;

use super::credits::CreditPool;
use super::hops::Lanes;
use super::memory::MemoryState;
use super::port::{COMPLETION, Fifo, Hop, HopEnd, NONE, POSTED, Port, REQUEST};
use super::stages::Stages;
use super::tags::Tags;
use super::translation::Walkers;
use super::{DEPTH_MAX, REQUEST_MAX, TlpError};
use crate::media::Mixed;
use crate::model::{
    FlowSpec, Hop as Crossing, Leg, LinkDirection, LinkIndex, ModelEndpoint, NodeIndex, NodeKind,
    Op, PathError, PayloadStore, TargetMemory, Topology, egress,
};

/// Packets of a train, at most.
const LONGEST_TRAIN: u32 = 16;
/// Trains that every buffer has room for.
const TRAINS_IN_BUFFER: u32 = 8;

/// The route of a leg.
#[derive(Debug, Clone)]
pub(super) struct LegRoute {
    /// The operation; [`Op::Write`] for a leg that crosses no link, which gets no answer.
    pub(super) op: Op,
    /// Its queue at the initiator.
    pub(super) fifo: u32,
    /// Index of its first hop.
    pub(super) first: u32,
    /// The memory of the initiator that it posts from or fetches into; [`NONE`] where that takes no time.
    pub(super) own_memory: u32,
    /// Tags of the initiator.
    pub(super) tags: u32,
    /// log2 of the bytes of a read request.
    pub(super) request_shift: u32,
    /// Payload of a packet with data where it begins: writes, or completions.
    pub(super) unit: u32,
    /// Queue of its completions at the memory; [`NONE`] for writes.
    pub(super) answers: u32,
}

/// All parts that the engine moves trains through.
#[derive(Debug, Clone, Default)]
pub(super) struct PacketNetwork {
    pub(super) ports: Vec<Port>,
    pub(super) fifos: Vec<Fifo>,
    pub(super) pools: Vec<CreditPool>,
    pub(super) hops: Vec<Hop>,
    pub(super) memories: Vec<MemoryState>,
    /// The memory of each node, or one for each direction where they do not share.
    pub(super) memory_of: BTreeMap<(NodeIndex, Option<Op>), u32>,
    pub(super) iommus: Vec<Walkers>,
    pub(super) tags: Vec<Tags>,
    /// By leg.
    pub(super) routes: Vec<LegRoute>,
    /// Packets of the longest train; every buffer holds eight such trains.
    pub(super) longest_train: u32,
}

/// Returns the index of the part with a key, a new one unless it is known.
pub(super) fn intern<K: Ord, P>(
    known: &mut BTreeMap<K, u32>,
    parts: &mut Vec<P>,
    key: K,
    new: impl FnOnce() -> P,
) -> u32 {
    *known.entry(key).or_insert_with(|| push(parts, new()))
}

/// Appends a part. Returns its index.
pub(super) fn push<P>(parts: &mut Vec<P>, part: P) -> u32 {
    parts.push(part);
    index(parts.len() - 1)
}

fn index(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 parts")
}

/// A network under construction.
pub(super) struct PacketNetworkBuilder<'a> {
    pub(super) topology: &'a Topology,
    pub(super) mixed: Mixed,
    pub(super) network: PacketNetwork,
    pub(super) lanes: Lanes,
    pub(super) stages: Stages,
    tags_of: BTreeMap<NodeIndex, u32>,
    iommu_of: BTreeMap<NodeIndex, u32>,
    answers: BTreeMap<(NodeIndex, NodeIndex), u32>,
}

/// Builds the network of flows; legs are numbered in the order of flows.
pub(super) fn build(topology: &Topology, flows: &[FlowSpec]) -> Result<PacketNetwork, TlpError> {
    let mut builder = PacketNetworkBuilder {
        topology,
        mixed: Mixed::from_flows(topology, flows),
        network: PacketNetwork { longest_train: LONGEST_TRAIN, ..PacketNetwork::default() },
        lanes: Lanes::new(),
        stages: Stages::new(),
        tags_of: BTreeMap::new(),
        iommu_of: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    builder.links(flows);
    for flow in flows {
        let is_request = (1..=u64::from(REQUEST_MAX)).contains(&flow.request.0);
        if !is_request || !(1..=DEPTH_MAX).contains(&flow.depth) {
            return Err(TlpError::Commands(flow.name.clone()));
        }
        for leg in flow.legs() {
            builder.leg(flow, leg)?;
        }
        // Copies may use a memory that no leg reaches.
        if let Some(work) = flow.work.as_ref().filter(|work| work.traffic.0 > 0) {
            if let Some(memory) = topology.node(work.at).kind.memory() {
                builder.memory(work.at, memory, Op::Write);
            }
        }
    }
    Ok(builder.network)
}

impl PacketNetworkBuilder<'_> {
    /// Adds both ports of each link: port `2 n` sends up link `n`, port `2 n + 1` down.
    fn links(&mut self, flows: &[FlowSpec]) {
        let topology = self.topology;
        let egress = egress(topology, flows);
        for (number, link) in (0u32..).zip(topology.links()) {
            for (side, direction) in [(0, LinkDirection::Up), (1, LinkDirection::Down)] {
                let wire = &link.wire;
                let dllp = u32::try_from(wire.dllp_bytes_per_mille()).unwrap_or(u32::MAX);
                let mut port = Port::new(wire.picos_per_kib, 2 * number + (1 - side), dllp);
                let sender = topology.sender(LinkIndex(number), direction);
                if topology.node(sender).kind.has_egress() {
                    port.ahead = (egress.0 * wire.picos_per_kib) >> 10;
                }
                self.network.ports.push(port);
            }
        }
    }

    fn leg(&mut self, flow: &FlowSpec, leg: &Leg) -> Result<(), TlpError> {
        let topology = self.topology;
        let NodeKind::Endpoint(initiator) = &topology.node(leg.initiator).kind else {
            let node = topology.node(leg.initiator).name.clone();
            return Err(TlpError::NoInitiator(flow.name.clone(), node));
        };
        let Some(memory) = topology.node(flow.memory).kind.memory() else {
            let node = topology.node(flow.memory).name.clone();
            return Err(TlpError::NoMemory(flow.name.clone(), node));
        };
        let route = if flow.is_own(leg) {
            self.own_route(initiator, leg)
        } else {
            let route = self.route(initiator, (flow.memory, memory), leg);
            route.map_err(|source| TlpError::Path { flow: flow.name.clone(), source })?
        };
        self.network.routes.push(route);
        Ok(())
    }

    /// Adds the hops of a leg to a memory and, for reads, back.
    fn route(
        &mut self,
        initiator: &ModelEndpoint,
        (target, memory): (NodeIndex, &TargetMemory),
        leg: &Leg,
    ) -> Result<LegRoute, PathError> {
        let topology = self.topology;
        let path = topology.path(leg.initiator, target)?;
        let memory_end = HopEnd::Memory(self.memory(target, memory, leg.op));
        let own_memory = self.own_memory(initiator, leg);
        let number = index(self.network.routes.len());
        let fifo = push(&mut self.network.fifos, Fifo::new(1, number));
        let new = || Tags::new(initiator.tags.max(1));
        let tags = intern(&mut self.tags_of, &mut self.network.tags, leg.initiator, new);
        let first = index(self.network.hops.len());
        let request_shift = power_of_two(initiator.mrrs.0);
        let op = leg.op;
        let mut route =
            LegRoute { op, fifo, first, own_memory, tags, request_shift, unit: 0, answers: NONE };
        match op {
            Op::Write => {
                let shift = power_of_two(initiator.mps.0.min(topology.mps(&path).0));
                let mut steps = self.medium(leg, shift);
                steps.extend(self.steps(&path, shift, POSTED));
                self.hops(&steps, POSTED, memory_end, number);
                route.unit = 1 << shift;
            }
            Op::Read => {
                self.check_reads(&path)?;
                let mut steps = self.medium(leg, request_shift);
                let stages = steps.len();
                steps.extend(self.steps(&path, request_shift, REQUEST));
                self.hops(&steps, REQUEST, memory_end, number);
                // Requests take tags as they leave for the first link, where each leg has a queue behind the medium.
                let last_stage = self.network.hops[first as usize..][..stages].last();
                let leaves_from = last_stage.map_or(fifo, |stage| stage.lane.fifo);
                self.network.fifos[leaves_from as usize].tags = tags;
                let back = topology.path(target, leg.initiator)?;
                let shift = power_of_two(memory.completion.0.min(topology.mps(&back).0));
                let steps = self.steps(&back, shift, COMPLETION);
                self.hops(&steps, COMPLETION, HopEnd::Initiator, number);
                route.unit = 1 << shift;
                let (key, new) = ((target, leg.initiator), || Fifo::new(1, NONE));
                route.answers = intern(&mut self.answers, &mut self.network.fifos, key, new);
                self.limit_train(self.network.tags[tags as usize].full);
            }
        }
        Ok(route)
    }

    /// Adds the hops of a drive between its medium and slots in its own memory: it waits for the medium only.
    fn own_route(&mut self, initiator: &ModelEndpoint, leg: &Leg) -> LegRoute {
        // As many bytes at a time as its other legs request from the medium.
        let unit = power_of_two(match leg.op {
            Op::Write => initiator.mps.0,
            Op::Read => initiator.mrrs.0,
        });
        let number = index(self.network.routes.len());
        let fifo = push(&mut self.network.fifos, Fifo::new(1, number));
        let first = index(self.network.hops.len());
        let mut steps = self.medium(leg, unit);
        if steps.is_empty() {
            steps.push(self.free_stage(leg.initiator, unit));
        }
        self.hops(&steps, POSTED, HopEnd::Initiator, number);
        let (op, unit, [own_memory, tags, answers]) = (Op::Write, 1 << unit, [NONE; 3]);
        LegRoute { op, fifo, first, own_memory, tags, request_shift: 0, unit, answers }
    }

    /// Refuses a path over a root complex that forwards no reads between peers.
    fn check_reads(&self, path: &[Crossing]) -> Result<(), PathError> {
        for root in self.topology.peer_roots(path) {
            let node = self.topology.node(root);
            if matches!(&node.kind, NodeKind::RootComplex(root) if !root.forwards_reads) {
                return Err(PathError::ReadsNotForwarded(node.name.clone()));
            }
        }
        Ok(())
    }

    /// Returns the memory of a node for an operation.
    fn memory(&mut self, node: NodeIndex, memory: &TargetMemory, op: Op) -> u32 {
        let key = (node, (!memory.is_shared).then_some(op));
        let PacketNetwork { memory_of, memories, .. } = &mut self.network;
        intern(memory_of, memories, key, || MemoryState::new(memory))
    }

    /// Returns the memory of its initiator that a leg posts from or fetches into, in turns with other clients; [`NONE`]
    /// without one, or where it takes no time.
    fn own_memory(&mut self, initiator: &ModelEndpoint, leg: &Leg) -> u32 {
        let op = leg.op.at_initiator();
        if leg.store != PayloadStore::Memory || initiator.memory.rate(op).is_none() {
            return NONE;
        }
        let memory = self.memory(leg.initiator, &initiator.memory, op);
        self.network.memories[memory as usize].takes_turns = true;
        memory
    }

    /// Returns the IOMMU of a root complex; [`NONE`] without one that misses.
    pub(super) fn iommu(&mut self, node: NodeIndex) -> u32 {
        let NodeKind::RootComplex(root) = &self.topology.node(node).kind else { return NONE };
        let Some(iommu) = root.iommu.filter(|iommu| iommu.miss_per_mille > 0) else { return NONE };
        let new = || Walkers::new(&iommu);
        intern(&mut self.iommu_of, &mut self.network.iommus, node, new)
    }

    /// Limits trains to an eighth of a buffer of so many packets.
    pub(super) fn limit_train(&mut self, packets: u32) {
        let longest = (packets / TRAINS_IN_BUFFER).max(1);
        self.network.longest_train = self.network.longest_train.min(longest);
    }
}

/// log2 of the greatest power of two that is not above `bytes`, between 16 bytes and 4 KiB: sizes of
/// packets are powers of two (PCIe base specification, "Device control register").
pub(super) fn power_of_two(bytes: u64) -> u32 {
    bytes.clamp(16, 4096).ilog2()
}
