//! Cases that an engine may get wrong, by seed: random trees, and what is known to be hard.
//!
//! Leaves out what is likely: cases are made to find mistakes, not to stand for machines.

use std::fmt;

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::sockets::sockets;
use super::{Draws, tree};
use crate::model::{
    Coupling, Credits, Endpoint, FlowSpec, Memory, NodeIndex, NodeKind, Op, Picos, RootComplex,
    Switch, Topology, Wire,
};

/// What makes a case hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Nothing in particular: writes on a random tree.
    Tree,
    /// Flows that join one after the other on the way to one sink.
    ParkingLot,
    /// A flow to an idle sink behind flows to a hot one.
    Victim,
    /// Links of many speeds and widths, writes and reads both ways.
    Mixed,
    /// Reads with few tags.
    FewTags,
    /// Packets of 128 bytes and less.
    TinyPackets,
    /// Receivers that can hold a few packets.
    SmallBuffers,
    /// Relays through a memory, and memories that are slow.
    Relays,
    /// Nodes that couple a share of the commands, of 1 KiB to 128 KiB.
    Coupled,
    /// Many writes between few drives at once, at random: two to six for each of 4 to 16 drives.
    Dense,
    /// Drives that are read and written at once: writes, reads and relays through memories.
    Media,
    /// Two sockets: direct writes and reads, and relays, with a link between both that holds more or less.
    Sockets,
    /// Copies through one memory or two that all share, as a machine has them with one accelerator, and writes beside.
    Shared,
    /// Flows with one command to four under way, of 64 KiB to 1 MiB, each with its latency: writes, reads and relays.
    Shallow,
}

/// Every family but [`Family::Coupled`], which no machine is known to be like, [`Family::Dense`], which would
/// outweigh the others, and [`Family::Media`], [`Family::Sockets`], [`Family::Shared`] and [`Family::Shallow`], which came
/// after figures of the others were published.
pub const FAMILIES: [Family; 8] = [
    Family::Tree,
    Family::ParkingLot,
    Family::Victim,
    Family::Mixed,
    Family::FewTags,
    Family::TinyPackets,
    Family::SmallBuffers,
    Family::Relays,
];

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tree => "tree",
            Self::ParkingLot => "parking lot",
            Self::Victim => "victim",
            Self::Mixed => "mixed",
            Self::FewTags => "few tags",
            Self::TinyPackets => "tiny packets",
            Self::SmallBuffers => "small buffers",
            Self::Relays => "relays",
            Self::Coupled => "coupled",
            Self::Dense => "dense",
            Self::Media => "media",
            Self::Sockets => "sockets",
            Self::Shared => "shared",
            Self::Shallow => "shallow",
        })
    }
}

/// A machine and flows on it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What makes it hard.
    pub family: Family,
    /// The machine.
    pub topology: Topology,
    /// The flows.
    pub flows: Vec<FlowSpec>,
}

/// The case of a family and a seed.
pub fn scenario(family: Family, seed: u64) -> Scenario {
    made(family, seed, (family != Family::Coupled).then_some(Coupling::SHARED))
}

/// The same on switches and root complexes that couple so much.
pub fn coupled(family: Family, seed: u64, hol: Coupling) -> Scenario {
    made(family, seed, Some(hol))
}

fn made(family: Family, seed: u64, hol: Option<Coupling>) -> Scenario {
    let mut draws = Draws::new(seed ^ (family as u64) << 56);
    if family == Family::Dense {
        return dense(&mut draws);
    }
    if family == Family::Sockets {
        return sockets(&mut draws);
    }
    let mut build = Build::new(family, hol, &mut draws);
    match (family, seed % 3) {
        (Family::ParkingLot, _) | (Family::Coupled, 0) => build.parking_lot(),
        (Family::Victim, _) | (Family::Coupled, 1) => build.victim(),
        (Family::Shared, _) => build.shared(),
        _ => build.random(),
    }
    Scenario { family, topology: build.topology, flows: build.flows }
}

fn dense(draws: &mut Draws) -> Scenario {
    let devices = draws.between(4, 16);
    let machine = tree(devices);
    let count = devices * draws.between(2, 6);
    let flow = |_| {
        let (source, target) = machine.pair(draws);
        FlowSpec::write("flow", source, target)
    };
    let flows = (0..count).map(flow).collect();
    Scenario { family: Family::Dense, topology: machine.topology, flows }
}

/// How a node couples its outputs: a whole number of eighths, between all and nothing, where nothing is said.
fn drawn(hol: Option<Coupling>, draws: &mut Draws) -> Coupling {
    const EIGHTHS: [f64; 7] = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875];
    hol.unwrap_or_else(|| Coupling::new(draws.one_of(&EIGHTHS)))
}

struct Build<'a> {
    family: Family,
    hol: Option<Coupling>,
    draws: &'a mut Draws,
    topology: Topology,
    flows: Vec<FlowSpec>,
    root: NodeIndex,
    devices: Vec<NodeIndex>,
}

impl<'a> Build<'a> {
    fn new(family: Family, hol: Option<Coupling>, draws: &'a mut Draws) -> Self {
        let mut topology = Topology::new();
        let complex = RootComplex { hol: drawn(hol, draws), ..RootComplex::default() };
        let root = topology.add("root", NodeKind::RootComplex(complex));
        Self { family, hol, draws, topology, flows: Vec::new(), root, devices: Vec::new() }
    }

    fn wire(&mut self, widths: &[u8]) -> Wire {
        let speeds: &[u32] =
            if self.family == Family::Mixed { &[5_000, 8_000, 16_000] } else { &[8_000] };
        let megatransfers = self.draws.one_of(speeds);
        let mps = match self.family {
            Family::TinyPackets => self.draws.one_of(&[64, 128]),
            Family::Mixed => self.draws.one_of(&[128, 256, 512]),
            _ => 256,
        };
        let speed = LinkSpeed { megatransfers, width: self.draws.one_of(widths) };
        let mut wire = Wire::pcie(speed, Bytes(mps));
        if self.family == Family::SmallBuffers {
            // Twice what a round trip of 500 ns needs, and some that need more than they have.
            let round_trip = Picos::nanos(self.draws.one_of(&[250, 500, 1_000]));
            wire.credits = Credits::covering(speed.usable_rate(), Bytes(mps), round_trip);
        }
        wire
    }

    fn switch(&mut self, upper: NodeIndex, widths: &[u8]) -> NodeIndex {
        let name = format!("switch{}", self.topology.nodes().len());
        let wire = self.wire(widths);
        let switch = Switch { hol: drawn(self.hol, self.draws), ..Switch::default() };
        self.topology.add_below(upper, name, NodeKind::Switch(switch), wire)
    }

    fn device(&mut self, upper: NodeIndex, widths: &[u8]) -> NodeIndex {
        let name = format!("device{}", self.topology.nodes().len());
        let wire = self.wire(widths);
        let mut endpoint = Endpoint { mps: Bytes(512), ..Endpoint::default() };
        match self.family {
            Family::FewTags => endpoint.tags = self.draws.one_of(&[2, 4, 8, 16, 32]),
            Family::Mixed => {
                endpoint.mrrs = self.draws.one_of(&[Bytes(256), Bytes(512), Bytes(1024)]);
            }
            Family::Relays | Family::Shared => {
                let (least, most) =
                    if self.family == Family::Relays { (800, 6_000) } else { (2_000, 12_000) };
                let rate = ByteRate(1_000_000 * self.draws.between(least, most) as u64);
                endpoint.memory =
                    Memory { write: Some(rate), read: Some(rate), ..Memory::default() };
            }
            Family::Media => {
                let mut rate = |least, most| {
                    Some(ByteRate(1_000_000 * self.draws.between(least, most) as u64))
                };
                endpoint.posts = rate(1_000, 4_000);
                endpoint.fetches = rate(500, 3_000);
                endpoint.mixed = self.draws.one_of(&[0.5, 0.8, 1.0, 1.0, 1.0, 1.4]);
            }
            _ => {}
        }
        let device = self.topology.add_below(upper, name, NodeKind::Endpoint(endpoint), wire);
        self.devices.push(device);
        device
    }

    fn flow(&mut self, source: NodeIndex, target: NodeIndex) {
        let name = format!("flow{}", self.flows.len());
        let reads = match self.family {
            Family::FewTags => true,
            Family::Mixed
            | Family::TinyPackets
            | Family::SmallBuffers
            | Family::Media
            | Family::Shallow => self.draws.share() < 0.4,
            _ => false,
        };
        let mut flow = if reads {
            // The initiator is where the payload goes.
            FlowSpec::read(name, target, source)
        } else {
            FlowSpec::write(name, source, target)
        };
        let passes_on = matches!(self.family, Family::Relays | Family::Media | Family::Shallow);
        if passes_on && self.draws.share() < 0.7 {
            let memory = self.draws.one_of(&self.devices.clone());
            if memory != source && memory != target {
                flow = FlowSpec::relay(flow.name, source, memory, target);
            }
        }
        if self.draws.share() < 0.5 && flow.first.op == Op::Write {
            let rate = 1_000_000 * self.draws.between(400, 3_500) as u64;
            flow.first.bound = Some(ByteRate(rate));
        }
        if self.family == Family::Coupled {
            // 2 MiB under way, as everywhere.
            let (kib, depth) = self.draws.one_of(&[(1, 2048), (8, 256), (32, 64), (128, 16)]);
            flow = flow.with(Bytes::kib(kib), depth);
        }
        if self.family == Family::Shallow {
            flow = self.with_gaps(flow);
        }
        self.flows.push(flow);
    }

    /// With few commands that each wait before they move anything.
    fn with_gaps(&mut self, flow: FlowSpec) -> FlowSpec {
        let kib = self.draws.one_of(&[64, 128, 512, 1024]);
        let depth = self.draws.one_of(&[1, 1, 2, 4]);
        let mut flow = flow.with(Bytes::kib(kib), depth);
        for leg in std::iter::once(&mut flow.first).chain(&mut flow.second) {
            leg.latency = Picos::micros(self.draws.between(20, 400) as u64);
        }
        flow
    }

    /// A root with a tree of up to five switches below it.
    fn switches(&mut self) -> Vec<NodeIndex> {
        let mut uppers = vec![self.root];
        for _ in 0..self.draws.between(1, 5) {
            let upper = self.draws.one_of(&uppers);
            uppers.push(self.switch(upper, &[4, 8, 16]));
        }
        uppers
    }

    /// A tree of up to three levels of switches, and pairs of its devices.
    fn random(&mut self) {
        let uppers = self.switches();
        for _ in 0..self.draws.between(4, 12) {
            let upper = self.draws.one_of(&uppers);
            let narrow: &[u8] =
                if self.family == Family::Mixed { &[1, 2, 4, 8] } else { &[2, 4, 4, 4] };
            self.device(upper, narrow);
        }
        let sinks = self.draws.between(1, self.devices.len() - 1);
        for _ in 0..self.draws.between(2, 12) {
            let target = self.devices[self.draws.below(sinks)];
            let source = self.draws.one_of(&self.devices.clone());
            if source != target {
                self.flow(source, target);
            }
        }
        if self.flows.is_empty() {
            self.flow(self.devices[1], self.devices[0]);
        }
    }

    /// One device or two in such a tree whose memory copies between the others pass through: two of three do.
    fn shared(&mut self) {
        let uppers = self.switches();
        for _ in 0..self.draws.between(1, 2) {
            let upper = self.draws.one_of(&uppers);
            self.device(upper, &[4, 8, 16]);
        }
        let memories = std::mem::take(&mut self.devices);
        for _ in 0..self.draws.between(3, 12) {
            let upper = self.draws.one_of(&uppers);
            self.device(upper, &[2, 4, 4, 4]);
        }
        for number in 0..self.draws.between(2, 12) {
            let source = self.draws.below(self.devices.len());
            let next = 1 + self.draws.below(self.devices.len() - 1);
            let target = self.devices[(source + next) % self.devices.len()];
            let (source, name) = (self.devices[source], format!("flow{number}"));
            self.flows.push(if self.draws.share() < 2.0 / 3.0 {
                FlowSpec::relay(name, source, self.draws.one_of(&memories), target)
            } else {
                FlowSpec::write(name, source, target)
            });
        }
    }

    /// A chain of switches with a device at each; all devices write to one above the chain.
    fn parking_lot(&mut self) {
        let sink = self.device(self.root, &[2, 4]);
        let mut upper = self.root;
        for _ in 0..self.draws.between(2, 6) {
            upper = self.switch(upper, &[4, 8]);
            for _ in 0..self.draws.between(1, 3) {
                let device = self.device(upper, &[2, 4]);
                self.flow(device, sink);
            }
        }
    }

    /// Devices behind one switch: some write to a hot sink, some to idle ones.
    fn victim(&mut self) {
        let hot = self.device(self.root, &[2, 4]);
        let idle: Vec<NodeIndex> =
            (0..self.draws.between(1, 3)).map(|_| self.device(self.root, &[4])).collect();
        let upper = self.switch(self.root, &[8, 16]);
        for _ in 0..self.draws.between(2, 6) {
            let device = self.device(upper, &[4]);
            self.flow(device, hot);
        }
        for target in idle {
            let device = self.device(upper, &[4]);
            self.flow(device, target);
        }
        if self.draws.share() < 0.5 {
            let device = self.device(self.root, &[4]);
            self.flow(device, hot);
        }
    }
}
