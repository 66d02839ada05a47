//! Rates of flows on a topology while all of them are active: the network is split, solved part by part, and put together.
//!
//! Leaves out flows that come and go, see `run`.

use rayon::prelude::*;

use crate::closed::demand;
use crate::model::{FlowSpec, PathError, ResourceOrigin, Topology};

use super::build::Built;
use super::network::{FlowNetwork, NetworkError};
use super::parts::Parts;
use super::solve::{Solution, Solver, SolverSettings};
use crate::threads;

/// The reason why rates could not be found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RatesError {
    /// There is no way for a flow.
    #[error("flow {flow} has no path")]
    Path {
        /// The flow.
        flow: String,
        /// The reason.
        #[source]
        source: PathError,
    },
    /// A parameter that is none: a rate of zero, a size that is none.
    #[error("the machine or a flow has a parameter without meaning")]
    Network(#[from] NetworkError),
}

/// Rates of flows while all are active.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRates {
    /// The network that was solved.
    pub built: Built,
    /// The steady state; rates are payload a nanosecond.
    pub solution: Solution,
}

impl FlowRates {
    /// Solves flows on a topology.
    ///
    /// # Errors
    /// When a flow has no path, or a parameter no meaning.
    pub fn new(
        topology: &Topology,
        flows: &[FlowSpec],
        settings: SolverSettings,
    ) -> Result<Self, RatesError> {
        let built = build(topology, flows)?;
        let solution = settle(&built.network, settings)?;
        Ok(Self { built, solution })
    }

    /// The resource that limits a flow; `None` where its own depth, arrivals or drives do.
    pub fn limit(&self, flow: usize) -> Option<ResourceOrigin> {
        self.solution.limits[flow].map(|at| self.built.what[at as usize])
    }
}

/// The network of flows, each with what it takes of a machine without limits.
///
/// # Errors
/// When a flow has no path.
pub fn build(topology: &Topology, flows: &[FlowSpec]) -> Result<Built, RatesError> {
    let no_path = |flow: &FlowSpec, source| RatesError::Path { flow: flow.name.clone(), source };
    let demands = flows
        .iter()
        .map(|flow| demand(topology, flow).map_err(|source| no_path(flow, source)))
        .collect::<Result<Vec<f64>, RatesError>>()?;
    Built::new(topology, flows, &demands).map_err(|(flow, source)| no_path(&flows[flow], source))
}

/// Solves a network.
fn settle(network: &FlowNetwork, settings: SolverSettings) -> Result<Solution, NetworkError> {
    network.check()?;
    let parts = Parts::new(network);
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
