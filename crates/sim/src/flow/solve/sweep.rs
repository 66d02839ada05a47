//! One sweep: every leg asks and every resource answers, by rank.
//!
//! Leaves out what a sweep changes for the next one, which `balance` has.

use super::fill::{Filling, NEAR, lesser, nearness};
use super::layout::Stop;
use super::room::Room;
use super::{EDGE, NONE, SLACK, Solver};

impl Solver {
    /// Lets every leg ask and every resource answer, once, by rank.
    pub(super) fn sweep(&mut self, most: f64) {
        self.rate.copy_from_slice(&self.asked);
        self.heads.go(most);
        self.room.fill(Room::default());
        self.waiting.fill(0.0);
        self.delayed.copy_from_slice(&self.waited);
        for &(leg, port) in &self.layout.queued {
            self.delayed[leg as usize] += self.delay[port as usize];
        }
        for &(leg, resource) in &self.layout.stored {
            self.delayed[leg as usize] += self.stored[resource as usize];
        }
        for position in 0..self.layout.stops.len() {
            let stop = self.layout.stops[position];
            if stop.is_plain {
                self.pass(stop);
            } else {
                self.visit(stop);
            }
            if stop.is_held {
                self.release(stop);
            }
            if stop.is_queued {
                self.stand(stop);
            }
        }
        self.heads.take(&self.layout, &self.room);
    }

    /// Notes how near to what it can let go the queue behind a resource is kept.
    fn stand(&mut self, stop: Stop) {
        let (passed, full) = (self.passed[stop.resource], self.effective[stop.resource]);
        let is_held = full < self.capacity[stop.resource];
        self.heads.stand(stop.resource, if is_held { nearness(passed / full, NEAR) } else { 0.0 });
    }

    /// Lets what is sent while a pool is held be no faster than the pool.
    fn release(&mut self, stop: Stop) {
        for &leg in &self.layout.legs[stop.visits()] {
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

    /// Cuts legs that have a buffer each to their turns, where there is no room for all.
    fn pass(&mut self, stop: Stop) {
        let Self { layout, inputs, rate, effective, passed, trace, .. } = self;
        let full = effective[stop.resource];
        let (legs, costs) = (&layout.legs[stop.visits()], &layout.costs[stop.visits()]);
        let inputs = &mut inputs[stop.inputs()];
        let mut filling = Filling::new(full);
        for ((&leg, cost), input) in legs.iter().zip(costs).zip(inputs.iter_mut()) {
            input.ask(rate[leg as usize] * cost);
            filling.add(input);
        }
        passed[stop.resource] = lesser(filling.demand, full);
        if filling.demand <= full * (1.0 - EDGE) {
            return;
        }
        let level = filling.level(inputs).level;
        for ((&leg, cost), input) in legs.iter().zip(costs).zip(inputs) {
            let (rate, most) = (&mut rate[leg as usize], level * input.weight / cost);
            if most < *rate {
                trace.note(&[leg], most / *rate, stop.number());
                *rate = most;
            }
        }
    }

    fn visit(&mut self, stop: Stop) {
        let full = self.effective[stop.resource];
        let filling = self.gather(stop);
        self.passed[stop.resource] = lesser(filling.demand, full);
        if stop.is_waited_for {
            self.pressing[stop.resource] = filling.demand / self.capacity[stop.resource];
            self.meet(stop, filling.demand);
        }
        let is_full = filling.demand > full * (1.0 - EDGE);
        if stop.is_alone {
            self.take_all(stop, is_full);
        } else if stop.has_queues {
            self.take_turns(stop, &filling, is_full);
        } else if is_full {
            self.cut(stop, &filling);
        }
    }

    /// Sums what comes to each input of a resource.
    fn gather(&mut self, stop: Stop) -> Filling {
        if stop.is_mixed {
            return self.gather_mixed(stop);
        }
        let Self { layout, inputs, rate, effective, .. } = self;
        let mut filling = Filling::new(effective[stop.resource]);
        for input in &mut inputs[stop.inputs()] {
            let visits = layout.legs[input.visits()].iter().zip(&layout.costs[input.visits()]);
            let mut demand = 0.0;
            for (&leg, cost) in visits {
                demand += rate[leg as usize] * cost;
            }
            input.ask(demand);
            filling.add(input);
        }
        filling
    }

    /// The same where what one takes in a turn depends on what comes.
    fn gather_mixed(&mut self, stop: Stop) -> Filling {
        let Self { layout, inputs, rate, delayed, effective, counts, .. } = self;
        let mut filling = Filling::new(effective[stop.resource]);
        for input in &mut inputs[stop.inputs()] {
            let (mut demand, mut turns) = (0.0, 0.0);
            let visits = layout.legs[input.visits()].iter().zip(&layout.costs[input.visits()]);
            for ((&leg, cost), each) in visits.zip(&layout.turns[input.visits()]) {
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
            input.take_turns(turn, layout.flows_at_once(input, counts));
            input.ask(demand);
            filling.add(input);
        }
        filling
    }

    /// Lets the only queue in front of a resource have all of it.
    fn take_all(&mut self, stop: Stop, is_full: bool) {
        let Self { layout, inputs, effective, rate, room, trace, .. } = self;
        let input = &inputs[stop.inputs().start];
        if input.demand <= 0.0 {
            return;
        }
        let share = effective[stop.resource] / input.demand;
        room[input.port as usize].limit(share, stop.number());
        if is_full {
            slow_down(rate, &layout.legs[input.visits()], share.min(1.0));
            trace.note(&layout.legs[input.visits()], share.min(1.0), stop.number());
        }
    }

    /// Cuts the inputs of a resource to their turns, of which none is a queue.
    fn cut(&mut self, stop: Stop, filling: &Filling) {
        let Self { layout, inputs, rate, trace, .. } = self;
        let inputs = &inputs[stop.inputs()];
        let level = filling.level(inputs).level;
        for input in inputs {
            let turn = level * input.weight;
            if input.demand > 0.0 && input.demand >= turn * (1.0 - EDGE) {
                let factor = (turn / input.demand).min(1.0);
                slow_down(rate, &layout.legs[input.visits()], factor);
                trace.note(&layout.legs[input.visits()], factor, stop.number());
            }
        }
    }

    /// The same where some are, and notes what that leaves for what is behind.
    fn take_turns(&mut self, stop: Stop, filling: &Filling, is_full: bool) {
        let Self { layout, inputs, crowd, heads, rate, room, trace, .. } = self;
        let inputs = &mut inputs[stop.inputs()];
        let all = filling.level(inputs);
        let spare = filling.spare();
        for (index, input) in inputs.iter().enumerate() {
            if input.demand <= 0.0 {
                continue;
            }
            let turn = all.level * input.weight;
            let mut most = turn;
            if is_full && input.demand >= turn * (1.0 - EDGE) {
                let factor = (turn / input.demand).min(1.0);
                slow_down(rate, &layout.legs[input.visits()], factor);
                trace.note(&layout.legs[input.visits()], factor, stop.number());
            } else if input.port != NONE {
                most = match spare {
                    Some(spare) => spare + input.demand,
                    None => filling.share_if_greedy(inputs, index, all),
                };
            }
            if let Some(room) = room.get_mut(input.port as usize) {
                room.limit(most / input.demand, stop.number());
            }
        }
        heads.wait(crowd, stop, (filling, inputs), all.level, room);
    }
}

fn slow_down(rate: &mut [f64], legs: &[u32], factor: f64) {
    for &leg in legs {
        rate[leg as usize] *= factor;
    }
}
