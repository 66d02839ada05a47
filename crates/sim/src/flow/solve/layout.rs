//! A part of a network laid out for sweeps: resources by rank, their inputs side by side, the legs of each input side
//! by side.
//!
//! Leaves out every value that changes from round to round.

use std::ops::Range;

use super::arbitration::ArbiterInput;
use crate::flow::network::{NONE, Resource, ResourceVisit};
use crate::flow::parts::PartView;

/// A visited resource, and its place in the layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Station {
    pub resource: usize,
    inputs: (u32, u32),
    visits: (u32, u32),
    /// True if an input is the buffer behind another resource.
    pub has_buffers: bool,
    /// True for a pool: legs hold their share of it until all legs of the stage have passed.
    pub is_pool: bool,
    /// True if packets of legs that hold a pool meet others here.
    pub delays_pools: bool,
    /// True if the quantum of an input depends on the mixture of its legs.
    pub is_mixed: bool,
}

impl Station {
    /// Positions of its inputs.
    pub(super) fn inputs(self) -> Range<usize> {
        self.inputs.0 as usize..self.inputs.1 as usize
    }

    /// Positions of the visits to it.
    pub(super) fn visits(self) -> Range<usize> {
        self.visits.0 as usize..self.visits.1 as usize
    }

    /// Its resource, in the form of [`Input::port`].
    pub(super) fn number(self) -> u32 {
        u32::try_from(self.resource).unwrap_or(NONE)
    }
}

/// The order of a sweep.
#[derive(Debug, Clone, Default)]
pub(super) struct SweepOrder {
    /// Visited resources, lowest rank first.
    pub stations: Vec<Station>,
    /// Resources with a buffer behind them, and pools, lowest rank first.
    pub buffered: Vec<usize>,
    /// The leg of each visit.
    pub legs: Vec<u32>,
    /// Units of the resource for each byte of payload, by visit.
    pub costs: Vec<f64>,
    /// Turns for each unit of the resource, by visit.
    pub turns: Vec<f64>,
    /// Back-to-back packets of each leg.
    pub batch: Vec<f64>,
    /// The pool that each leg holds.
    pub pool: Vec<Option<u32>>,
    /// The leg of the same flow that holds a pool while this one is under way, or [`NONE`].
    pub holder: Vec<u32>,
    /// For each leg that holds a pool, the number of the pool, and of the holders with the same idle round trip.
    groups: Vec<[u32; 2]>,
    /// Number of such groups.
    pub group_count: usize,
    /// Pool-holding legs, each with a buffer that its answers pass.
    pub queued: Vec<(u32, u32)>,
    /// True for a buffer in which all traffic holds a pool.
    pub is_pooled: Vec<bool>,
    /// The stage of each leg in its class.
    pub stage: Vec<usize>,
    /// The class of each leg.
    pub class_of: Vec<u32>,
    /// Classes of several legs.
    pub coupled: Vec<usize>,
    /// Legs that hold a pool.
    pub holders: Vec<u32>,
    /// Strict-priority load: class, resource, and units for each byte of payload.
    pub priority: Vec<(u32, u32, f64)>,
    /// The legs of each class.
    pub legs_of: Vec<Range<usize>>,
}

/// A visit of a leg to a resource.
#[derive(Clone, Copy)]
struct Visit<'a> {
    hop: &'a ResourceVisit,
    leg: u32,
}

impl Visit<'_> {
    /// True if both arrive by one input.
    fn shares_input(&self, other: &Self) -> bool {
        self.hop.port == other.hop.port && (self.hop.port != NONE || self.leg == other.leg)
    }
}

impl SweepOrder {
    /// The layout of a part, and the inputs of its resources.
    pub(super) fn new(view: PartView, resources: &[Resource]) -> (Self, Vec<ArbiterInput>) {
        let mut layout = Self::default();
        for (class, index) in view.classes().zip(0..) {
            let first = layout.class_of.len();
            for (position, leg) in class.legs.iter().enumerate() {
                layout.stage.push(class.stages.partition_point(|&first| first <= position));
                layout.class_of.push(index);
                layout.batch.push(class.batch.get(position).copied().unwrap_or(1.0));
                let first = leg.first().map(|hop| view.local(hop.resource));
                layout.pool.push(first.filter(|&first| resources[first as usize].is_pool));
            }
            if layout.class_of.len() > first + 1 {
                layout.coupled.push(layout.legs_of.len());
            }
            let priority = class.priority.iter();
            let local = |&(resource, cost): &(u32, f64)| (index, view.local(resource), cost);
            layout.priority.extend(priority.map(local));
            layout.legs_of.push(first..layout.class_of.len());
        }
        let pools = (0..).zip(&layout.pool).filter(|(_, pool)| pool.is_some());
        layout.holders = pools.map(|(leg, _)| leg).collect();
        let inputs = layout.take(view, resources);
        layout.find_buffers(&inputs, resources.len());
        layout.find_holders(view, &inputs, resources);
        layout.group_holders(view);
        (layout, inputs)
    }

    /// Turns of an input in a round: one, or one of each flow of the class where they have a buffer each.
    pub(super) fn flows_at_once(&self, input: &ArbiterInput, counts: &[f64]) -> f64 {
        let leg = self.legs[input.visits().start] as usize;
        if input.port == NONE { counts[self.class_of[leg] as usize].max(1.0) } else { 1.0 }
    }

    /// The groups of the leg that holds a pool during a visit.
    pub(super) fn groups_at(&self, visit: usize) -> Option<[usize; 2]> {
        let holder = self.holder[self.legs[visit] as usize];
        (holder != NONE).then(|| self.groups[holder as usize].map(|group| group as usize))
    }

    /// Takes all visits in the order of a sweep: resources by rank, their ports, the legs of each port.
    fn take(&mut self, view: PartView, resources: &[Resource]) -> Vec<ArbiterInput> {
        let legs = view.classes().flat_map(|class| &class.legs).zip(0..);
        let visits = legs.flat_map(|(hops, leg)| hops.iter().map(move |hop| Visit { hop, leg }));
        let mut visits: Vec<Visit> = visits.collect();
        visits.sort_by_key(|Visit { hop, .. }| {
            let resource = view.local(hop.resource);
            (resources[resource as usize].rank, resource, view.local(hop.port))
        });
        self.legs = visits.iter().map(|visit| visit.leg).collect();
        self.costs = visits.iter().map(|visit| visit.hop.cost).collect();
        self.turns = visits.iter().map(|visit| visit.hop.quantum.recip()).collect();
        let (mut inputs, mut begin) = (Vec::new(), 0);
        for visits in visits.chunk_by(|a, b| a.hop.resource == b.hop.resource) {
            let (first_input, first_visit) = (inputs.len(), begin);
            let mut is_even = true;
            for beside in visits.chunk_by(Visit::shares_input) {
                let ResourceVisit { port, quantum, .. } = *beside[0].hop;
                is_even &= beside.iter().all(|visit| visit.hop.quantum == quantum);
                let end = begin + beside.len();
                inputs.push(ArbiterInput::new(view.local(port), begin..end, quantum));
                begin = end;
            }
            let resource = view.local(visits[0].hop.resource) as usize;
            let is_pool = resources[resource].is_pool;
            self.stations.push(Station {
                resource,
                inputs: compact(first_input..inputs.len()),
                visits: compact(first_visit..begin),
                // `NONE` sorts last.
                has_buffers: inputs[first_input].port != NONE,
                is_pool,
                delays_pools: false,
                is_mixed: is_pool || !is_even,
            });
        }
        inputs
    }

    fn find_buffers(&mut self, inputs: &[ArbiterInput], resources: usize) {
        let mut has_buffer = vec![false; resources];
        for input in inputs.iter().filter(|input| input.port != NONE) {
            has_buffer[input.port as usize] = true;
        }
        let buffered = |station: &&Station| station.is_pool || has_buffer[station.resource];
        let stations = self.stations.iter().filter(buffered);
        self.buffered = stations.map(|station| station.resource).collect();
        self.is_pooled = has_buffer;
    }

    /// Finds which leg holds a pool while others of its stage are under way.
    fn find_holders(&mut self, view: PartView, inputs: &[ArbiterInput], resources: &[Resource]) {
        self.holder = vec![NONE; self.class_of.len()];
        for (class, legs) in self.legs_of.iter().enumerate() {
            for (leg, hops) in legs.clone().zip(&view.class(class).legs) {
                // A single visit without a buffer in front waits at the device itself.
                let is_chain = hops.len() > 1 || hops.iter().any(|hop| hop.port != NONE);
                let holder = legs.clone().find(|&other| {
                    self.pool[other].is_some() && self.stage[other] == self.stage[leg]
                });
                if let Some(holder) = holder.filter(|_| is_chain && self.pool[leg].is_none()) {
                    self.holder[leg] = u32::try_from(holder).unwrap_or(NONE);
                }
            }
        }
        for position in 0..self.stations.len() {
            let station = self.stations[position];
            let mut legs = self.legs[station.visits()].iter();
            self.stations[position].delays_pools = resources[station.resource].is_sender
                && legs.any(|&leg| self.holder[leg as usize] != NONE);
        }
        for input in inputs.iter().filter(|input| input.port != NONE) {
            let mut legs = self.legs[input.visits()].iter();
            self.is_pooled[input.port as usize] &=
                legs.all(|&leg| self.holder[leg as usize] != NONE);
        }
        for (class, legs) in self.legs_of.iter().enumerate() {
            for (leg, hops) in legs.clone().zip(&view.class(class).legs) {
                // A buffer of few credits and its link stand behind one queue.
                let queues = hops.chunk_by(|a, b| a.port == b.port).map(|hops| hops[0].port);
                let queues = queues.filter(|&port| port != NONE).map(|port| view.local(port));
                let queues = queues.filter(|&port| self.is_pooled[port as usize]);
                let holder = self.holder[leg];
                self.queued.extend(queues.filter(|_| holder != NONE).map(|port| (holder, port)));
            }
        }
    }

    /// Numbers pools, and the holders of each pool whose idle round trips are equal to a nanosecond.
    fn group_holders(&mut self, view: PartView) {
        self.groups = vec![[0; 2]; if self.holders.is_empty() { 0 } else { self.class_of.len() }];
        let mut holders: Vec<(Option<u32>, u64, usize)> = Vec::with_capacity(self.holders.len());
        for leg in self.holders.iter().map(|&leg| leg as usize) {
            let class = self.class_of[leg] as usize;
            let hop = view.class(class).legs[leg - self.legs_of[class].start].first();
            let round_trip = hop.map_or(0.0, |hop| hop.cost);
            holders.push((self.pool[leg], round_trip.round().to_bits(), leg));
        }
        holders.sort_unstable();
        let mut number = || {
            self.group_count += 1;
            u32::try_from(self.group_count - 1).unwrap_or(NONE)
        };
        for pool in holders.chunk_by(|a, b| a.0 == b.0) {
            let of_pool = number();
            for alike in pool.chunk_by(|a, b| a.1 == b.1) {
                let of_alike = number();
                alike.iter().for_each(|&(.., leg)| self.groups[leg] = [of_pool, of_alike]);
            }
        }
    }
}

/// Positions as they are kept.
pub(super) fn compact(positions: Range<usize>) -> (u32, u32) {
    let number = |at| u32::try_from(at).unwrap_or(NONE);
    (number(positions.start), number(positions.end))
}
