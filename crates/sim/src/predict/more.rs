//! A case with a tenth more of something: of resources, or of what flows have of their own.
//!
//! Leaves out what that gains. The one thing to know: where commands of a drive bound what its medium does, more of the medium
//! changes nothing for them, and more commands nothing for others.

use super::case::Model;
use super::flows::Planned;
use super::names;
use super::own::Own;
use super::setting::whole;
use crate::flow::build::{Built, What};
use crate::media::{Raised, Use};
use crate::model::{Arrival, FlowSpec, NodeIndex, Op, Picos};
use crate::way::picos;

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

/// How many times as much of it there is where there is more of these.
fn times(of: &[More], more: More) -> f64 {
    if of.contains(&more) { MORE } else { 1.0 }
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

impl Planned {
    /// Whether there can be more of this for it.
    fn has(&self, own: Own) -> bool {
        match own {
            Own::Depth => !self.has_own_slots,
            _ => self.bounds.iter().any(|bound| bound.0 == own),
        }
    }

    /// What it has of the commands of a drive.
    fn commands_of(&self, drive: NodeIndex) -> Option<Own> {
        let mut own = self.bounds.iter().map(|bound| bound.0);
        own.find(|own| own.drive() == Some(drive))
    }

    /// How many times as fast the medium of a drive is for it, and its commands.
    fn medium(&self, drive: NodeIndex, rate: f64, of: &[More]) -> Raised {
        let commands = self.commands_of(drive).map_or(1.0, |own| times(of, More::Own(own)));
        Raised { rate, commands }
    }

    /// The same flow with more of these, but for more blocks in flight, which are a whole number.
    fn with_more(&self, of: &[More]) -> Self {
        let mut more = self.clone();
        for (own, rate) in &mut more.bounds {
            *rate *= times(of, More::Own(*own));
            if let (Own::Limit, Arrival::Paced { rate: limit }) = (*own, &mut more.spec.arrival) {
                *limit = names::per_second(*rate);
            }
        }
        // A limit lets commands begin later and makes none slower.
        let slows = more.bounds.iter().filter(|bound| bound.0 != Own::Limit);
        let least = slows.map(|bound| bound.1).fold(f64::INFINITY, f64::min);
        more.spec.first.bound = Some(names::per_second(least));
        let processor = times(of, More::Own(Own::Processor));
        more.cpu /= processor;
        if let Some(work) = more.spec.work.as_mut().filter(|_| processor > 1.0) {
            let less = |time: Picos| Picos(whole(picos(time.0) * 1e3 / processor));
            (work.submit, work.copy) = (less(work.submit), less(work.copy));
        }
        more
    }
}

impl Model {
    /// The network with more of these.
    pub(super) fn with_more(&self, of: &[More]) -> Built {
        let mut built = self.built.clone();
        for (resource, &what) in built.network.resources.iter_mut().zip(&self.built.what) {
            resource.capacity *= times(of, More::Resource(what));
        }
        for (flow, class) in self.flows.iter().zip(&mut built.network.classes) {
            let is_raised = |more: &More| matches!(more, More::Own(own) if flow.has(*own));
            if of.iter().any(is_raised) {
                class.demand = self.demand(flow, of);
            }
        }
        self.change_media(&mut built, of);
        built
    }

    /// What a flow takes of an idle machine with more of these; payload a nanosecond.
    pub(super) fn demand_with_more(&self, flow: usize, of: &[More]) -> f64 {
        self.demand(&self.flows[flow], of)
    }

    fn demand(&self, flow: &Planned, of: &[More]) -> f64 {
        let raised = flow.with_more(of);
        let least = raised.bounds.iter().map(|bound| bound.1).fold(f64::INFINITY, f64::min);
        let spec = FlowSpec { arrival: Arrival::Closed, ..raised.spec };
        let demand = crate::closed::demand(&self.topology, &spec).unwrap_or(f64::INFINITY);
        (demand * times(of, More::Own(Own::Depth))).min(least)
    }

    /// What limits a flow by itself with more of these.
    pub(super) fn own_limit_with_more(&self, flow: usize, of: &[More]) -> Own {
        self.own_limit(&self.flows[flow].with_more(of))
    }

    /// What limits a flow that waits for a resource, with more of these: that, or the commands of the drive whose medium it is.
    pub(super) fn cause(&self, flow: usize, resource: What, of: &[More]) -> More {
        let flow = &self.flows[flow];
        let What::Medium(drive, op) = resource else { return More::Resource(resource) };
        let raised = flow.medium(drive, times(of, More::Resource(resource)), of);
        let uses = flow.spec.used_by_legs().filter(|used| used.is_of(drive, op));
        let uses = uses.filter(|&used| self.mixed.is_share(&self.topology, used, op));
        let alone = uses.filter_map(|used| used.alone(&self.topology, raised));
        let slowest = alone.min_by(|a, b| a.rate.total_cmp(&b.rate));
        match flow.commands_of(drive) {
            Some(own) if slowest.is_some_and(|alone| alone.is_by_commands) => More::Own(own),
            _ => More::Resource(resource),
        }
    }

    /// Has media take as long for a byte as they do with more of these: what commands bound gains nothing by a faster medium,
    /// and what the medium bounds nothing by more commands.
    fn change_media(&self, built: &mut Built, of: &[More]) {
        for (at, &what) in self.built.what.iter().enumerate() {
            let What::Medium(drive, op) = what else { continue };
            for (flow, class) in self.flows.iter().zip(&mut built.network.classes) {
                let raised = flow.medium(drive, times(of, More::Resource(what)), of);
                let hops = class.legs.iter_mut().flatten();
                let hops = hops.filter(|hop| hop.resource as usize == at);
                let uses = flow.spec.used_by_legs().filter(|used| used.is_of(drive, op));
                let costs = uses.filter_map(|used| self.cost_with(used, op, raised));
                for (hop, more) in hops.zip(costs) {
                    (hop.cost, hop.turn) = (hop.cost * more, hop.turn * more);
                }
            }
        }
    }

    /// How many times as much of a medium's capacity, which is as much more as its rate, a byte of a leg takes.
    fn cost_with(&self, used: Use, op: Option<Op>, more: Raised) -> Option<f64> {
        let alone = |more| used.alone(&self.topology, more);
        let usual = Raised { rate: 1.0, commands: 1.0 };
        let (before, after) = alone(usual).zip(alone(more))?;
        let is_share = self.mixed.is_share(&self.topology, used, op);
        Some(if is_share { more.rate * before.rate / after.rate } else { 1.0 })
    }
}
