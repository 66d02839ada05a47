//! What the packets of one kind cost on their way: which links they cross, in pieces of which size.
//!
//! Leaves out rates and queues. The one thing to know: a write is one way; a read is two, requests
//! there and completions back.

use peerlane_units::Bytes;

use crate::model::{
    Direction, FlowSpec, Leg, LinkIndex, NodeIndex, NodeKind, Op, PathError, Topology,
};

/// Packets that share buffers and credits (PCIe base specification, "Flow control").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Writes.
    Posted,
    /// Read requests.
    NonPosted,
    /// Answers to those.
    Completion,
}

/// One link of a way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Which link.
    pub link: LinkIndex,
    /// Which way on it.
    pub direction: Direction,
    /// Bytes on the link for each byte of payload that the flow moves; 0 for requests on a path that
    /// carries payload alone ([`Framing::Bare`](crate::model::Framing::Bare)): it is no resource for them.
    pub cost: f64,
    /// Bytes sent back on the other direction for each byte of payload.
    pub back: f64,
    /// Bytes on the link of one packet.
    pub packet: f64,
}

/// The packets of one kind of a leg.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// What they are.
    pub kind: PacketKind,
    /// The links, in order.
    pub steps: Vec<Step>,
    /// Payload that one of them stands for: what it carries, or what a request asks for.
    pub payload: f64,
    /// The root complexes between peers that it passes, each with the number of steps before it.
    pub roots: Vec<(usize, NodeIndex)>,
}

impl Way {
    fn new(
        topology: &Topology,
        ends: (NodeIndex, NodeIndex),
        kind: PacketKind,
        most: Bytes,
    ) -> Result<Self, PathError> {
        let path = topology.path(ends.0, ends.1)?;
        let peers = topology.peer_roots(&path);
        let most = if kind == PacketKind::NonPosted { most } else { most.min(topology.mps(&path)) };
        let mut payload = power_of_two(most);
        let whole = payload;
        let (mut steps, mut roots) = (Vec::with_capacity(path.len()), Vec::new());
        for (link, direction) in path {
            let at = topology.sender(link, direction);
            if peers.contains(&at) && !steps.is_empty() {
                roots.push((steps.len(), at));
                payload = split(topology, at, kind, payload);
            }
            let wire = &topology.link(link).wire;
            let (packet, back) = match kind {
                PacketKind::NonPosted => (as_f64(Bytes(wire.request_bytes())), 0.0),
                PacketKind::Posted => (payload + as_f64(Bytes(wire.write_overhead())), 1.0),
                PacketKind::Completion => {
                    (payload + as_f64(Bytes(wire.completion_overhead())), 1.0)
                }
            };
            let back = back * as_f64(Bytes(wire.dllp_bytes_per_mille())) / 1000.0;
            let cost = packet / payload;
            steps.push(Step { link, direction, cost, back: back / payload, packet });
        }
        Ok(Self { kind, steps, payload: whole, roots })
    }

    /// Nanoseconds of one packet on an idle machine, from its first byte sent to its last received: switches
    /// and root complexes pass it on from the first byte after its header (cut-through), but where the next
    /// link is faster, which would run dry, only when all of it is there.
    pub fn latency(&self, topology: &Topology) -> f64 {
        let mut latency = 0.0;
        for (position, step) in self.steps.iter().enumerate() {
            let wire = &topology.link(step.link).wire;
            latency += picos(wire.propagation.0);
            if position > 0 {
                let at = topology.sender(step.link, step.direction);
                latency += picos(topology.node(at).kind.latency().0);
            }
            let rate = rate_of(topology, step.link);
            let next = self.steps.get(position + 1).map(|next| rate_of(topology, next.link));
            let is_passed_on = next.is_some_and(|next| next <= rate);
            latency += if is_passed_on { self.header(step) } else { step.packet } / rate;
        }
        latency
    }

    /// Bytes of a packet of a step that are not payload.
    fn header(&self, step: &Step) -> f64 {
        match self.kind {
            PacketKind::NonPosted => step.packet,
            // With a cost of none there is neither.
            _ => (step.packet - step.packet / step.cost.max(1e-9)).max(0.0),
        }
    }
}

/// Payload a packet has after a root complex that cuts what passes between peers.
fn split(topology: &Topology, at: NodeIndex, kind: PacketKind, payload: f64) -> f64 {
    match &topology.node(at).kind {
        NodeKind::RootComplex(root) if kind != PacketKind::NonPosted => {
            root.split.map_or(payload, |split| payload.min(power_of_two(split)))
        }
        _ => payload,
    }
}

/// Sizes of packets are powers of two (PCIe base specification, "Device control register").
fn power_of_two(bytes: Bytes) -> f64 {
    as_f64(Bytes(1 << bytes.0.clamp(16, 4096).ilog2()))
}

/// The ways of one leg: of a write one, of a read its requests and its completions, and none of what a drive does with
/// its own memory.
///
/// # Errors
/// When there is no path, or the root complex passes no reads between peers.
pub fn ways(topology: &Topology, flow: &FlowSpec, leg: &Leg) -> Result<Vec<Way>, PathError> {
    if flow.is_own(leg) {
        return Ok(Vec::new());
    }
    let (there, back) = ((leg.initiator, flow.memory), (flow.memory, leg.initiator));
    let NodeKind::Endpoint(endpoint) = &topology.node(leg.initiator).kind else {
        return Ok(vec![Way::new(topology, there, PacketKind::Posted, flow.request)?]);
    };
    match leg.op {
        Op::Write => {
            let most = endpoint.mps.min(flow.request);
            Ok(vec![Way::new(topology, there, PacketKind::Posted, most)?])
        }
        Op::Read => {
            let asked = endpoint.mrrs.min(flow.request);
            let requests = Way::new(topology, there, PacketKind::NonPosted, asked)?;
            for &(_, root) in &requests.roots {
                if matches!(&topology.node(root).kind, NodeKind::RootComplex(root) if !root.forwards_reads)
                {
                    return Err(PathError::ReadsNotForwarded(topology.node(root).name.clone()));
                }
            }
            let memory = topology.node(flow.memory).kind.memory();
            let answered = memory.map_or(asked, |memory| memory.completion.min(asked));
            let completions = Way::new(topology, back, PacketKind::Completion, answered)?;
            Ok(vec![requests, completions])
        }
    }
}

/// Bytes a nanosecond of one direction of a link.
pub fn rate_of(topology: &Topology, link: LinkIndex) -> f64 {
    let picos = topology.link(link).wire.picos_per_kib;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let picos = picos as f64;
    1_024_000.0 / picos
}

/// Bytes as the flow engine counts them.
#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 9 PB")]
pub fn as_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

/// Picoseconds as nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "2^53 ps are 2.5 hours")]
pub fn picos(picos: u64) -> f64 {
    picos as f64 / 1000.0
}
