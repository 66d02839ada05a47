//! Machines and flows by seed, made to find mistakes of an engine, not to stand for machines.

use peerlane_fabric::LinkSpeed;
use peerlane_sim::generate::{Draws, LenderNames, fabric};
use peerlane_sim::model::{
    Credits, FlowSpec, ModelEndpoint, ModelParameters, NodeIndex, NodeKind, Op, Picos, RootComplex,
    Switch, TargetMemory, Topology, Wire,
};
use peerlane_units::{ByteRate, Bytes};

/// The difficulty of a case. Numbers are part of the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// Writes on a random tree.
    Tree = 0,
    /// Flows that join one after the other on the way to one sink.
    ParkingLot = 1,
    /// A flow to an idle sink behind flows to a hot one.
    Victim = 2,
    /// Links of many speeds and widths, writes and reads both ways.
    Mixed = 3,
    /// Reads with few tags.
    FewTags = 4,
    /// Packets of 128 bytes and less.
    TinyPackets = 5,
    /// Receivers with room for a few packets.
    SmallBuffers = 6,
    /// Relays through slow memories.
    Relays = 7,
    /// Many writes between few drives: two to six for each of 4 to 16.
    Dense = 9,
}

/// Every family but [`Family::Dense`], whose many flows would outweigh the others.
pub(crate) const FAMILIES: [Family; 8] = [
    Family::Tree,
    Family::ParkingLot,
    Family::Victim,
    Family::Mixed,
    Family::FewTags,
    Family::TinyPackets,
    Family::SmallBuffers,
    Family::Relays,
];

/// A machine and flows on it.
#[derive(Debug, Clone)]
pub(crate) struct AgreementCase {
    pub(crate) topology: Topology,
    pub(crate) flows: Vec<FlowSpec>,
}

/// The case of a family and a seed.
pub(crate) fn case(family: Family, seed: u64) -> AgreementCase {
    let mut draws = Draws::new(seed ^ (family as u64) << 56);
    if family == Family::Dense {
        return dense(&mut draws);
    }
    let mut build = CaseBuild::new(family, &mut draws);
    match family {
        Family::ParkingLot => build.parking_lot(),
        Family::Victim => build.victim(),
        _ => build.random(),
    }
    AgreementCase { topology: build.topology, flows: build.flows }
}

fn dense(draws: &mut Draws) -> AgreementCase {
    let devices = draws.between(4, 16);
    let fabric = fabric(&format!("tree:{devices}")).expect("a notation").expect("a tree");
    let topology = Topology::from_fabric(&fabric, &ModelParameters::default()).expect("a topology");
    let (count, lenders) = (devices * draws.between(2, 6), LenderNames::from_fabric(&fabric));
    let mut flow = || {
        let [source, target] = lenders.pair(draws).map(|name| topology.find(name).expect("there"));
        FlowSpec::write("flow", source, target)
    };
    let flows = (0..count).map(|_| flow()).collect();
    AgreementCase { topology, flows }
}

struct CaseBuild<'a> {
    family: Family,
    draws: &'a mut Draws,
    topology: Topology,
    flows: Vec<FlowSpec>,
    root: NodeIndex,
    devices: Vec<NodeIndex>,
}

impl<'a> CaseBuild<'a> {
    fn new(family: Family, draws: &'a mut Draws) -> Self {
        let mut topology = Topology::new();
        let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
        Self { family, draws, topology, flows: Vec::new(), root, devices: Vec::new() }
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
            // Twice the need of a round trip of 500 ns, and less than some need.
            let round_trip = Picos::nanos(self.draws.one_of(&[250, 500, 1_000]));
            wire.credits = Credits::covering(speed.usable_rate(), Bytes(mps), round_trip);
        }
        wire
    }

    fn switch(&mut self, upper: NodeIndex, widths: &[u8]) -> NodeIndex {
        let name = format!("switch{}", self.topology.nodes().len());
        let wire = self.wire(widths);
        self.topology.add_below(upper, name, NodeKind::Switch(Switch::default()), wire)
    }

    fn device(&mut self, upper: NodeIndex, widths: &[u8]) -> NodeIndex {
        let name = format!("device{}", self.topology.nodes().len());
        let wire = self.wire(widths);
        let mut endpoint = ModelEndpoint { mps: Bytes(512), ..ModelEndpoint::default() };
        match self.family {
            Family::FewTags => endpoint.tags = self.draws.one_of(&[2, 4, 8, 16, 32]),
            Family::Mixed => {
                endpoint.mrrs = self.draws.one_of(&[Bytes(256), Bytes(512), Bytes(1024)]);
            }
            Family::Relays => {
                let rate = Some(ByteRate(1_000_000 * self.draws.between(800, 6_000) as u64));
                endpoint.memory =
                    TargetMemory { write: rate, read: rate, ..TargetMemory::default() };
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
            Family::Mixed | Family::TinyPackets | Family::SmallBuffers => self.draws.share() < 0.4,
            _ => false,
        };
        let mut flow = if reads {
            // The initiator is where the payload goes.
            FlowSpec::read(name, target, source)
        } else {
            FlowSpec::write(name, source, target)
        };
        if self.family == Family::Relays && self.draws.share() < 0.7 {
            let memory = self.draws.one_of(&self.devices.clone());
            if memory != source && memory != target {
                flow = FlowSpec::relay(flow.name, source, memory, target);
            }
        }
        if self.draws.share() < 0.5 && flow.first.op == Op::Write {
            flow.first.bound = Some(ByteRate(1_000_000 * self.draws.between(400, 3_500) as u64));
        }
        self.flows.push(flow);
    }

    /// A tree of up to three levels of switches, and pairs of its devices.
    fn random(&mut self) {
        let mut uppers = vec![self.root];
        for _ in 0..self.draws.between(1, 5) {
            let upper = self.draws.one_of(&uppers);
            uppers.push(self.switch(upper, &[4, 8, 16]));
        }
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

    /// A chain of switches with devices at each; all devices write to one above the chain.
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
