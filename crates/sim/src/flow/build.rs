//! A network out of a topology and the flows on it.
//!
//! Leaves out drives and processors beyond what a [`Leg`] says of them. The one thing to know: what
//! stands in one queue in the machine is one input here. Packets of different kinds have buffers of
//! their own, so that a link which carries several kinds gets a *buffer* resource for each.

use std::collections::HashMap;

use peerlane_units::Bytes;

use crate::closed::Demand;
use crate::media::{Mixed, Side, Use};
use crate::model::{
    Coupling, Direction, FlowSpec, Leg, LinkIndex, Memory, NodeIndex, NodeKind, Op, PathError,
    Store, Topology,
};
use crate::way::{PacketKind, Step, Way, as_f64, picos, rate_of, ways};
use crate::work::{Shared, memory_time};

use super::network::{Class, Hop, NONE, Network, Resource};

/// Deeper trees than this are not of this world (PCI has 256 buses).
const DEEPEST: u32 = 1 << 10;
/// A buffer as such carries anything; only what it waits for holds it up.
const UNBOUNDED: f64 = 1e12;

/// How much more a turn of the second stage of a relay is at a memory, enough to be told apart from rounding. Slots are
/// empty at the beginning and fill one after the other, so that of two stages that are equally fast the second
/// waits for the first (`docs/model/flow.md`, relays).
const AHEAD: f64 = 2e-2;

/// What a resource stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// A direction of a link.
    Link(LinkIndex, Direction),
    /// The buffer for packets of a kind behind a direction of a link; for those that go on by one
    /// output only, where outputs have queues of their own.
    Buffer(LinkIndex, Direction, PacketKind, Option<LinkIndex>),
    /// Memory, written and read, in shares of time where they take from each other.
    Memory(NodeIndex, Option<Op>),
    /// The medium of a drive, in the direction that the initiator moves data; in shares of time where it is read
    /// and written at once.
    Medium(NodeIndex, Option<Op>),
    /// The tags of an initiator.
    Tags(NodeIndex),
    /// The way between peers through a root complex.
    Peers(NodeIndex, PacketKind),
    /// The queue behind that, for those that go on by one output.
    PeersBuffer(NodeIndex, PacketKind, LinkIndex),
    /// The completions of a memory that wait for their link, by who asked for them.
    Answers(NodeIndex, NodeIndex),
    /// The walkers of an IOMMU.
    Walkers(NodeIndex),
    /// The processors beside a host memory.
    Processors(NodeIndex),
    /// What those copy, as it waits for that memory; of a device, what it moves between its own memory and others.
    Copies(NodeIndex),
}

/// A network with what its resources stand for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Built {
    /// The network; classes are flows, in their order.
    pub network: Network,
    /// For each resource, what it stands for.
    pub what: Vec<What>,
}

impl Built {
    /// The network of flows on a topology, each with the most that it takes when it is alone.
    ///
    /// # Errors
    /// Which flow has no path, and why.
    pub fn of(
        topology: &Topology,
        flows: &[FlowSpec],
        demands: &[Demand],
    ) -> Result<Self, (usize, PathError)> {
        let mut build = Build::new(topology, Mixed::of(topology, flows));
        build.shared = Shared::with(topology, flows.iter(), |index, _| demands[index].rate);
        // Ways are found twice, since all of them together would take as much memory as the network.
        for (index, flow) in flows.iter().enumerate() {
            build.note(flow).map_err(|error| (index, error))?;
        }
        build.built.network.classes.reserve_exact(flows.len());
        for (index, (flow, &demand)) in flows.iter().zip(demands).enumerate() {
            build.flow(flow, demand).map_err(|error| (index, error))?;
        }
        Ok(build.built)
    }

    /// The resource that stands for something.
    pub fn find(&self, what: What) -> Option<usize> {
        self.what.iter().position(|&known| known == what)
    }
}

struct Build<'a> {
    topology: &'a Topology,
    /// Drives that are read and written at once.
    mixed: Mixed,
    /// Processors that flows could use up.
    shared: Shared,
    built: Built,
    number: HashMap<What, u32>,
    /// Kinds of packets on each direction of each link, as bits.
    kinds: HashMap<(LinkIndex, Direction), u8>,
    /// Payload that the flows of each initiator can have asked for at a time.
    reads: HashMap<NodeIndex, f64>,
    /// Links above each node up to its root complex.
    depth: Vec<u32>,
}

impl<'a> Build<'a> {
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
            shared: Shared::default(),
            built: Built::default(),
            number: HashMap::new(),
            kinds: HashMap::new(),
            reads: HashMap::new(),
            depth,
        }
    }

    /// Notes which packets a flow sends where, and what its initiators can have asked for.
    fn note(&mut self, flow: &FlowSpec) -> Result<(), PathError> {
        for leg in flow.legs() {
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

    fn resource(&mut self, what: What, capacity: f64) -> u32 {
        if let Some(&number) = self.number.get(&what) {
            return number;
        }
        let number = u32::try_from(self.built.what.len()).unwrap_or(NONE);
        let rank = self.rank(what);
        self.built.what.push(what);
        self.built.network.resources.push(Resource {
            capacity,
            rank,
            is_pool: matches!(what, What::Tags(_)),
            is_sender: matches!(what, What::Link(..)),
            holds: f64::INFINITY,
            passing: 0.0,
        });
        self.number.insert(what, number);
        number
    }

    /// Up-links deepest first, root complexes, links between sockets, down-links, memories. A buffer
    /// stands before its link.
    fn rank(&self, what: What) -> u32 {
        let link_rank = |link: LinkIndex, direction| {
            let lower = self.topology.link(link).lower;
            let depth = self.depth[lower.0 as usize].min(DEEPEST);
            match direction {
                _ if self.topology.link_above(lower) != Some(link) => {
                    4 * DEEPEST + 4 + 2 * link.0.min(DEEPEST)
                }
                Direction::Up => 2 + 2 * (DEEPEST - depth),
                Direction::Down => 8 * DEEPEST + 2 * depth,
            }
        };
        match what {
            What::Medium(..) | What::Tags(_) | What::Processors(_) => 0,
            What::Link(link, direction) => link_rank(link, direction),
            What::Buffer(link, direction, ..) => link_rank(link, direction) - 1,
            What::Answers(..) => 0,
            What::PeersBuffer(..) => 3 * DEEPEST,
            What::Peers(..) => 3 * DEEPEST + 1,
            What::Walkers(_) => 3 * DEEPEST + 2,
            What::Copies(_) => 16 * DEEPEST - 1,
            What::Memory(..) => 16 * DEEPEST,
        }
    }

    fn flow(&mut self, flow: &FlowSpec, demand: Demand) -> Result<(), PathError> {
        let mut class = Class { count: 1, demand: demand.rate, ..Class::default() };
        for (used, leg) in flow.used_by_legs().zip(flow.legs()) {
            let ways = ways(self.topology, flow, leg)?;
            class.second = class.legs.len();
            for (resource, cost) in self.media(used, self.mixed.side(self.topology, used)) {
                class.add(vec![Hop { resource, port: NONE, quantum: cost, cost }], 1.0);
            }
            if !flow.is_own(leg) {
                self.own_memory(leg, &mut class);
                self.initiator(flow, leg, &ways, &mut class);
            }
            for way in &ways {
                self.way(flow, leg, way, &mut class);
            }
        }
        self.processors(flow, &mut class);
        self.copies(flow, &mut class);
        // There may be a hundred thousand of them.
        class.legs.shrink_to_fit();
        class.legs.iter_mut().for_each(Vec::shrink_to_fit);
        class.batch.shrink_to_fit();
        class.priority.shrink_to_fit();
        self.built.network.classes.push(class);
        Ok(())
    }

    /// What processors do of a flow, each thread as long as any other.
    fn processors(&mut self, flow: &FlowSpec, class: &mut Class) {
        let Some(work) = &flow.work else { return };
        if let Some(cores) = self.shared.cores(work) {
            let resource = self.resource(What::Processors(work.at), cores.into());
            let cost = work.per_byte(flow.request);
            class.add(vec![Hop { resource, port: NONE, quantum: 1.0, cost }], 1.0);
        }
    }

    /// What copies of processors take of host memory, where all of them have as many turns as what devices write there,
    /// or read.
    fn copies(&mut self, flow: &FlowSpec, class: &mut Class) {
        let Some(work) = &flow.work else { return };
        let time = memory_time(self.topology, work).filter(|_| work.traffic > Bytes::ZERO);
        if let Some(turn) = time {
            let copies = self.resource(What::Copies(work.at), UNBOUNDED);
            let memory = self.resource(What::Memory(work.at, None), 1.0);
            let cost = turn * as_f64(work.traffic) / as_f64(flow.request);
            let hop = |resource, port, cost| Hop { resource, port, quantum: turn, cost };
            class.add(vec![hop(copies, NONE, 1.0), hop(memory, copies, cost)], 1.0);
        }
    }

    /// What a leg takes of the memory of its initiator, where that is what it posts from or fetches into: one turn of equal
    /// bytes for all such legs, beside what others write there and read.
    fn own_memory(&mut self, leg: &Leg, class: &mut Class) {
        if leg.store != Store::Memory {
            return;
        }
        if let Some((memory, cost)) = self.memory(leg.initiator, leg.op.at_initiator()) {
            let own = self.resource(What::Copies(leg.initiator), UNBOUNDED);
            let hop = |resource, port, cost| Hop { resource, port, quantum: cost, cost };
            class.add(vec![hop(own, NONE, 1.0), hop(memory, own, cost)], 1.0);
        }
    }

    /// What a leg takes of its initiator: nobody waits behind it.
    fn initiator(&mut self, flow: &FlowSpec, leg: &Leg, ways: &[Way], class: &mut Class) {
        if let NodeKind::Endpoint(endpoint) = &self.topology.node(leg.initiator).kind {
            let in_flight = f64::from(endpoint.tags) * as_f64(endpoint.mrrs.min(flow.request));
            if leg.op == Op::Read
                && self.reads.get(&leg.initiator).is_some_and(|&most| most > in_flight)
            {
                let tags = self.resource(What::Tags(leg.initiator), in_flight);
                let time = round_trip(self.topology, flow.memory, ways);
                let batch = f64::from(endpoint.tags);
                class.add(
                    vec![Hop { resource: tags, port: NONE, quantum: time, cost: time }],
                    batch,
                );
            }
        }
    }

    /// What a flow takes of a medium, and what a byte costs there: of its time where it is read and written at once,
    /// and of one direction. Turns are equal bytes.
    fn media(&mut self, used: Use, side: Option<Side>) -> Vec<(u32, f64)> {
        let mut media = Vec::new();
        let shares = self.mixed.of_drive(used.drive).zip(used.rate(self.topology));
        if let Some((capacity, rate)) = shares {
            let resource = self.resource(What::Medium(used.drive, None), capacity);
            media.push((resource, 1.0 / per_nano(rate.0)));
        }
        if let Some(Side { rate, own, .. }) = side {
            let resource = self.resource(What::Medium(used.drive, Some(used.op)), per_nano(rate.0));
            media.push((resource, per_nano(rate.0) / per_nano(own.0)));
        }
        media
    }

    fn memory(&mut self, at: NodeIndex, op: Op) -> Option<(u32, f64)> {
        let memory: Memory = *self.topology.node(at).kind.memory()?;
        let rate = per_nano(memory.rate(op)?.0);
        if memory.is_shared {
            // Shares of time: both kinds together take no more than all of it.
            Some((self.resource(What::Memory(at, None), 1.0), 1.0 / rate))
        } else {
            Some((self.resource(What::Memory(at, Some(op)), rate), 1.0))
        }
    }

    fn way(&mut self, flow: &FlowSpec, leg: &Leg, way: &Way, class: &mut Class) {
        let mut chain =
            Chain { hops: Vec::with_capacity(way.steps.len() + 1), port: NONE, batch: 1.0 };
        if way.kind == PacketKind::Completion {
            let answers = self.resource(What::Answers(flow.memory, leg.initiator), UNBOUNDED);
            if let NodeKind::Endpoint(endpoint) = &self.topology.node(leg.initiator).kind {
                let asked = as_f64(endpoint.mrrs.min(flow.request));
                chain.batch = (asked / way.payload).max(1.0);
            }
            chain.push(class, &self.built, (answers, 1.0, 1.0));
            chain.port = answers;
        }
        for (position, step) in way.steps.iter().enumerate() {
            if let Some(&(_, root)) = way.roots.iter().find(|&&(before, _)| before == position) {
                self.peers(root, way, step, class, &mut chain);
            }
            let rate = rate_of(self.topology, step.link);
            let link = self.resource(What::Link(step.link, step.direction), rate);
            let buffer = self.buffer(way, position);
            if let Some(buffer) = buffer {
                chain.push(class, &self.built, (buffer, way.payload, 1.0));
            }
            // On a chip requests take nothing of what data take.
            if step.cost > 0.0 {
                let turn = step.packet * self.weight(way, position);
                chain.push(class, &self.built, (link, turn, step.cost));
                chain.port = link;
            }
            chain.port = buffer.unwrap_or(chain.port);
            self.queue(step, way, way.steps.get(position + 1).map(|step| step.link), chain.port);
            self.walkers(way, position, class);
            let other = (step.link, step.direction.reverse());
            if step.back > 0.0 && self.kinds.contains_key(&other) {
                class.priority.push((self.resource(What::Link(other.0, other.1), rate), step.back));
            }
        }
        let op = match way.kind {
            PacketKind::Posted => Some(Op::Write),
            PacketKind::NonPosted => Some(Op::Read),
            PacketKind::Completion => None,
        };
        if let Some((resource, cost)) = op.and_then(|op| self.memory(flow.memory, op)) {
            // Turns are equal bytes; a second stage gets a little more, so that ties have an end.
            let has_both = class.second > 0 && !flow.is_own(&flow.first);
            let turn = if has_both { cost * (1.0 + AHEAD) } else { cost };
            chain.push(class, &self.built, (resource, turn, cost));
        }
        class.add(chain.hops, chain.batch);
    }

    /// Notes what the queue behind a step holds. Initiators take every answer that they asked for.
    fn queue(&mut self, step: &Step, way: &Way, next: Option<LinkIndex>, at: u32) {
        if way.kind == PacketKind::Completion && next.is_none() || at == NONE {
            return;
        }
        let is_link = matches!(self.built.what[at as usize], What::Link(..));
        let cost = if is_link { step.cost } else { 1.0 };
        let holds = room(self.topology, step, way) * cost;
        let resource = &mut self.built.network.resources[at as usize];
        // One packet at least.
        resource.holds = holds.max(cost * way.payload);
        resource.passing = loop_time(self.topology, step, next);
    }

    /// Turns in a row that the sender of a step gives to packets that come by the step before.
    fn weight(&self, way: &Way, position: usize) -> f64 {
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

    /// The buffer behind a link, where it is not the link itself that is held up: where packets of
    /// several kinds share the link, outputs have queues of their own, or credits are few.
    fn buffer(&mut self, way: &Way, position: usize) -> Option<u32> {
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
        let what = What::Buffer(step.link, step.direction, way.kind, next);
        Some(self.resource(what, credits.min(UNBOUNDED)))
    }

    /// Whether what goes on by several outputs waits in one queue behind a step. What comes from host memory
    /// waits for its output in the memory controller, behind nothing that goes elsewhere.
    fn is_shared(&self, way: &Way, position: usize) -> bool {
        let step = &way.steps[position];
        let lower = self.topology.link(step.link).lower;
        let is_answer = way.kind == PacketKind::Completion && position == 0;
        if is_answer && matches!(self.topology.node(lower).kind, NodeKind::HostMemory(_)) {
            return false;
        }
        let at = self.topology.receiver(step.link, step.direction);
        fills_shared(self.topology.node(at).kind.hol())
    }

    /// What a root complex lets pass between peers, in one queue for each kind of packet.
    fn peers(
        &mut self,
        at: NodeIndex,
        way: &Way,
        next: &Step,
        class: &mut Class,
        chain: &mut Chain,
    ) {
        let NodeKind::RootComplex(root) = &self.topology.node(at).kind else { return };
        let cap = match way.kind {
            PacketKind::Posted => root.p2p_write,
            PacketKind::Completion => root.p2p_read,
            PacketKind::NonPosted => None,
        };
        let Some(rate) = cap else { return };
        let is_shared = fills_shared(root.hol);
        let peers = self.resource(What::Peers(at, way.kind), per_nano(rate.0));
        let mut port = peers;
        if !is_shared {
            port = self.resource(What::PeersBuffer(at, way.kind, next.link), UNBOUNDED);
            chain.push(class, &self.built, (port, way.payload, 1.0));
        }
        chain.push(class, &self.built, (peers, way.payload, 1.0));
        chain.port = port;
    }

    /// What the walkers of the IOMMU behind a step do for it: packets wait for them, not for each other.
    fn walkers(&mut self, way: &Way, position: usize, class: &mut Class) {
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
        let resource = self.resource(What::Walkers(at), walks);
        class.add(vec![Hop { resource, port: NONE, quantum: 1.0, cost }], 1.0);
    }
}

/// Whether it is the queue of all outputs that fills where one output is full: it takes turns with the queue of
/// that output, and the one with more to bring fills.
fn fills_shared(coupling: Coupling) -> bool {
    coupling.share() >= 0.5
}

/// A leg under construction.
struct Chain {
    hops: Vec<Hop>,
    /// The buffer that the packets come from.
    port: u32,
    /// Packets that come in a row.
    batch: f64,
}

impl Chain {
    /// Adds a visit: a resource, what a turn is worth there, and its cost. One that would lead back in
    /// the order of sweeps begins a new leg, which waits for the first without holding anybody up.
    fn push(&mut self, class: &mut Class, built: &Built, visit: (u32, f64, f64)) {
        let (resource, turn, cost) = visit;
        let rank = |resource: u32| built.network.resources[resource as usize].rank;
        if self.hops.last().is_some_and(|last| rank(last.resource) >= rank(resource)) {
            class.add(std::mem::take(&mut self.hops), self.batch);
        }
        let is_known = self.hops.iter().any(|before| before.resource == self.port);
        let port = if is_known { self.port } else { NONE };
        self.hops.push(Hop { resource, port, quantum: turn, cost });
    }
}

/// Payload a nanosecond that the credits of a receiver allow: what it can hold, each time that credits
/// come back (PCIe base specification, "Flow control").
fn credit_rate(topology: &Topology, step: &Step, way: &Way, next: Option<LinkIndex>) -> f64 {
    if way.kind == PacketKind::Completion && next.is_none() {
        return f64::INFINITY;
    }
    room(topology, step, way) / loop_time(topology, step, next).max(1e-3)
}

/// How long a packet that does not wait holds credits of the receiver of a step.
fn loop_time(topology: &Topology, step: &Step, next: Option<LinkIndex>) -> f64 {
    let wire = &topology.link(step.link).wire;
    let node = topology.node(topology.receiver(step.link, step.direction));
    let around = 2.0 * picos(wire.propagation.0) + step.packet / rate_of(topology, step.link);
    match next {
        Some(next) => around + picos(node.kind.latency().0) + step.packet / rate_of(topology, next),
        None => around,
    }
}

/// Payload that the receiver of a step can hold.
fn room(topology: &Topology, step: &Step, way: &Way) -> f64 {
    let credits = &topology.link(step.link).wire.credits;
    let (headers, units) = match way.kind {
        PacketKind::Posted => (credits.posted_headers, credits.posted_data),
        // Requests carry no payload.
        PacketKind::NonPosted => (credits.nonposted_headers, u32::MAX),
        PacketKind::Completion => (credits.completion_headers, credits.completion_data),
    };
    (f64::from(headers) * way.payload).min(16.0 * f64::from(units))
}

/// From a read request to the last byte of its answer on an idle machine, in nanoseconds: one packet there,
/// what the memory takes for the first of the answer, that back, and the others behind it, as far apart as the slowest
/// link sends them, or the memory reads them.
pub fn round_trip(topology: &Topology, memory: NodeIndex, ways: &[Way]) -> f64 {
    let mut time: f64 = ways.iter().map(|way| way.latency(topology)).sum();
    let Some(memory) = topology.node(memory).kind.memory() else { return time };
    time += picos(memory.read_latency.0);
    if let [requests, answers] = ways {
        let per_byte = memory.rate(Op::Read).map_or(0.0, |rate| 1.0 / per_nano(rate.0));
        let behind = answers.steps.iter().map(|step| {
            let rest = (requests.payload * step.cost - step.packet).max(0.0);
            rest / rate_of(topology, step.link)
        });
        let read = (requests.payload - answers.payload).max(0.0) * per_byte;
        time += answers.payload * per_byte + behind.fold(read, f64::max);
    }
    time
}

/// Bytes a second as bytes a nanosecond.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
pub fn per_nano(rate: u64) -> f64 {
    rate.max(1) as f64 / 1e9
}
