//! A topology and its flows, made into the parts of the engine.
//!
//! Leaves out everything that no flow uses but the two ports of each link. The one thing to know: for
//! each leg there is a row of hops, out and, for reads, back; a train is at one of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use peerlane_units::Bytes;

use crate::media::{Mixed, Use};
use crate::model::{
    Credits, Direction, Endpoint, FlowSpec, Hop as Crossing, Leg, LinkIndex, Memory, NodeIndex,
    NodeKind, Op, PathError, Picos, Store, Topology, egress, picos_per_kib,
};

use super::parts::{
    COMPLETION, End, Fifo, Hop, IommuState, Lane, MemoryState, NONE, POSTED, Pool, Port, PortCount,
    REQUEST, SIDES, Tags, Turns,
};
use super::threads::Processors;
use super::{MOST_DEPTH, MOST_REQUEST, TlpError};

/// Receivers with fewer headers than this are never modelled with trains.
const BIGGEST_TRAIN: u32 = 16;
/// The stage of a device that has no medium, beside those of `stages`.
const NO_MEDIUM: u8 = 4;

/// A leg as the engine needs it.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// [`Op::Write`] of what crosses no link, since nobody answers.
    pub(super) op: Op,
    /// Its queue at the initiator.
    pub(super) fifo: u32,
    /// Position of its first hop.
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

/// Everything that the engine moves trains through.
#[derive(Debug, Clone, Default)]
pub(super) struct Network {
    pub(super) ports: Vec<Port>,
    pub(super) fifos: Vec<Fifo>,
    pub(super) pools: Vec<Pool>,
    pub(super) hops: Vec<Hop>,
    pub(super) memories: Vec<MemoryState>,
    /// The memory of each node that one is used of, or the direction of it where each has all of it to itself.
    pub(super) memory_of: BTreeMap<(NodeIndex, Option<Op>), u32>,
    pub(super) iommus: Vec<IommuState>,
    /// Those that threads take turns on, and the memory beside each.
    pub(super) processors: Vec<Processors>,
    pub(super) processors_of: BTreeMap<NodeIndex, u32>,
    pub(super) tags: Vec<Tags>,
    /// By leg.
    pub(super) routes: Vec<Route>,
    /// Packets in the longest train that leaves room for eight in every buffer.
    pub(super) longest_train: u32,
    /// Whether a draw decides which queue a command takes.
    pub(super) is_random: bool,
}

impl Network {
    /// The processors beside a memory.
    pub(super) fn processors(&mut self, at: NodeIndex, cores: u32) -> u32 {
        let next = position(self.processors.len());
        let index = *self.processors_of.entry(at).or_insert(next);
        if index == next {
            self.processors.push(Processors::new(cores));
        }
        index
    }

    /// Bytes that it takes.
    pub(super) fn footprint(&self) -> usize {
        self.ports.capacity() * size_of::<Port>()
            + self.fifos.capacity() * size_of::<Fifo>()
            + self.pools.capacity() * size_of::<Pool>()
            + self.hops.capacity() * size_of::<Hop>()
            + self.memories.capacity() * size_of::<MemoryState>()
            + self.memories.iter().map(MemoryState::footprint).sum::<usize>()
            + self.tags.capacity() * size_of::<Tags>()
            + self.routes.capacity() * size_of::<Route>()
    }
}

/// A port on a path before its credits are known.
pub(super) struct Step {
    pub(super) port: u32,
    pub(super) picos_per_kib: u64,
    pub(super) stage: bool,
    pub(super) receiver: NodeIndex,
    pub(super) unit: u32,
    pub(super) overhead: u32,
    pub(super) propagation: Picos,
    pub(super) credits: Credits,
}

/// Where lanes are told apart: port in, class, and port out (or leg) where there is one each.
type LaneKey = (u32, u8, u32);

pub(super) struct Build<'a> {
    pub(super) topology: &'a Topology,
    pub(super) mixed: Mixed,
    pub(super) network: Network,
    lanes: BTreeMap<LaneKey, Lane>,
    tags_of: BTreeMap<NodeIndex, u32>,
    iommu_of: BTreeMap<NodeIndex, u32>,
    /// Stages by node and what they limit.
    pub(super) stages: BTreeMap<(NodeIndex, u8), u32>,
    answers: BTreeMap<(NodeIndex, NodeIndex), u32>,
}

/// Makes the parts for these flows; legs are numbered in the order of flows.
pub(super) fn build(topology: &Topology, flows: &[FlowSpec]) -> Result<Network, TlpError> {
    let mut build = Build {
        topology,
        mixed: Mixed::from_flows(topology, flows),
        network: Network { longest_train: BIGGEST_TRAIN, ..Network::default() },
        lanes: BTreeMap::new(),
        tags_of: BTreeMap::new(),
        iommu_of: BTreeMap::new(),
        stages: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    build.links(egress(topology, flows));
    for flow in flows {
        let is_request = (1..=u64::from(MOST_REQUEST)).contains(&flow.request.0);
        if !is_request || !(1..=MOST_DEPTH).contains(&flow.depth) {
            return Err(TlpError::Commands(flow.name.clone()));
        }
        for (leg, used) in flow.legs().zip(flow.used_by_legs()) {
            build.leg(flow, leg, used)?;
        }
        // Copies use a memory to which no leg of theirs may go.
        if let Some(work) = flow.work.as_ref().filter(|work| work.traffic.0 > 0) {
            if let Some(memory) = topology.node(work.at).kind.memory() {
                build.memory(work.at, memory, Op::Write);
            }
        }
    }
    // What takes most of a network, and grew by doubling.
    build.network.hops.shrink_to_fit();
    Ok(build.network)
}

impl Build<'_> {
    fn links(&mut self, egress: Bytes) {
        let topology = self.topology;
        for (position, link) in (0u32..).zip(topology.links()) {
            for (side, direction) in [(0, Direction::Up), (1, Direction::Down)] {
                let wire = &link.wire;
                let dllp = u32::try_from(wire.dllp_bytes_per_mille()).unwrap_or(u32::MAX);
                let port = self.port(wire.picos_per_kib, 2 * position + (1 - side), dllp);
                let sender = topology.sender(LinkIndex(position), direction);
                if topology.node(sender).kind.has_egress() {
                    let ahead = (egress.0 * wire.picos_per_kib) >> 10;
                    self.network.ports[port as usize].ahead = ahead;
                }
            }
        }
    }

    pub(super) fn port(&mut self, picos_per_kib: u64, opposite: u32, dllp_per_mille: u32) -> u32 {
        let turns = Turns { head: NONE, tail: NONE };
        self.network.ports.push(Port {
            picos_per_kib,
            free_at: 0,
            ahead: 0,
            is_awaited: false,
            opposite,
            dllp_per_mille,
            debt: 0,
            turns: [turns; 3],
            next_turn: 0,
            is_by_bytes: false,
            waiting: 0,
            counted: PortCount::default(),
        });
        position(self.network.ports.len() - 1)
    }

    fn fifo(&mut self, weight: u16, leg: u32) -> u32 {
        let fifo = Fifo {
            head: NONE,
            tail: NONE,
            next: NONE,
            turn: 0,
            weight,
            left: weight,
            tags: NONE,
            leg,
        };
        self.network.fifos.push(fifo);
        position(self.network.fifos.len() - 1)
    }

    fn leg(&mut self, flow: &FlowSpec, leg: &Leg, used: Use) -> Result<(), TlpError> {
        let topology = self.topology;
        let NodeKind::Endpoint(initiator) = &topology.node(leg.initiator).kind else {
            let node = topology.node(leg.initiator).name.clone();
            return Err(TlpError::NoInitiator { flow: flow.name.clone(), node });
        };
        let Some(memory) = topology.node(flow.memory).kind.memory() else {
            let node = topology.node(flow.memory).name.clone();
            return Err(TlpError::NoMemory { flow: flow.name.clone(), node });
        };
        if flow.is_own(leg) {
            self.own_leg(initiator, leg, used);
            return Ok(());
        }
        let no_path = |source| TlpError::Path { flow: flow.name.clone(), source };
        let path = topology.path(leg.initiator, flow.memory).map_err(no_path)?;
        let memory_index = self.memory(flow.memory, memory, leg.op);
        let own_memory = self.own_memory(initiator, leg);
        let number = position(self.network.routes.len());
        let fifo = self.fifo(1, number);
        let tags = self.tags(leg.initiator, initiator);
        let first = position(self.network.hops.len());
        let mut route = Route {
            op: leg.op,
            fifo,
            first,
            own_memory,
            tags,
            request_shift: power_of_two(initiator.mrrs.0),
            unit: 0,
            answers: NONE,
        };
        match leg.op {
            Op::Write => {
                let shift = power_of_two(initiator.mps.0.min(topology.mps(&path).0));
                let mut steps = self.medium(used, shift);
                steps.extend(self.steps(&path, shift, POSTED));
                self.hops(&steps, POSTED, End::Memory(memory_index), number);
                route.unit = 1 << shift;
            }
            Op::Read => {
                self.may_read(&path).map_err(no_path)?;
                let request = route.request_shift;
                let mut steps = self.medium(used, request);
                let stages = steps.len();
                steps.extend(self.steps(&path, request, REQUEST));
                self.hops(&steps, REQUEST, End::Memory(memory_index), number);
                // Where requests leave for the first link, behind the medium: each leg has a queue of its own there.
                let last_stage = self.network.hops[first as usize..][..stages].last();
                let leaves_from = last_stage.map_or(fifo, |stage| stage.private.fifo);
                self.network.fifos[leaves_from as usize].tags = tags;
                let back = topology.path(flow.memory, leg.initiator).map_err(no_path)?;
                let shift = power_of_two(memory.completion.0.min(topology.mps(&back).0));
                let steps = self.steps(&back, shift, COMPLETION);
                self.hops(&steps, COMPLETION, End::Initiator, number);
                route.unit = 1 << shift;
                route.answers = self.answers(flow.memory, leg.initiator);
                self.limit_train(self.network.tags[tags as usize].full);
            }
        }
        self.network.routes.push(route);
        Ok(())
    }

    /// What a drive does between its medium and slots in its own memory: it waits for the medium, and for nothing else.
    fn own_leg(&mut self, initiator: &Endpoint, leg: &Leg, used: Use) {
        // As many bytes at a time as what its other legs ask the medium for.
        let unit = power_of_two(match leg.op {
            Op::Write => initiator.mps.0,
            Op::Read => initiator.mrrs.0,
        });
        let number = position(self.network.routes.len());
        let fifo = self.fifo(1, number);
        let first = position(self.network.hops.len());
        let mut steps = self.medium(used, unit);
        if steps.is_empty() {
            steps.push(self.stage((leg.initiator, NO_MEDIUM), 0, unit));
        }
        self.hops(&steps, POSTED, End::Initiator, number);
        self.network.routes.push(Route {
            op: Op::Write,
            fifo,
            first,
            own_memory: NONE,
            tags: NONE,
            request_shift: 0,
            unit: 1 << unit,
            answers: NONE,
        });
    }

    fn may_read(&self, path: &[Crossing]) -> Result<(), PathError> {
        for root in self.topology.peer_roots(path) {
            if let NodeKind::RootComplex(complex) = &self.topology.node(root).kind {
                if !complex.forwards_reads {
                    let name = self.topology.node(root).name.clone();
                    return Err(PathError::ReadsNotForwarded(name));
                }
            }
        }
        Ok(())
    }

    /// The memory of a node, of which this is done.
    fn memory(&mut self, node: NodeIndex, memory: &Memory, op: Op) -> u32 {
        let next = position(self.network.memories.len());
        let key = (node, (!memory.is_shared).then_some(op));
        let Entry::Vacant(entry) = self.network.memory_of.entry(key) else {
            return self.network.memory_of[&key];
        };
        entry.insert(next);
        let per_kib = [memory.write, memory.read].map(|rate| rate.map_or(0, picos_per_kib));
        self.network.memories.push(MemoryState {
            per_kib,
            write_latency: memory.write_latency.0,
            read_latency: memory.read_latency.0,
            takes_turns: memory.is_shared && !per_kib.contains(&0),
            free_at: 0,
            waiting: Default::default(),
            turns: [0; SIDES],
            turn: 0,
            written: 0,
            read: 0,
        });
        next
    }

    /// The memory of its initiator that a leg posts from or fetches into, with turns beside what others do there; [`NONE`]
    /// where that is none, or takes no time.
    fn own_memory(&mut self, initiator: &Endpoint, leg: &Leg) -> u32 {
        let op = leg.op.at_initiator();
        if leg.store != Store::Memory || initiator.memory.rate(op).is_none() {
            return NONE;
        }
        let memory = self.memory(leg.initiator, &initiator.memory, op);
        self.network.memories[memory as usize].takes_turns = true;
        memory
    }

    fn tags(&mut self, node: NodeIndex, endpoint: &Endpoint) -> u32 {
        let next = position(self.network.tags.len());
        let index = *self.tags_of.entry(node).or_insert(next);
        if index == next {
            let full = endpoint.tags.max(1);
            self.network.tags.push(Tags { free: full, full, waiting: [].into() });
        }
        index
    }

    fn answers(&mut self, memory: NodeIndex, initiator: NodeIndex) -> u32 {
        if let Some(&fifo) = self.answers.get(&(memory, initiator)) {
            return fifo;
        }
        let fifo = self.fifo(1, NONE);
        self.answers.insert((memory, initiator), fifo);
        fifo
    }

    /// The ports of a path: links, and stages of root complexes between peers.
    fn steps(&mut self, path: &[Crossing], unit: u32, class: u8) -> Vec<Step> {
        let peer_roots = self.topology.peer_roots(path);
        let mut unit = unit;
        let mut steps = Vec::new();
        for &(link, direction) in path {
            let wire = &self.topology.link(link).wire;
            let side = match direction {
                Direction::Up => 0,
                Direction::Down => 1,
            };
            let overhead = match class {
                POSTED => wire.write_overhead(),
                REQUEST => wire.request_bytes(),
                _ => wire.completion_overhead(),
            };
            let receiver = self.topology.receiver(link, direction);
            steps.push(Step {
                port: 2 * link.0 + side,
                picos_per_kib: wire.picos_per_kib,
                stage: false,
                receiver,
                unit,
                overhead: u32::try_from(overhead).unwrap_or(u32::MAX),
                propagation: wire.propagation,
                credits: wire.credits,
            });
            if let (true, NodeKind::RootComplex(root)) =
                (peer_roots.contains(&receiver), &self.topology.node(receiver).kind)
            {
                let limit = match class {
                    POSTED => root.p2p_write,
                    COMPLETION => root.p2p_read,
                    _ => None,
                };
                if let Some(rate) = limit {
                    steps.push(self.stage((receiver, class), picos_per_kib(rate), unit));
                }
                if let (Some(split), true) = (root.split, class != REQUEST) {
                    unit = unit.min(power_of_two(split.0));
                }
            }
        }
        steps
    }

    fn hops(&mut self, steps: &[Step], class: u8, end: End, leg: u32) {
        for (number, step) in steps.iter().enumerate() {
            let next = steps.get(number + 1);
            let kind = &self.topology.node(step.receiver).kind;
            let latency = match next {
                Some(_) if !step.stage => step.propagation.0 + kind.latency().0,
                _ => step.propagation.0,
            };
            let coupling = match kind {
                NodeKind::Endpoint(_) | NodeKind::HostMemory(_) if next.is_some() => 0,
                kind => kind.hol().in_65536ths(),
            };
            let from_memory = class == COMPLETION && number == 0 && self.comes_from_host(step);
            let coupling = if from_memory { 0 } else { coupling };
            let hop_end = if next.is_some() { End::Queue } else { end };
            let is_endless = hop_end == End::Initiator;
            let credits = if is_endless { Credits::UNLIMITED } else { step.credits };
            let (headers, units) = match class {
                POSTED => (credits.posted_headers, credits.posted_data),
                REQUEST => (credits.nonposted_headers, Credits::MOST),
                _ => (credits.completion_headers, credits.completion_data),
            };
            // A receiver holds one full packet at least (PCIe base specification, "FC initialization").
            let units = units.max((1 << step.unit) / 16);
            let first = steps[0].unit;
            let packets = |bytes: u64| u32::try_from(bytes >> first).unwrap_or(u32::MAX);
            self.limit_train(packets(u64::from(headers) << step.unit));
            self.limit_train(packets(u64::from(units) * 16));
            let key = (step.port, class, NONE);
            let own = match kind {
                NodeKind::Endpoint(_) if next.is_some() => leg | 1 << 31,
                _ => next.map_or(NONE, |next| next.port),
            };
            let weight = self.weight(step);
            let mut lane = |key| self.lane(key, headers, units, step.propagation.0, weight);
            let shared = lane(key);
            let private = if coupling < 1 << 16 && next.is_some() {
                lane((step.port, class, own))
            } else {
                shared
            };
            let iommu = if class == COMPLETION || next.is_none() || step.stage {
                NONE
            } else {
                self.iommu(step.receiver)
            };
            self.network.is_random |= (1..1 << 16).contains(&coupling);
            self.network.hops.push(Hop {
                port: step.port,
                picos_per_kib: step.picos_per_kib,
                unit_shift: step.unit,
                overhead: step.overhead,
                class,
                has_payload: class != REQUEST || step.stage,
                coupling,
                shared,
                private,
                end: hop_end,
                latency,
                propagation: step.propagation.0,
                iommu,
            });
        }
    }

    fn comes_from_host(&self, step: &Step) -> bool {
        !step.stage && {
            let link = &self.topology.links()[(step.port / 2) as usize];
            matches!(self.topology.node(link.lower).kind, NodeKind::HostMemory(_))
        }
    }

    fn weight(&self, step: &Step) -> u16 {
        match &self.topology.node(step.receiver).kind {
            NodeKind::Switch(switch) if !step.stage => {
                let named = switch.weights.iter().find(|(link, _)| link.0 == step.port / 2);
                named.map_or(1, |&(_, weight)| u16::try_from(weight).unwrap_or(u16::MAX).max(1))
            }
            _ => 1,
        }
    }

    fn lane(&mut self, key: LaneKey, headers: u32, units: u32, back: u64, weight: u16) -> Lane {
        if let Some(&lane) = self.lanes.get(&key) {
            let pool = &mut self.network.pools[lane.pool as usize];
            pool.full.1 = pool.full.1.max(units);
            pool.units = pool.full.1;
            return lane;
        }
        let fifo = self.fifo(weight, NONE);
        let (headers, units) = (headers.clamp(1, Credits::MOST), units.clamp(1, Credits::MOST));
        let pool = Pool { headers, units, port: key.0, full: (headers, units), back };
        self.network.pools.push(pool);
        let lane = Lane { fifo, pool: position(self.network.pools.len() - 1) };
        self.lanes.insert(key, lane);
        lane
    }

    fn iommu(&mut self, node: NodeIndex) -> u32 {
        let NodeKind::RootComplex(root) = &self.topology.node(node).kind else { return NONE };
        let Some(iommu) = root.iommu.filter(|iommu| iommu.miss_per_mille > 0) else { return NONE };
        let next = position(self.network.iommus.len());
        let index = *self.iommu_of.entry(node).or_insert(next);
        if index == next {
            self.network.iommus.push(IommuState {
                walkers: vec![0; iommu.walkers.max(1) as usize],
                walk: iommu.walk.0,
                bytes_per_mille_miss: iommu.bytes_per_translation.0.max(1) * 1000,
                miss_per_mille: u64::from(iommu.miss_per_mille),
            });
        }
        index
    }

    fn limit_train(&mut self, packets: u32) {
        let longest = (packets / 8).max(1);
        self.network.longest_train = self.network.longest_train.min(longest);
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 parts")
}

/// log2 of the greatest power of two that is not above `bytes`, between 16 bytes and 4 KiB: sizes of
/// packets are powers of two (PCIe base specification, "Device control register").
fn power_of_two(bytes: u64) -> u32 {
    bytes.clamp(16, 4096).ilog2()
}
