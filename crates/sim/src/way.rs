//! Routes of packets: the links that packets of one kind cross, and their sizes.
//!
//! A write has one route. A read has two: requests, and completions back. Rates and queues are left out.

use peerlane_units::Bytes;

use crate::model::{
    FlowSpec, Leg, LinkDirection, LinkIndex, NodeIndex, NodeKind, Op, PacketKind, PathError,
    Topology, as_f64, per_nano, picos,
};

/// A link of a route.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RouteLink {
    /// The link.
    pub link: LinkIndex,
    /// The direction on it.
    pub direction: LinkDirection,
    /// Wire bytes for each byte of payload; 0 for requests on links that carry payload alone
    /// ([`Framing::Bare`](crate::model::Framing::Bare)).
    pub cost: f64,
    /// Wire bytes in the other direction for each byte of payload.
    pub back: f64,
    /// Wire bytes of a packet.
    pub packet: f64,
}

/// Route of the packets of one kind of a leg.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PacketRoute {
    /// The kind.
    pub kind: PacketKind,
    /// The links, in order.
    pub steps: Vec<RouteLink>,
    /// Payload of a packet: its content, or the size of a read request.
    pub payload: f64,
    /// Root complexes between peers, each with the number of steps before it.
    pub roots: Vec<(usize, NodeIndex)>,
}

impl PacketRoute {
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
            let (content, around) = match kind {
                PacketKind::NonPosted => (0.0, wire.request_bytes()),
                PacketKind::Posted => (payload, wire.write_overhead()),
                PacketKind::Completion => (payload, wire.completion_overhead()),
            };
            let is_request = kind == PacketKind::NonPosted;
            let dllps = if is_request { 0 } else { wire.dllp_bytes_per_mille() };
            let (packet, back) = (content + as_f64(Bytes(around)), as_f64(Bytes(dllps)) / 1000.0);
            let cost = packet / payload;
            steps.push(RouteLink { link, direction, cost, back: back / payload, packet });
        }
        Ok(Self { kind, steps, payload: whole, roots })
    }

    /// Nanoseconds of a packet on an idle machine, from its first byte sent to its last byte received.
    ///
    /// Switches and root complexes forward after the header (cut-through). Where the next link is faster, and would run
    /// dry, they forward after the last byte (store and forward).
    pub(crate) fn latency(&self, topology: &Topology) -> f64 {
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
            let is_cut_through = next.is_some_and(|next| next <= rate);
            latency += if is_cut_through { self.header(step) } else { step.packet } / rate;
        }
        latency
    }

    /// Wire bytes of a packet besides its payload.
    fn header(&self, step: &RouteLink) -> f64 {
        match self.kind {
            PacketKind::NonPosted => step.packet,
            _ => (step.packet - step.packet / step.cost.max(1e-9)).max(0.0),
        }
    }
}

/// Payload of a packet after a root complex that splits packets between peers.
fn split(topology: &Topology, at: NodeIndex, kind: PacketKind, payload: f64) -> f64 {
    match &topology.node(at).kind {
        NodeKind::RootComplex(root) if kind != PacketKind::NonPosted => {
            root.split.map_or(payload, |split| payload.min(power_of_two(split)))
        }
        _ => payload,
    }
}

/// Rounds down to a packet size, a power of two (PCIe base specification, "Device control register").
fn power_of_two(bytes: Bytes) -> f64 {
    as_f64(Bytes(1 << bytes.0.clamp(16, 4096).ilog2()))
}

/// Routes of a leg: one of a write, requests and completions of a read, none between a drive and its own memory.
///
/// # Errors
/// When there is no path, or the root complex passes no reads between peers.
pub(crate) fn ways(
    topology: &Topology,
    flow: &FlowSpec,
    leg: &Leg,
) -> Result<Vec<PacketRoute>, PathError> {
    if flow.is_own(leg) {
        return Ok(Vec::new());
    }
    let (there, back) = ((leg.initiator, flow.memory), (flow.memory, leg.initiator));
    let NodeKind::Endpoint(endpoint) = &topology.node(leg.initiator).kind else {
        return Ok(vec![PacketRoute::new(topology, there, PacketKind::Posted, flow.request)?]);
    };
    if leg.op == Op::Write {
        let most = endpoint.mps.min(flow.request);
        return Ok(vec![PacketRoute::new(topology, there, PacketKind::Posted, most)?]);
    }
    let asked = endpoint.mrrs.min(flow.request);
    let requests = PacketRoute::new(topology, there, PacketKind::NonPosted, asked)?;
    for node in requests.roots.iter().map(|&(_, root)| topology.node(root)) {
        if matches!(&node.kind, NodeKind::RootComplex(root) if !root.forwards_reads) {
            return Err(PathError::ReadsNotForwarded(node.name.clone()));
        }
    }
    let memory = topology.node(flow.memory).kind.memory();
    let answered = memory.map_or(asked, |memory| memory.completion.min(asked));
    Ok(vec![requests, PacketRoute::new(topology, back, PacketKind::Completion, answered)?])
}

/// Time from a read request to the last byte of its completions on an idle machine, in nanoseconds: the request, the
/// latency and the read of the memory, the first completion, and the others at the pace of the slowest link or of
/// the memory.
pub(crate) fn round_trip(topology: &Topology, memory: NodeIndex, ways: &[PacketRoute]) -> f64 {
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

/// Bytes a nanosecond of one direction of a link.
pub(crate) fn rate_of(topology: &Topology, link: LinkIndex) -> f64 {
    let picos = topology.link(link).wire.picos_per_kib;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let picos = picos as f64;
    1_024_000.0 / picos
}
