//! One sweep: every leg asks and every resource answers, by rank.
//!
//! Leaves out what a sweep changes for the next one, which `balance` has.

use super::fill::{Input, NEAR, nearness};
use super::layout::Stop;
use super::{EDGE, NONE, SLACK, Solver};
use crate::flow::solve::room::Room;

impl Solver {
    /// Lets every leg ask and every resource answer, once, by rank.
    pub(super) fn sweep(&mut self) {
        self.rate.copy_from_slice(&self.asked);
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
        let Self { layout, filling, rate, delayed, effective, capacity, delay, counts, .. } = self;
        let full = effective[stop.resource];
        let inputs = &mut filling.inputs;
        inputs.clear();
        let mut total = 0.0;
        let mut has_room = false;
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
            } else {
                let port = arc.port as usize;
                has_room |= effective[port] < capacity[port] || delay[port] > 0.0;
            }
            total += demand;
            inputs.push(Input { demand, weight, turn });
        }
        self.passed[stop.resource] = total.min(full);
        if stop.is_waited_for {
            self.meet(stop, total);
        }
        if total > full * (1.0 - NEAR) || has_room {
            self.take_turns(stop, total > full * (1.0 - EDGE));
        }
    }

    /// Cuts the inputs of a resource to their turns, and notes what that leaves for what is behind.
    fn take_turns(&mut self, stop: Stop, is_full: bool) {
        let counts = self.counts_beside_sender(stop);
        let Self { layout, filling, rate, room, trace, .. } = self;
        filling.set(self.effective[stop.resource]);
        let resource = u32::try_from(stop.resource).unwrap_or(NONE);
        let level = filling.level();
        let backlog =
            if stop.has_queues { filling.backlog(level) } else { super::fill::Backlog::default() };
        for (index, arc) in layout.arcs[stop.arcs()].iter().enumerate() {
            let input = filling.inputs[index];
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
            if arc.port != NONE {
                let share = if is_cut { turn } else { filling.share_if_greedy(index) };
                let room = &mut room[arc.port as usize];
                room.limit(share / input.demand, resource);
                room.wait(input, filling.without(backlog, index), counts);
            }
        }
    }

    /// How much of the waits for a buffer counts: a head waits for its turn at the sender and for room behind it
    /// at once, so that nothing is added where the sender was as good as full in the sweep before.
    fn counts_beside_sender(&self, stop: Stop) -> f64 {
        match self.layout.senders[stop.resource] {
            NONE => 1.0,
            sender => {
                let sender = sender as usize;
                1.0 - nearness(self.passed[sender] / self.effective[sender])
            }
        }
    }
}
