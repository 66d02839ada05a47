//! Transfers that start and end: rates are solved anew for each set of active transfers.
//!
//! Leaves out the transition between two sets: rates change at once. Parts of the network that
//! share nothing run on their own, so that the result does not depend on the number of threads.

mod active;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use rayon::prelude::*;

use self::timeline::Timeline;
use super::network::{FlowNetwork, NetworkError};
use super::parts::Parts;
use super::solve::SolverSettings;
use crate::threads;

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FlowTransfer {
    /// Its class in the network; the `count` of the class is ignored.
    pub class: usize,
    /// Start, in nanoseconds.
    pub start: f64,
    /// Payload; infinite for a transfer that ends by its time.
    pub bytes: f64,
    /// Longest duration, in nanoseconds; infinite for a transfer that ends by its payload.
    pub time: f64,
}

/// Settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSettings<'a> {
    /// For each solution.
    pub solve: SolverSettings,
    /// Ends this close, in nanoseconds, lead to one solution.
    pub quantum: f64,
    /// So do ends within this share of the time since the last start; a larger share with many transfers.
    pub together: f64,
    /// Counter of ended transfers, for progress.
    pub ended: Option<&'a AtomicUsize>,
}

/// Outcome of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TransferOutcome {
    /// Payload moved.
    pub bytes: f64,
    /// End, in nanoseconds.
    pub end: f64,
    /// The resource that limited it longest; `None` for its own demand.
    pub limit: Option<usize>,
}

/// A set of active transfers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransferSet {
    /// The transfers, and the rate of each in bytes of payload a nanosecond.
    pub members: Vec<(usize, f64)>,
    /// Total time that the set was active, in nanoseconds.
    pub time: f64,
}

/// Payload of a transfer at about one rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TransferPace {
    /// Payload.
    pub bytes: f64,
    /// Time that it took, in nanoseconds.
    pub time: f64,
}

/// Paces by the number of their rate.
type Paces = BTreeMap<i32, TransferPace>;

impl TransferPace {
    /// Number of the interval of a rate, 5 % wide.
    #[expect(clippy::cast_possible_truncation, reason = "some hundreds")]
    fn number(rate: f64) -> i32 {
        (rate.ln() / 1.05_f64.ln()).floor() as i32
    }

    /// The mean rate, payload a nanosecond.
    pub(crate) fn rate(&self) -> f64 {
        self.bytes / self.time
    }
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FlowRun {
    /// Outcome of each transfer.
    pub outcomes: Vec<TransferOutcome>,
    /// The longest phases of each part, longest first.
    pub phases: Vec<Vec<TransferSet>>,
    /// Paces of each transfer, slowest first.
    pub paces: Vec<Vec<TransferPace>>,
    /// Number of distinct sets of active transfers, kept or not.
    pub sets: usize,
    /// Number of solutions.
    pub solutions: u64,
    /// Mean over time of the residuals that had not settled, each at most 1, of the worst part; 0 where all settled.
    pub unsettled: f64,
}

/// Runs transfers on a network.
///
/// # Errors
/// What [`FlowNetwork::check`] finds.
pub(crate) fn run(
    network: &FlowNetwork,
    transfers: &[FlowTransfer],
    settings: RunSettings<'_>,
) -> Result<FlowRun, NetworkError> {
    network.check()?;
    threads::prepare();
    let parts = Parts::new(network);
    let mut part_of = vec![(0, 0); network.classes.len()];
    for (number, part) in parts.parts.iter().enumerate() {
        for &(whole, class) in &part.members {
            part_of[whole] = (number, class);
        }
    }
    let mut of_part: Vec<Vec<(usize, FlowTransfer)>> = vec![Vec::new(); parts.parts.len()];
    for (index, transfer) in transfers.iter().enumerate() {
        let (part, class) = part_of[transfer.class];
        of_part[part].push((index, FlowTransfer { class, ..*transfer }));
    }
    let runs: Vec<Timeline> = parts
        .parts
        .par_iter()
        .zip(&of_part)
        .map(|(part, transfers)| Timeline::run(parts.view(part), settings, transfers))
        .collect();
    let mut whole = FlowRun {
        outcomes: vec![TransferOutcome::default(); transfers.len()],
        paces: vec![Vec::new(); transfers.len()],
        ..FlowRun::default()
    };
    for (part, run) in parts.parts.iter().zip(runs) {
        run.put_into(&mut whole, part);
    }
    Ok(whole)
}
