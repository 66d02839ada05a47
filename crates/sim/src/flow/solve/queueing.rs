//! Queueing delay below saturation: packets that find others at a sender.
//!
//! Leaves out full buffers, see `backpressure`. It counts for legs that hold a pool meanwhile: the rate of the others
//! does not depend on it.

use super::layout::Station;
use super::{NONE, ROUND_TRIP, Solver};

/// Load of some legs at a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    /// Share of its time.
    share: f64,
    /// Residual service that an arrival finds, in nanoseconds: half a batch, as often as one is served.
    residual: f64,
    /// The same of the legs of one input.
    here: f64,
}

impl Load {
    /// Residual service that an arrival of this input finds, with a share of the load of its own input.
    fn found(self, own: f64) -> f64 {
        self.residual - self.here + own * self.here
    }
}

impl Solver {
    /// Adds the queueing delay at a sender with so much offered load to the legs that hold a pool.
    ///
    /// An arrival finds half of the batch in service and those queued before it: `W = sum(rho B) / 2 / (1 - rho)`
    /// (Pollaczek, 1930). Of its own pool it finds all but itself, a share `1/tags` (Reiser and Lavenberg, 1980;
    /// Schweitzer, 1979), and none of those with its own round trip, which return as far apart as they went. Traffic of
    /// one link queued there: of two senders in series with service times `B'` and `B`, `1 - B'^2 / B^2` is left
    /// for the second (Friedman, 1965). Nobody waits for more than a turn of each other input for each packet.
    pub(super) fn contend(&mut self, station: Station, offered: f64) {
        let Self { layout, inputs, loads, rate, capacity, contention, .. } = self;
        let capacity = capacity[station.resource];
        let load = (offered / capacity).min(1.0);
        // Beyond saturation all pass in proportion.
        let fits = load / offered.max(1e-12);
        let share = |at: usize| rate[layout.legs[at] as usize] * layout.costs[at] * fits;
        let batch = |at: usize| layout.batch[layout.legs[at] as usize];
        let residual = |at: usize| share(at) * batch(at) / layout.turns[at] / capacity / 2.0;
        let inputs = inputs[station.inputs()].iter().filter(|input| input.demand > 0.0);
        let (mut round, mut all) = (0.0, Load::default());
        for input in inputs.clone() {
            round += input.weight;
            for at in input.visits() {
                all.residual += residual(at);
                for group in layout.groups_at(at).into_iter().flatten() {
                    loads[group].share += share(at);
                    loads[group].residual += residual(at);
                }
            }
        }
        for input in inputs.clone() {
            all.here = 0.0;
            for at in input.visits() {
                all.here += residual(at);
                for group in layout.groups_at(at).into_iter().flatten() {
                    loads[group].here += residual(at);
                }
            }
            let upstream = self.resources.get(input.port as usize).filter(|_| input.port != NONE);
            let apart = upstream.map_or(0.0, |from| (capacity / from.capacity).min(1.0));
            let own = 1.0 - apart * apart;
            for at in input.visits() {
                let Some([pool, alike]) = layout.groups_at(at) else { continue };
                let holder = layout.holder[layout.legs[at] as usize] as usize;
                let itself = layout.batch[holder].max(1.0).recip();
                let (pool, alike) = (loads[pool], loads[alike].found(own));
                let found = all.found(own) - alike - itself * (pool.found(own) - alike);
                let most = (round - input.weight) * batch(at) / capacity;
                let left = (1.0 - load + itself * pool.share).max(1e-6);
                contention[holder] += (found.max(0.0) / left).min(most);
            }
            for group in input.visits().filter_map(|at| layout.groups_at(at)).flatten() {
                loads[group].here = 0.0;
            }
        }
        for group in station.visits().filter_map(|at| layout.groups_at(at)).flatten() {
            loads[group] = Load::default();
        }
    }

    /// Takes over the queueing delays of this sweep. Returns the largest change as a share of a round trip.
    pub(super) fn settle_contention(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for leg in self.layout.holders.iter().map(|&leg| leg as usize) {
            let change = self.contention[leg] - self.waited[leg];
            residual = residual.max(change.abs() / (ROUND_TRIP + self.waited[leg]));
            self.waited[leg] += change * most.min(0.5);
        }
        residual
    }
}
