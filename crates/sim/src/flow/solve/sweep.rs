//! One sweep: every leg asks and every resource answers, by rank.
//!
//! Leaves out what a sweep changes for the next one, which `balance` has.

use super::fill::{Input, nearness};
use super::layout::Stop;
use super::{EDGE, NONE, SLACK, Solver};
use crate::flow::solve::room::Room;

impl Solver {
    /// Lets every leg ask and every resource answer, once, by rank.
    pub(super) fn sweep(&mut self, most: f64) {
        self.rate.copy_from_slice(&self.asked);
        self.heads.take(&self.room, most);
        self.room.fill(Room::default());
        self.waiting.fill(0.0);
        self.delayed.copy_from_slice(&self.waited);
        for &(leg, port) in &self.layout.queued {
            self.delayed[leg as usize] += self.delay[port as usize];
        }
        for position in 0..self.layout.stops.len() {
            let stop = self.layout.stops[position];
            if stop.is_plain && self.pass(stop) {
                continue;
            }
            self.visit(stop);
            if stop.is_held {
                self.release(stop);
            }
        }
    }

    /// Lets what is sent while a pool is held be no faster than the pool.
    fn release(&mut self, stop: Stop) {
        for &leg in &self.layout.legs[self.layout.visits_of(stop)] {
            let most = self.rate[leg as usize] * (1.0 + SLACK);
            for under_way in
                self.layout.legs_of[self.layout.class_of[leg as usize] as usize].clone()
            {
                if self.layout.holder[under_way] == leg {
                    self.rate[under_way] = self.rate[under_way].min(most);
                }
            }
        }
    }

    /// Lets all legs pass where that is all they do. Says whether there was room.
    fn pass(&mut self, stop: Stop) -> bool {
        let Self { layout, rate, effective, passed, .. } = self;
        let visits = layout.visits_of(stop);
        let visits = layout.legs[visits.clone()].iter().zip(&layout.costs[visits]);
        let total: f64 = visits.map(|(&leg, cost)| rate[leg as usize] * cost).sum();
        let full = effective[stop.resource];
        passed[stop.resource] = total.min(full);
        total <= full * (1.0 - EDGE)
    }

    fn visit(&mut self, stop: Stop) {
        let Self { layout, filling, rate, delayed, effective, counts, .. } = self;
        let full = effective[stop.resource];
        let inputs = &mut filling.inputs;
        inputs.clear();
        let mut total = 0.0;
        for arc in &layout.arcs[stop.arcs()] {
            let (mut demand, mut turns) = (0.0, 0.0);
            let visits = arc.visits();
            let legs = &layout.legs[visits.clone()];
            if stop.is_held {
                for (&leg, &cost) in legs.iter().zip(&layout.costs[visits]) {
                    demand += rate[leg as usize] * (cost + delayed[leg as usize]);
                    turns += rate[leg as usize];
                }
            } else if arc.turn > 0.0 {
                for (&leg, &cost) in legs.iter().zip(&layout.costs[visits]) {
                    demand += rate[leg as usize] * cost;
                }
            } else {
                let costs = layout.costs[visits.clone()].iter().zip(&layout.turns[visits]);
                for (&leg, (&cost, &each)) in legs.iter().zip(costs) {
                    let asked = rate[leg as usize] * cost;
                    demand += asked;
                    turns += asked * each;
                }
            }
            // An input that asks for nothing gets it, whatever its turns are.
            let turn = match arc.turn {
                turn if turn > 0.0 && !stop.is_held => turn,
                _ if demand > 0.0 => demand / turns,
                _ => 1.0,
            };
            let mut weight = turn;
            if arc.port == NONE {
                weight *= counts[layout.class_of[legs[0] as usize] as usize].max(1.0);
            }
            total += demand;
            inputs.push(Input { demand, weight, turn });
        }
        self.passed[stop.resource] = total.min(full);
        if stop.is_waited_for {
            self.meet(stop, total);
        }
        let is_full = total > full * (1.0 - EDGE);
        if stop.is_alone {
            self.take_all(stop, is_full);
        } else if is_full || stop.has_queues {
            self.take_turns(stop, is_full);
        }
    }

    /// Lets the only queue in front of a resource have all of it.
    fn take_all(&mut self, stop: Stop, is_full: bool) {
        let Self { layout, filling, effective, rate, room, trace, .. } = self;
        let (arc, demand) = (layout.arcs[stop.arcs().start], filling.inputs[0].demand);
        if demand <= 0.0 {
            return;
        }
        let resource = u32::try_from(stop.resource).unwrap_or(NONE);
        let share = effective[stop.resource] / demand;
        room[arc.port as usize].limit(share, resource);
        if is_full {
            let legs = &layout.legs[arc.visits()];
            legs.iter().for_each(|&leg| rate[leg as usize] *= share.min(1.0));
            trace.note(legs, share.min(1.0), resource);
        }
    }

    /// Cuts the inputs of a resource to their turns, and notes what that leaves for what is behind.
    fn take_turns(&mut self, stop: Stop, is_full: bool) {
        let Self { layout, filling, crowd, heads, rate, room, trace, .. } = self;
        let Self { effective, capacity, passed, .. } = self;
        filling.set(effective[stop.resource]);
        let resource = u32::try_from(stop.resource).unwrap_or(NONE);
        let level = filling.level();
        if stop.has_queues {
            // How near to what it can let go a queue is kept, and how far apart the link to it brings packets.
            let queue = |port: usize, link: usize| {
                let is_held = effective[port] < capacity[port];
                let backlog = if is_held { nearness(passed[port] / effective[port]) } else { 0.0 };
                (backlog, (capacity[stop.resource] / capacity[link]).min(1.0))
            };
            heads.look(crowd, layout, stop, filling, (level, queue));
        }
        for (index, at) in stop.arcs().enumerate() {
            let (arc, input) = (layout.arcs[at], filling.inputs[index]);
            if input.demand <= 0.0 {
                continue;
            }
            let turn = level * input.weight;
            let is_cut = is_full && input.demand >= turn * (1.0 - EDGE);
            if is_cut {
                let factor = (turn / input.demand).min(1.0);
                for &leg in &layout.legs[arc.visits()] {
                    rate[leg as usize] *= factor;
                }
                trace.note(&layout.legs[arc.visits()], factor, resource);
            }
            if arc.port == NONE {
                continue;
            }
            let room = &mut room[arc.port as usize];
            let share = if is_cut { turn } else { filling.share_if_greedy(index) };
            room.limit(share / input.demand, resource);
            if let Some(wait) = heads.wait(crowd, layout, at, index, input) {
                room.wait(wait, resource);
            }
        }
    }
}
