//! One sweep: every leg asks and every resource answers, by rank.
//!
//! Leaves out what a sweep changes for the next one, which `balance` has.

use super::fill::{Filling, Input, nearness};
use super::layout::Stop;
use super::room::Room;
use super::{EDGE, NONE, SLACK, Solver};

impl Solver {
    /// Lets every leg ask and every resource answer, once, by rank.
    pub(super) fn sweep(&mut self, most: f64) {
        self.rate.copy_from_slice(&self.asked);
        self.heads.take(&self.layout, &self.room, most);
        self.room.fill(Room::default());
        self.waiting.fill(0.0);
        self.delayed.copy_from_slice(&self.waited);
        for &(leg, port) in &self.layout.queued {
            self.delayed[leg as usize] += self.delay[port as usize];
        }
        for position in 0..self.layout.stops.len() {
            let stop = self.layout.stops[position];
            if !(stop.is_plain && self.pass(stop)) {
                self.visit(stop);
            }
            if stop.is_held {
                self.release(stop);
            }
            if stop.is_queued {
                self.stand(stop);
            }
        }
    }

    /// Notes how near to what it can let go the queue behind a resource is kept.
    fn stand(&mut self, stop: Stop) {
        let (passed, full) = (self.passed[stop.resource], self.effective[stop.resource]);
        let is_held = full < self.capacity[stop.resource];
        self.heads.stand(stop.resource, if is_held { nearness(passed / full) } else { 0.0 });
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
        let full = self.effective[stop.resource];
        let filling = self.gather(stop);
        self.passed[stop.resource] = filling.demand.min(full);
        if stop.is_waited_for {
            self.meet(stop, filling.demand);
        }
        let is_full = filling.demand > full * (1.0 - EDGE);
        if stop.is_alone {
            self.take_all(stop, is_full);
        } else if is_full || stop.has_queues {
            self.take_turns(stop, &filling, is_full);
        }
    }

    /// Sums what comes to each input of a resource.
    fn gather(&mut self, stop: Stop) -> Filling {
        let Self { layout, inputs, rate, delayed, effective, counts, .. } = self;
        let mut filling = Filling::new(effective[stop.resource]);
        for (arc, input) in layout.arcs[stop.arcs()].iter().zip(&mut inputs[stop.arcs()]) {
            let visits = arc.visits();
            let legs = &layout.legs[visits.clone()];
            let costs = legs.iter().zip(&layout.costs[visits.clone()]);
            if arc.turn > 0.0 && !stop.is_held {
                input.ask(costs.map(|(&leg, cost)| rate[leg as usize] * cost).sum());
            } else {
                let (mut demand, mut turns) = (0.0, 0.0);
                for ((&leg, cost), each) in costs.zip(&layout.turns[visits]) {
                    let rate = rate[leg as usize];
                    if stop.is_held {
                        demand += rate * (cost + delayed[leg as usize]);
                        turns += rate;
                    } else {
                        demand += rate * cost;
                        turns += rate * cost * each;
                    }
                }
                // An input that asks for nothing gets it, whatever its turns are.
                let turn = if demand > 0.0 { demand / turns } else { 1.0 };
                *input = Input::new(turn, layout.flows_at_once(arc, counts));
                input.ask(demand);
            }
            filling.add(input);
        }
        filling
    }

    /// Lets the only queue in front of a resource have all of it.
    fn take_all(&mut self, stop: Stop, is_full: bool) {
        let Self { layout, inputs, effective, rate, room, trace, .. } = self;
        let (arc, demand) = (layout.arcs[stop.arcs().start], inputs[stop.arcs().start].demand);
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
    fn take_turns(&mut self, stop: Stop, filling: &Filling, is_full: bool) {
        let open = self.effective[stop.resource] / self.capacity[stop.resource];
        let Self { layout, inputs, crowd, heads, rate, room, trace, .. } = self;
        let inputs = &inputs[stop.arcs()];
        let resource = u32::try_from(stop.resource).unwrap_or(NONE);
        let all = filling.level(inputs);
        if stop.has_queues {
            heads.look(crowd, stop, (filling, inputs), (all.level, open));
        }
        let arcs = layout.arcs[stop.arcs()].iter().zip(inputs);
        for (index, (arc, input)) in arcs.enumerate().filter(|(_, (_, input))| input.demand > 0.0) {
            let turn = all.level * input.weight;
            let is_cut = is_full && input.demand >= turn * (1.0 - EDGE);
            if is_cut {
                let factor = (turn / input.demand).min(1.0);
                let legs = &layout.legs[arc.visits()];
                legs.iter().for_each(|&leg| rate[leg as usize] *= factor);
                trace.note(legs, factor, resource);
            }
            if arc.port == NONE {
                continue;
            }
            let room = &mut room[arc.port as usize];
            let share = if is_cut { turn } else { filling.share_if_greedy(inputs, index, all) };
            room.limit(share / input.demand, resource);
            let at = stop.arcs().start + index;
            if let Some(wait) = heads.wait(crowd, layout, (at, index), input) {
                room.wait(wait, resource);
            }
        }
    }
}
