//! A network laid out for sweeps: resources by rank, their inputs side by side, the legs of each input
//! side by side.
//!
//! Leaves out every value that changes from round to round.

use std::ops::Range;

use super::fill::Input;
use crate::flow::network::{Hop, NONE, Resource};
use crate::flow::parts::View;

/// A resource that is visited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// Which resource.
    pub resource: usize,
    /// First input, and one after the last; the same of the visits of legs by them.
    inputs: (u32, u32),
    visits: (u32, u32),
    /// Whether an input is the queue behind another resource.
    pub has_queues: bool,
    /// Whether legs hold what they take of it until all of the stage have passed.
    pub is_held: bool,
    /// Whether it makes legs wait that hold a pool meanwhile, even where it is not full.
    pub is_waited_for: bool,
    /// Whether all that comes has a buffer to itself, and it does nothing but cut what is too much.
    pub is_plain: bool,
    /// Whether one queue alone comes here, and goes nowhere else.
    pub is_alone: bool,
    /// Whether a queue stands behind it.
    pub is_queued: bool,
    /// Whether what one takes in a turn depends on what comes by some input.
    pub is_mixed: bool,
}

impl Stop {
    /// Its resource, as others name it.
    pub(super) fn number(self) -> u32 {
        u32::try_from(self.resource).unwrap_or(NONE)
    }

    /// Positions of its inputs.
    pub(super) fn inputs(self) -> Range<usize> {
        self.inputs.0 as usize..self.inputs.1 as usize
    }

    /// Positions of the visits to it.
    pub(super) fn visits(self) -> Range<usize> {
        self.visits.0 as usize..self.visits.1 as usize
    }
}

/// Everything that a sweep walks over.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// Visited resources, lowest rank first.
    pub stops: Vec<Stop>,
    /// Those with a queue behind them, and pools.
    pub queues: Vec<usize>,
    /// The link that brings what is in the queue behind each resource: the resource itself, or of a buffer the link to it.
    pub brought_by: Vec<u32>,
    /// The leg of each visit.
    pub legs: Vec<u32>,
    /// Units of the resource for each byte of payload, by visit.
    pub costs: Vec<f64>,
    /// Turns for each unit of the resource, by visit.
    pub turns: Vec<f64>,
    /// Packets of each leg that come in a row.
    pub in_row: Vec<f64>,
    /// What each leg holds until the others have passed.
    pub held: Vec<Option<u32>>,
    /// The leg that holds a pool while this one is under way, or [`NONE`].
    pub holder: Vec<u32>,
    /// For each leg that holds a pool, the sets that it belongs to: all that hold this pool, and those that
    /// do so as long when nothing waits. Numbers below [`sets`](Self::sets).
    member: Vec<[u32; 2]>,
    /// How many sets there are.
    pub sets: usize,
    /// Legs that hold a pool, with the queues that what they wait for stands in, by pool.
    pub queued: Vec<(u32, u32)>,
    /// Legs that hold a pool, with the resources in whose egress buffer what they wait for stands, and those resources.
    pub stored: Vec<(u32, u32)>,
    pub storing: Vec<usize>,
    /// Whether all that waits in the queue behind a resource holds a pool meanwhile.
    pub is_windowed: Vec<bool>,
    /// Whether each leg belongs to the second stage.
    pub is_second: Vec<bool>,
    /// The class of each leg.
    pub class_of: Vec<u32>,
    /// Classes of several legs.
    pub joined: Vec<usize>,
    /// Legs that hold a pool.
    pub holders: Vec<u32>,
    /// What goes ahead, by class: the class, the resource, and units of it for each byte of payload.
    pub ahead: Vec<(u32, u32, f64)>,
    /// The legs of each class.
    pub legs_of: Vec<Range<usize>>,
}

/// A visit of a leg to a resource. All of them together take most memory, so that what the network has is left there.
#[derive(Clone, Copy)]
struct Visit<'a> {
    hop: &'a Hop,
    leg: u32,
}

impl Visit<'_> {
    /// Whether both come by one input.
    fn is_beside(&self, other: &Self) -> bool {
        self.hop.port == other.hop.port && (self.hop.port != NONE || self.leg == other.leg)
    }
}

/// Visits by a number of each below `count`; those of the same number stay in order.
fn by_number<'a>(
    visits: impl Iterator<Item = Visit<'a>> + Clone,
    count: usize,
    number: impl Fn(&Hop) -> usize,
) -> Vec<Visit<'a>> {
    let Some(any) = visits.clone().next() else { return Vec::new() };
    let mut next = vec![0; count];
    visits.clone().for_each(|visit| next[number(visit.hop)] += 1);
    let mut sum = 0;
    next.iter_mut().for_each(|next| sum += std::mem::replace(next, sum));
    let mut sorted = vec![any; sum];
    visits.for_each(|visit| {
        let next = &mut next[number(visit.hop)];
        sorted[*next] = visit;
        *next += 1;
    });
    sorted
}

/// All visits in the order in which sweeps meet them: resources by rank, of each its ports, and of each of those its
/// legs.
fn in_order<'a>(view: View<'a>, resources: &[Resource]) -> Vec<Visit<'a>> {
    let legs = view.classes().flat_map(|class| &class.legs).zip(0..);
    let visits = legs.flat_map(|(hops, leg)| hops.iter().map(move |hop| Visit { hop, leg }));
    let mut order: Vec<(u32, usize)> = resources.iter().map(|of| of.rank).zip(0..).collect();
    order.sort_unstable();
    let count = order.len();
    let mut place = vec![0; count];
    order.iter().zip(0..).for_each(|(&(_, resource), at)| place[resource] = at);
    let by_port = by_number(visits, count + 1, |hop| count.min(view.local(hop.port) as usize));
    let place = |hop: &Hop| place[view.local(hop.resource) as usize];
    by_number(by_port.iter().copied(), count, place)
}

impl Layout {
    /// The sets that the leg belongs to which holds a pool while the leg of a visit is under way.
    pub(super) fn sets_of(&self, visit: usize) -> Option<[usize; 2]> {
        let holder = self.holder[self.legs[visit] as usize];
        (holder != NONE).then(|| self.member[holder as usize].map(|set| set as usize))
    }

    /// How many turns an input has in a round: one, or one for each flow of the class where they have a buffer each.
    pub(super) fn flows_at_once(&self, input: &Input, counts: &[f64]) -> f64 {
        let leg = self.legs[input.visits().start] as usize;
        if input.port == NONE { counts[self.class_of[leg] as usize].max(1.0) } else { 1.0 }
    }

    /// Lays out a part of a network, with the inputs of its resources side by side.
    pub(super) fn of(view: View, resources: &[Resource]) -> (Self, Vec<Input>) {
        let mut layout = Self::default();
        let classes = view.part.first.len();
        let legs = view.classes().map(|class| class.legs.len()).sum();
        layout.is_second.reserve_exact(legs);
        layout.class_of.reserve_exact(legs);
        layout.in_row.reserve_exact(legs);
        layout.held.reserve_exact(legs);
        layout.legs_of.reserve_exact(classes);
        layout.ahead.reserve_exact(view.classes().map(|class| class.ahead.len()).sum());
        layout.stops.reserve_exact(resources.len());
        for (class, index) in view.classes().zip(0..) {
            let first = layout.class_of.len();
            for (position, leg) in class.legs.iter().enumerate() {
                layout.is_second.push(class.second > 0 && position >= class.second);
                layout.class_of.push(index);
                let first = leg.first().map(|hop| view.local(hop.resource));
                layout.in_row.push(class.in_row.get(position).copied().unwrap_or(1.0));
                layout.held.push(first.filter(|&first| resources[first as usize].is_held));
            }
            if layout.class_of.len() > first + 1 {
                layout.joined.push(layout.legs_of.len());
            }
            let ahead = class.ahead.iter();
            layout.ahead.extend(ahead.map(|&(resource, cost)| (index, view.local(resource), cost)));
            layout.legs_of.push(first..layout.class_of.len());
        }
        layout.holders = (0..)
            .zip(&layout.held)
            .filter(|(_, held)| held.is_some())
            .map(|(leg, _)| leg)
            .collect();
        layout.group(view);
        let mut inputs = layout.take(view, &in_order(view, resources), resources);
        layout.lead(view, &mut inputs, resources.len());
        layout.queue(&inputs, resources.len());
        layout.hold(view, &inputs, resources);
        (layout, inputs)
    }

    /// Numbers pools, and sets of legs that hold one equally long, to a nanosecond.
    fn group(&mut self, view: View) {
        if self.holders.is_empty() {
            return;
        }
        self.member = vec![[0; 2]; self.class_of.len()];
        let mut holders: Vec<(Option<u32>, u64, usize)> = Vec::with_capacity(self.holders.len());
        for &leg in &self.holders {
            let leg = leg as usize;
            let class = self.class_of[leg] as usize;
            let hop = view.class(class).legs[leg - self.legs_of[class].start].first();
            let idle = hop.map_or(0.0, |hop| hop.cost);
            holders.push((self.held[leg], idle.round().to_bits(), leg));
        }
        holders.sort_unstable();
        for pool in holders.chunk_by(|a, b| a.0 == b.0) {
            let number = u32::try_from(self.sets).unwrap_or(NONE);
            self.sets += 1;
            for alike in pool.chunk_by(|a, b| a.1 == b.1) {
                let set = u32::try_from(self.sets).unwrap_or(NONE);
                alike.iter().for_each(|&(.., leg)| self.member[leg] = [number, set]);
                self.sets += 1;
            }
        }
    }

    /// Finds who holds what while legs are under way. A leg of one visit without a queue in front waits
    /// somewhere that is not modelled.
    fn hold(&mut self, view: View, inputs: &[Input], resources: &[Resource]) {
        self.holder = vec![NONE; self.class_of.len()];
        self.is_windowed = vec![false; resources.len()];
        if self.holders.is_empty() {
            return;
        }
        for (class, legs) in self.legs_of.iter().enumerate() {
            for (leg, hops) in legs.clone().zip(&view.class(class).legs) {
                let is_chain = hops.len() > 1 || hops.iter().any(|hop| hop.port != NONE);
                let holder = legs.clone().find(|&other| {
                    self.held[other].is_some() && self.is_second[other] == self.is_second[leg]
                });
                if let Some(holder) = holder.filter(|_| is_chain && self.held[leg].is_none()) {
                    self.holder[leg] = u32::try_from(holder).unwrap_or(NONE);
                }
            }
        }
        for position in 0..self.stops.len() {
            let stop = self.stops[position];
            let mut held = stop.visits().map(|at| self.holder[self.legs[at] as usize]);
            let is_waited_for =
                resources[stop.resource].is_sender && held.any(|holder| holder != NONE);
            self.is_windowed[stop.resource] = stop.is_queued;
            let stop = &mut self.stops[position];
            stop.is_waited_for = is_waited_for;
            stop.is_plain &= !is_waited_for;
        }
        for input in inputs.iter().filter(|input| input.port != NONE) {
            let mut legs = self.legs[input.visits()].iter();
            self.is_windowed[input.port as usize] &=
                legs.all(|&leg| self.holder[leg as usize] != NONE);
        }
        for (class, legs) in self.legs_of.iter().enumerate() {
            for (leg, hops) in legs.clone().zip(&view.class(class).legs) {
                // A buffer of few credits and its link are behind one queue.
                let queues = hops.chunk_by(|a, b| a.port == b.port).map(|hops| hops[0].port);
                let queues = queues.filter(|&port| port != NONE).map(|port| view.local(port));
                let queues = queues.filter(|&port| self.is_windowed[port as usize]);
                let holder = self.holder[leg];
                self.queued.extend(queues.filter(|_| holder != NONE).map(|port| (holder, port)));
            }
        }
        self.queued.sort_unstable_by_key(|&(leg, queue)| (self.held[leg as usize], leg, queue));
        self.queued.shrink_to_fit();
        for &stop in &self.stops {
            if stop.is_waited_for && resources[stop.resource].egress > 0.0 {
                let legs = self.legs[stop.visits()].iter();
                let holders = legs.map(|&leg| self.holder[leg as usize]);
                let holders = holders.filter(|&holder| holder != NONE);
                self.stored.extend(holders.map(|holder| (holder, stop.number())));
                self.storing.push(stop.resource);
            }
        }
        self.stored.shrink_to_fit();
    }

    /// Finds inputs of one queue that legs come by one after the other: a buffer of few credits and the link to it.
    fn lead(&mut self, view: View, inputs: &mut [Input], resources: usize) {
        self.brought_by = (0..).take(resources).collect();
        let mut legs = view.classes().flat_map(|class| &class.legs);
        if !legs.any(|hops| hops.windows(2).any(|pair| pair[0].port == pair[1].port)) {
            return;
        }
        let mut last = vec![(usize::MAX, 0); self.class_of.len()];
        for stop in &self.stops {
            for at in stop.inputs() {
                let Input { port, .. } = inputs[at];
                for &leg in &self.legs[inputs[at].visits()] {
                    let before = std::mem::replace(&mut last[leg as usize], (at, stop.resource));
                    let (before, buffer) = before;
                    if before != usize::MAX && inputs[before].port == port {
                        inputs[before].next = u32::try_from(at).unwrap_or(NONE);
                        self.brought_by[buffer] = u32::try_from(stop.resource).unwrap_or(NONE);
                    }
                }
            }
        }
    }

    /// Finds which resources have a queue behind them, and which of those go on by one output only.
    fn queue(&mut self, inputs: &[Input], resources: usize) {
        let mut outputs = vec![0_u32; resources];
        for input in inputs.iter().filter(|input| input.port != NONE && input.next == NONE) {
            outputs[input.port as usize] += 1;
        }
        for stop in &mut self.stops {
            let inputs = &inputs[stop.inputs()];
            let port = inputs[0].port;
            stop.is_queued = outputs[stop.resource] > 0;
            stop.is_alone =
                !stop.is_held && inputs.len() == 1 && port != NONE && outputs[port as usize] == 1;
            if stop.is_queued || stop.is_held {
                self.queues.push(stop.resource);
            }
        }
    }

    /// Takes all visits, in order, and returns the inputs that they come by.
    fn take(&mut self, view: View, visits: &[Visit], resources: &[Resource]) -> Vec<Input> {
        self.legs = visits.iter().map(|visit| visit.leg).collect();
        self.costs = visits.iter().map(|visit| visit.hop.cost).collect();
        self.turns = visits.iter().map(|visit| visit.hop.turn.recip()).collect();
        let mut inputs = Vec::new();
        let mut begin = 0;
        for visits in visits.chunk_by(|a, b| a.hop.resource == b.hop.resource) {
            let (first, first_visit) = (inputs.len(), begin);
            let mut is_even = true;
            for beside in visits.chunk_by(Visit::is_beside) {
                let Hop { port, turn, .. } = *beside[0].hop;
                is_even &= beside.iter().all(|visit| visit.hop.turn == turn);
                let end = begin + beside.len();
                inputs.push(Input::new(view.local(port), begin..end, turn));
                begin = end;
            }
            let resource = view.local(visits[0].hop.resource) as usize;
            let is_held = resources[resource].is_held;
            // Those that are none come last.
            let has_queues = inputs[first].port != NONE;
            self.stops.push(Stop {
                resource,
                inputs: numbers(first..inputs.len()),
                visits: numbers(first_visit..begin),
                has_queues,
                is_held,
                is_waited_for: false,
                is_plain: !is_held && !has_queues,
                is_alone: false,
                is_queued: false,
                is_mixed: is_held || !is_even,
            });
        }
        inputs.shrink_to_fit();
        inputs
    }
}

/// Positions as they are kept.
pub(super) fn numbers(positions: Range<usize>) -> (u32, u32) {
    let number = |at| u32::try_from(at).unwrap_or(NONE);
    (number(positions.start), number(positions.end))
}
