//! A case with a tenth more of something: of resources, or of what flows have of their own.
//!
//! Leaves out what that gains. The one thing to know: rates are raised in the machine itself, so that blocks take less time on
//! their way there, too; what is counted, such as tags, has its capacity raised.

use std::collections::BTreeSet;

use peerlane_results::CaseSpec;
use peerlane_units::{ByteRate, Bytes};

use super::PredictError;
use super::case::Model;
use super::flows::Planned;
use super::names;
use super::own::Own;
use super::setting::whole;
use crate::closed::Demand;
use crate::flow::build::{What, per_nano};
use crate::model::{
    Arrival, Endpoint, FlowSpec, HostMemory, NodeIndex, NodeKind, Op, Picos, Topology,
};
use crate::way::{PacketKind, as_f64, picos};

/// By how much something is raised.
const MORE: f64 = 1.1;

/// What there is more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// A resource of the network.
    Resource(What),
    /// What flows have of their own.
    Own(Own),
}

impl More {
    /// What flows have of their own, if it is that.
    pub(super) fn own(self) -> Option<Own> {
        match self {
            Self::Resource(_) => None,
            Self::Own(own) => Some(own),
        }
    }

    /// Several of a kind, all of which limit something; `None` for what there is one of.
    pub(super) fn several(self, count: usize) -> Option<String> {
        match self {
            Self::Resource(what) => names::several(what, count),
            Self::Own(own) => own.several(count),
        }
    }
}

/// How many times as much of it there is where there is more of these.
fn times(of: &[More], more: More) -> f64 {
    if of.contains(&more) { MORE } else { 1.0 }
}

/// Whether a resource is as much of a rate of the machine, and not a number of things.
fn is_rate(what: What) -> bool {
    match what {
        What::Link(..) | What::Memory(..) | What::Medium(..) | What::Peers(..) => true,
        What::Buffer(..)
        | What::Tags(_)
        | What::PeersBuffer(..)
        | What::Answers(..)
        | What::Walkers(_)
        | What::Processors(_)
        | What::Copies(_) => false,
    }
}

/// A machine with more of these, where they are rates of it.
fn raised(topology: &Topology, of: &[More]) -> Topology {
    let mut topology = topology.clone();
    let resources = of.iter().filter_map(|more| match more {
        More::Resource(what) => Some(*what),
        More::Own(_) => None,
    });
    let mut links = BTreeSet::new();
    for what in resources {
        if let What::Link(link, _) = what {
            // Both directions of a wire are alike, and faster once.
            links.insert(link);
        }
        for rate in rates(&mut topology, what).into_iter().flatten() {
            *rate = rate.map(|rate| names::per_second(per_nano(rate.0) * MORE));
        }
    }
    for link in links {
        let wire = topology.wire_mut(link);
        wire.picos_per_kib = whole(as_f64(Bytes(wire.picos_per_kib)) / MORE).max(1);
    }
    topology
}

/// The rates of a node that a resource is: two where it is shares of both.
fn rates(topology: &mut Topology, what: What) -> [Option<&mut Option<ByteRate>>; 2] {
    let both = |write, read, op: Option<Op>| {
        let is = |other| op.is_none_or(|op| op == other);
        [Some(write).filter(|_| is(Op::Write)), Some(read).filter(|_| is(Op::Read))]
    };
    let (What::Memory(node, _) | What::Medium(node, _) | What::Peers(node, _)) = what else {
        return [None, None];
    };
    match (&mut topology.node_mut(node).kind, what) {
        (NodeKind::Endpoint(Endpoint { memory, .. }), What::Memory(_, op))
        | (NodeKind::HostMemory(HostMemory { memory, .. }), What::Memory(_, op)) => {
            both(&mut memory.write, &mut memory.read, op)
        }
        (NodeKind::Endpoint(drive), What::Medium(_, op)) => {
            both(&mut drive.posts, &mut drive.fetches, op)
        }
        (NodeKind::RootComplex(root), What::Peers(_, PacketKind::Posted)) => {
            [Some(&mut root.p2p_write), None]
        }
        (NodeKind::RootComplex(root), What::Peers(..)) => [None, Some(&mut root.p2p_read)],
        _ => [None, None],
    }
}

impl Planned {
    /// The same flow with more of these, but for more blocks in flight, which are a whole number.
    fn with_more(&self, of: &[More]) -> Self {
        let mut more = self.clone();
        for (own, rate) in &mut more.bounds {
            let times = times(of, More::Own(*own));
            *rate *= times;
            if let (Own::Limit, Arrival::Paced { rate: limit }) = (*own, &mut more.spec.arrival) {
                *limit = names::per_second(*rate);
            }
            let legs = more.spec.legs_mut().filter(|leg| own.drive() == Some(leg.initiator));
            for commands in legs.filter_map(|leg| leg.commands.as_mut()) {
                *commands = names::per_second(per_nano(commands.0) * times);
            }
        }
        // A limit lets commands begin later and makes none slower.
        let slows = more.bounds.iter().filter(|bound| bound.0 != Own::Limit);
        let least = slows.map(|bound| bound.1).fold(f64::INFINITY, f64::min);
        // A flow of the processor alone has none beside its work.
        more.spec.first.bound = self.spec.first.bound.map(|_| names::per_second(least));
        let processor = times(of, More::Own(Own::Processor));
        more.cpu /= processor;
        if let Some(work) = more.spec.work.as_mut().filter(|_| processor > 1.0) {
            let less = |time: Picos| Picos(whole(picos(time.0) * 1e3 / processor));
            (work.submit, work.copy) = (less(work.submit), less(work.copy));
        }
        more
    }

    /// What it has of the commands of a drive.
    fn commands_of(&self, drive: NodeIndex) -> Option<Own> {
        let mut own = self.bounds.iter().map(|bound| bound.0);
        own.find(|own| own.drive() == Some(drive))
    }
}

impl Model {
    /// The same case with more of these.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub(super) fn with_more(&self, of: &[More], case: &CaseSpec) -> Result<Self, PredictError> {
        let topology = raised(&self.topology, of);
        let flows = self.flows.iter().map(|flow| flow.with_more(of)).collect();
        let mut model = Self::of_flows(topology, flows, self.time, case)?;
        let is_up = |what| of.contains(&More::Resource(what));
        for (resource, &what) in model.built.network.resources.iter_mut().zip(&model.built.what) {
            if let What::Link(link, direction) = what {
                let is_other_up = is_up(What::Link(link, direction.reverse()));
                resource.capacity /= if is_other_up && !is_up(what) { MORE } else { 1.0 };
            } else if !is_rate(what) {
                resource.capacity *= times(of, More::Resource(what));
            }
        }
        if of.contains(&More::Own(Own::Depth)) {
            model.deeper = MORE;
            for (flow, class) in model.flows.iter().zip(&mut model.built.network.classes) {
                if !flow.has_own_slots {
                    class.demand = deeper(&model.topology, &flow.spec).unwrap_or(class.demand);
                }
            }
        }
        Ok(model)
    }

    /// What limits a flow that waits for a resource: that, or the commands of the drive whose medium it is.
    pub(super) fn cause(&self, flow: usize, resource: What) -> More {
        let flow = &self.flows[flow];
        let What::Medium(drive, op) = resource else { return More::Resource(resource) };
        let uses = flow.spec.used_by_legs().filter(|used| used.is_of(drive, op));
        let uses = uses.filter(|&used| self.mixed.is_share(&self.topology, used, op));
        let slowest = uses.min_by_key(|used| used.rate(&self.topology));
        match flow.commands_of(drive) {
            Some(own) if slowest.is_some_and(|used| used.is_by_commands(&self.topology)) => {
                More::Own(own)
            }
            _ => More::Resource(resource),
        }
    }

    /// What makes up the time of a block on an idle machine, but for latencies: rates on its way, and work.
    pub(super) fn parts_of_a_block(&self, flow: usize) -> impl Iterator<Item = More> {
        let hops = self.built.network.classes[flow].legs.iter().flatten();
        let passed = hops.map(|hop| self.built.what[hop.resource as usize]);
        let resources = passed.filter(|&what| is_rate(what)).map(More::Resource);
        resources.chain([More::Own(Own::Processor)])
    }

    /// How many times as fast one of these flows is at most with more of something, on an idle machine.
    pub(super) fn quickens(&self, part: More, flows: &[usize]) -> f64 {
        let topology = raised(&self.topology, &[part]);
        let ratios = flows.iter().filter_map(|&flow| {
            let more = self.flows[flow].with_more(&[part]);
            let demand = crate::closed::demand(&topology, &more.spec).ok()?;
            Some(demand / self.built.network.classes[flow].demand)
        });
        ratios.fold(1.0, f64::max)
    }
}

/// What a flow takes of an idle machine with more blocks in flight, payload a nanosecond.
fn deeper(topology: &Topology, flow: &FlowSpec) -> Option<f64> {
    let demand = Demand::at_depth(topology, flow, f64::from(flow.depth) * MORE);
    demand.ok().map(|demand| demand.rate)
}
