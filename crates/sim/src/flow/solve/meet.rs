//! How long packets wait for each other where they meet, though nothing is full.
//!
//! Leaves out full queues, which `balance` has. It counts for legs that hold a pool meanwhile: the others
//! are no slower for it.

use super::layout::Stop;
use super::{NONE, Solver};

/// What some legs put on a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Met {
    /// Their share of its time.
    share: f64,
    /// What a packet that comes at random finds of theirs under way, as time: half of what comes in a row.
    found: f64,
    /// The same of those that come by one input.
    here: f64,
}

impl Met {
    /// What one that comes by that input meets of it, when so much of what comes by the same is not apart.
    fn meets(self, together: f64) -> f64 {
        self.found - self.here + together * self.here
    }
}

impl Solver {
    /// Adds to what legs wait the time at a resource of which so much is asked for.
    ///
    /// A packet finds half of one under way, and the others that came before: `W = sum(rho B) / 2 / (1 -
    /// rho)` (Pollaczek, 1930). Of what its own pool has under way it finds all but itself, a share `1/tags`
    /// (Reiser and Lavenberg, 1980; Schweitzer, 1979), and nothing of what is under way as long as it is,
    /// since that comes back as far apart as it went. What comes over one link waited for each other there: of
    /// two senders one after the other, each with its time `B`, packets wait as at the slower one alone
    /// (Friedman, 1965), so that `1 - B'^2 / B^2` is left for the second. Nobody waits for more than a turn of
    /// each other input for each packet.
    pub(super) fn meet(&mut self, stop: Stop, total: f64) {
        let Self { layout, inputs, scratch, rate, capacity, waiting, .. } = self;
        let capacity = capacity[stop.resource];
        let load = (total / capacity).min(1.0);
        // Where more is asked for than fits, what passes is less by a factor.
        let fits = load / total.max(1e-12);
        let share = |at: usize| rate[layout.legs[at] as usize] * layout.costs[at] * fits;
        let in_row = |at: usize| layout.in_row[layout.legs[at] as usize];
        let batch = |at: usize| in_row(at) / layout.turns[at] / capacity;
        let inputs = inputs[stop.inputs()].iter().filter(|input| input.demand > 0.0);
        let (mut turns, mut all) = (0.0, Met::default());
        for input in inputs.clone() {
            turns += input.weight;
            for at in input.visits() {
                let (share, found) = (share(at), share(at) * batch(at) / 2.0);
                all.found += found;
                for met in layout.sets_of(at).into_iter().flatten() {
                    scratch[met].share += share;
                    scratch[met].found += found;
                }
            }
        }
        for input in inputs.clone() {
            all.here = 0.0;
            for at in input.visits() {
                let found = share(at) * batch(at) / 2.0;
                all.here += found;
                for met in layout.sets_of(at).into_iter().flatten() {
                    scratch[met].here += found;
                }
            }
            // A link that is as slow brings its packets one after the other.
            let apart = if input.port == NONE {
                0.0
            } else {
                (capacity / self.resources[input.port as usize].capacity).min(1.0)
            };
            let together = 1.0 - apart * apart;
            for at in input.visits() {
                let Some([pool, alike]) = layout.sets_of(at) else { continue };
                let holder = layout.holder[layout.legs[at] as usize] as usize;
                let itself = layout.in_row[holder].max(1.0).recip();
                let (pool, alike) = (scratch[pool], scratch[alike].meets(together));
                let found = all.meets(together) - alike - itself * (pool.meets(together) - alike);
                let most = (turns - input.weight) * in_row(at) / capacity;
                let left = (1.0 - load + itself * pool.share).max(1e-6);
                waiting[holder] += (found.max(0.0) / left).min(most);
            }
            for met in input.visits().filter_map(|at| layout.sets_of(at)).flatten() {
                scratch[met].here = 0.0;
            }
        }
        for met in stop.visits().filter_map(|at| layout.sets_of(at)).flatten() {
            scratch[met] = Met::default();
        }
    }
}
