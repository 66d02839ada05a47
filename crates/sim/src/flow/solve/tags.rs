//! Tags of one initiator whose answers wait in several queues for one full output.
//!
//! The output says how long these queues are together, and not how long each is: every flow of the initiator gets the same
//! either way, and who else stands in one of them is as slow as that one is long. An initiator asks for its flows in turn
//! and an output takes of queues in turn, so that such queues grow alike: they are equally long here. The one thing to
//! know: queues of which the output takes different shares have lengths of their own, and are left as they are.

use super::{BASE, NONE, ROOM, SLACK, Solver};

/// Share of the way to equal lengths that a round goes.
const SHARE: f64 = 0.3;

/// A queue of answers that wait for a full output.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    output: u32,
    /// What the output takes of what it is asked for.
    share: f64,
    queue: usize,
    /// How many flows of the pool wait there.
    flows: f64,
}

/// Notes of one round.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// Queues of one pool.
    waiting: Vec<Waiting>,
    /// By how much queues become longer, in nanoseconds.
    changes: Vec<(usize, f64)>,
}

impl Solver {
    /// Brings queues nearer to equal lengths where nothing else decides these. Returns the largest share of a round trip
    /// that this changed.
    pub(super) fn share_tags(&mut self) -> f64 {
        let Self { tags, layout, room, delay, counts, effective, capacity, passed, .. } = self;
        let Tags { waiting, changes } = tags;
        let pool_of = |&(leg, _): &(u32, u32)| layout.held[leg as usize];
        changes.clear();
        for pool in layout.queued.chunk_by(|one, other| pool_of(one) == pool_of(other)) {
            waiting.clear();
            for &(leg, queue) in pool {
                let flows = counts[layout.class_of[leg as usize] as usize];
                let queue = queue as usize;
                let (share, output) = (room[queue].ratio(), room[queue].by());
                // One that holds up what is behind it is as long as it can be, and one behind a full link grows no more.
                let has_room = effective[queue] >= capacity[queue]
                    && passed[queue] < capacity[queue] * (1.0 - SLACK);
                if share <= 1.0 + ROOM && has_room && output != NONE && flows > 0.0 {
                    waiting.push(Waiting { output, share, queue, flows });
                }
            }
            waiting.sort_by(|a, b| a.output.cmp(&b.output).then(a.share.total_cmp(&b.share)));
            for beside in waiting.chunk_by(|one, other| one.output == other.output) {
                let alike = beside.partition_point(|at| at.share <= beside[0].share + SLACK);
                // Whoever waits in one queue alone has no say in how long it is.
                if beside[..alike].iter().any(|at| at.queue != beside[0].queue) {
                    level(&beside[..alike], delay, changes);
                }
            }
        }
        let mut residual: f64 = 0.0;
        changes.sort_unstable_by_key(|&(queue, _)| queue);
        for same in changes.chunk_by(|one, other| one.0 == other.0) {
            let (sum, pools) = same
                .iter()
                .fold((0.0, 0.0), |(sum, pools), (_, change)| (sum + change, pools + 1.0));
            let (queue, change) = (same[0].0, sum / pools);
            delay[queue] = (delay[queue] + change).max(0.0);
            residual = residual.max(change.abs() / (BASE + delay[queue]));
        }
        residual
    }
}

/// Notes by how much queues become longer and shorter, of which one is as long as they are on average.
fn level(alike: &[Waiting], delay: &[f64], changes: &mut Vec<(usize, f64)>) {
    let flows: f64 = alike.iter().map(|at| at.flows).sum();
    let mean = alike.iter().map(|at| delay[at.queue] * at.flows).sum::<f64>() / flows;
    changes.extend(alike.iter().map(|at| (at.queue, (mean - delay[at.queue]) * SHARE)));
}
