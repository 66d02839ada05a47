//! Rates of flows on a topology while all of them are active.

use rayon::prelude::*;

use super::build::Built;
use super::network::NotPositive;
use super::solve::{Solver, SolverSettings};
use crate::closed::demand;
use crate::model::{FlowSpec, PathError, ResourceOrigin, Topology};
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
    Network(#[from] NotPositive),
}

/// Rates of flows while all are active.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRates {
    /// Payload of each flow a nanosecond.
    pub rates: Vec<f64>,
    limits: Vec<Option<ResourceOrigin>>,
    /// Largest relative change that a further round of the solver would make.
    pub residual: f64,
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
        let Built { network, what } = build(topology, flows)?;
        network.check()?;
        threads::prepare();
        let parts = network.parts();
        let mut solved: Vec<Solver<'_>> =
            parts.iter().map(|part| Solver::new(&part.network)).collect();
        solved.par_iter_mut().for_each(|solver| solver.solve_all(settings));
        let count = flows.len();
        let mut found = Self { rates: vec![0.0; count], limits: vec![None; count], residual: 0.0 };
        for (part, solver) in parts.iter().zip(solved) {
            for (at, &flow) in part.flows.iter().enumerate() {
                let limit = solver.limit(at).map(|at| part.resources[at as usize]);
                found.rates[flow] = solver.rate(at);
                found.limits[flow] = limit.map(|at| what[at as usize]);
            }
            found.residual = found.residual.max(solver.residual);
        }
        Ok(found)
    }

    /// The resource that limits a flow; `None` where its own depth, arrivals or drives do.
    pub fn limit(&self, flow: usize) -> Option<ResourceOrigin> {
        self.limits[flow]
    }
}

/// The network of flows, each with what it takes of a machine without limits.
///
/// # Errors
/// When a flow has no path.
pub(crate) fn build(topology: &Topology, flows: &[FlowSpec]) -> Result<Built, RatesError> {
    let no_path = |flow: &FlowSpec, source| RatesError::Path { flow: flow.name.clone(), source };
    let demands = flows
        .iter()
        .map(|flow| demand(topology, flow).map_err(|source| no_path(flow, source)))
        .collect::<Result<Vec<f64>, RatesError>>()?;
    Built::new(topology, flows, &demands).map_err(|(flow, source)| no_path(&flows[flow], source))
}
