//! How long packets wait for each other where they meet, though nothing is full.
//!
//! Leaves out full queues, which `balance` has. It counts for legs that hold a pool meanwhile: the others
//! are no slower for it.

use super::layout::Stop;
use super::{NONE, Solver};

impl Solver {
    /// Adds to what legs wait the time at a resource of which so much is asked for.
    ///
    /// A packet finds half of one under way, and the others that came before: `W = sum(rho B) / 2 / (1 -
    /// rho)` (Pollaczek, 1930). Of what its own pool has under way it finds all but itself (Schweitzer,
    /// 1979), and nothing of what comes by the same way, since the answers of a pool are as far apart as
    /// the requests were. Nobody waits for more than a turn of each other input for each packet.
    pub(super) fn meet(&mut self, stop: Stop, total: f64) {
        let Self { layout, filling, scratch, rate, capacity, waiting, .. } = self;
        let capacity = capacity[stop.resource];
        let load = (total / capacity).min(1.0);
        // Where more is asked for than fits, what passes is less by a factor.
        let fits = load / total.max(1e-12);
        let share = |at: usize| rate[layout.legs[at] as usize] * layout.costs[at] * fits;
        let batch = |at: usize| layout.in_row[at] / layout.turns[at] / capacity;
        let arcs = &layout.arcs[stop.arcs()];
        let (mut turns, mut all) = (0.0, 0.0);
        for (arc, input) in arcs.iter().zip(&filling.inputs).filter(|(_, input)| input.demand > 0.0)
        {
            turns += input.weight;
            for at in arc.visits() {
                all += share(at) * batch(at) / 2.0;
                if let Some(pool) = layout.pool_of(at) {
                    scratch.pool[pool] += share(at);
                }
            }
        }
        for (arc, input) in arcs.iter().zip(&filling.inputs).filter(|(_, input)| input.demand > 0.0)
        {
            let mut own = 0.0;
            for at in arc.visits() {
                let half = share(at) * batch(at) / 2.0;
                own += half;
                if let Some(pool) = layout.pool_of(at) {
                    scratch.pool_here[pool] += half;
                }
            }
            // One that is as slow brings its packets one after the other.
            let apart = if arc.port == NONE {
                0.0
            } else {
                capacity / self.resources[arc.port as usize].capacity
            };
            let burst = 1.0 - apart.min(1.0);
            for at in arc.visits() {
                let Some(pool) = layout.pool_of(at) else { continue };
                let holder = layout.holder[layout.legs[at] as usize] as usize;
                let itself = scratch.pool[pool] / layout.most_held[holder];
                let found =
                    all - own + burst * (own - scratch.pool_here[pool]) - itself * batch(at);
                let most = (turns - input.weight) * (layout.in_row[at] + 0.5) / capacity;
                waiting[holder] += (found.max(0.0) / (1.0 - load + itself).max(1e-6)).min(most);
            }
            arc.visits()
                .filter_map(|at| layout.pool_of(at))
                .for_each(|pool| scratch.pool_here[pool] = 0.0);
        }
        layout
            .visits_of(stop)
            .filter_map(|at| layout.pool_of(at))
            .for_each(|pool| scratch.pool[pool] = 0.0);
    }
}
