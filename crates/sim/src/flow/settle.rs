//! Rates of all flows of a network at one moment: split, solved part by part, put together.
//!
//! Leaves out flows that come and go, which `run` has.

use rayon::prelude::*;

use super::network::{Network, NetworkError};
use super::parts::Parts;
use super::solve::{Settings, Solution, Solver};
use crate::threads;

/// Finds where the flows of a network settle.
///
/// # Errors
/// What [`Network::check`] finds.
pub fn settle(network: &Network, settings: Settings) -> Result<Solution, NetworkError> {
    network.check()?;
    let parts = Parts::of(network);
    let solve = |part| Solver::of_part(parts.view(part)).solve(settings);
    // One part needs no other thread.
    let solved: Vec<Solution> = match parts.parts.as_slice() {
        [part] => vec![solve(part)],
        all => {
            threads::prepare();
            all.par_iter().map(solve).collect()
        }
    };
    Ok(put_together(&parts, &solved))
}

fn put_together(parts: &Parts, solved: &[Solution]) -> Solution {
    let network = parts.network;
    let mut whole = Solution {
        rates: vec![0.0; network.classes.len()],
        limits: vec![None; network.classes.len()],
        load: vec![0.0; network.resources.len()],
        rounds: 0,
        residual: 0.0,
    };
    for (part, solution) in parts.parts.iter().zip(solved) {
        for &(index, class) in &part.members {
            let limit = solution.limits[class].map(|at| part.resources[at as usize]);
            whole.rates[index] = solution.rates[class];
            whole.limits[index] = limit.and_then(|at| u32::try_from(at).ok());
        }
        for (&resource, load) in part.resources.iter().zip(&solution.load) {
            whole.load[resource] = *load;
        }
        whole.rounds = whole.rounds.max(solution.rounds);
        whole.residual = whole.residual.max(solution.residual);
    }
    whole
}
