//! Transfers that begin and end: rates are solved anew whenever the set of active ones changes.
//!
//! Leaves out what happens within the moments between two sets: rates change at once. The one thing to
//! know: parts of the network that share nothing run on their own, so that an end in one costs nothing
//! in another, and the result does not depend on the number of threads.

mod active;
mod part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use rayon::prelude::*;

use self::part::PartRun;
use super::network::{Network, NetworkError};
use super::parts::Parts;
use super::solve::Settings;
use crate::threads;

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Its class in the network, whose own `count` is not looked at.
    pub class: usize,
    /// When it begins, in nanoseconds.
    pub start: f64,
    /// Payload to move; infinite for one that goes on until its time is over.
    pub bytes: f64,
    /// How long it goes on at most, in nanoseconds; infinite for one that ends by its payload.
    pub time: f64,
}

/// How a run is carried out.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings<'a> {
    /// For each solution.
    pub solve: Settings,
    /// Ends that lie no further apart, in nanoseconds, lead to one solution.
    pub quantum: f64,
    /// Ends that lie no further apart than this share of the time since the last transfer began do, too; of many transfers,
    /// also some that lie further apart.
    pub together: f64,
    /// What counts the transfers that have ended, for those who wait.
    pub ended: Option<&'a AtomicUsize>,
}

/// What one transfer did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Payload moved.
    pub bytes: f64,
    /// When it ended, in nanoseconds.
    pub end: f64,
    /// The resource that limited it for the longest time; `None` where that was its own demand.
    pub limit: Option<usize>,
}

/// A set of active transfers, and how it went while they were.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// For each class of the whole network that has any, how many transfers were active.
    pub active: Vec<(usize, u32)>,
    /// Rate of each of those, payload a nanosecond.
    pub rates: Vec<f64>,
    /// The transfers themselves, and the rate of each.
    pub members: Vec<(usize, f64)>,
    /// How long such a set was active, in nanoseconds.
    pub time: f64,
    /// When it was first.
    pub first: f64,
}

/// What a transfer moved at about one rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    /// Payload.
    pub bytes: f64,
    /// How long that took, in nanoseconds.
    pub time: f64,
}

/// Paces by the number of their rate.
type Paces = BTreeMap<i32, Pace>;

impl Pace {
    /// The rates that count as one: 5 % wide.
    #[expect(clippy::cast_possible_truncation, reason = "some hundreds")]
    fn of(rate: f64) -> i32 {
        (rate.ln() / 1.05_f64.ln()).floor() as i32
    }

    /// The mean rate, payload a nanosecond.
    pub fn rate(&self) -> f64 {
        self.bytes / self.time
    }
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// One for each transfer.
    pub outcomes: Vec<Outcome>,
    /// When the last transfer ended.
    pub end: f64,
    /// The sets of active transfers of each part that lasted longest, longest first.
    pub phases: Vec<Vec<Phase>>,
    /// At which rates each transfer moved how much, slowest first.
    pub paces: Vec<Vec<Pace>>,
    /// Sets of active transfers that there were, those that are not kept, too.
    pub sets: usize,
    /// How often rates were solved.
    pub solutions: u64,
    /// The largest residual of those.
    pub residual: f64,
    /// The residual of those that had not settled, at most 1, on average over the time of the part of the network where
    /// that is most; 0 where all had.
    pub unsettled: f64,
}

/// Runs transfers on a network.
///
/// # Errors
/// What [`Network::check`] finds.
pub fn run(
    network: &Network,
    transfers: &[Transfer],
    settings: RunSettings<'_>,
) -> Result<Run, NetworkError> {
    network.check()?;
    threads::prepare();
    let parts = Parts::of(network);
    let mut part_of = vec![(0, 0); network.classes.len()];
    for (number, part) in parts.parts.iter().enumerate() {
        for &(whole, class) in &part.members {
            part_of[whole] = (number, class);
        }
    }
    let mut of_part: Vec<Vec<(usize, Transfer)>> = vec![Vec::new(); parts.parts.len()];
    for (index, transfer) in transfers.iter().enumerate() {
        let (part, class) = part_of[transfer.class];
        of_part[part].push((index, Transfer { class, ..*transfer }));
    }
    let runs: Vec<PartRun> = parts
        .parts
        .par_iter()
        .zip(&of_part)
        .map(|(part, transfers)| PartRun::new(parts.view(part), settings).run(transfers))
        .collect();
    let mut whole = Run {
        outcomes: vec![Outcome::default(); transfers.len()],
        paces: vec![Vec::new(); transfers.len()],
        ..Run::default()
    };
    for ((part, run), transfers) in parts.parts.iter().zip(runs).zip(&of_part) {
        run.put_into(&mut whole, part, transfers);
    }
    Ok(whole)
}
