//! Rates of flows on a topology while all of them are active.

use crate::closed::Demand;
use crate::model::{FlowSpec, PathError, Topology};

use super::build::{Built, What};
use super::network::NetworkError;
use super::settle::settle;
use super::solve::{Settings, Solution};

/// Why rates could not be found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlowError {
    /// There is no way for a flow.
    #[error("flow {flow} has no path")]
    Path {
        /// The flow.
        flow: String,
        /// Why.
        #[source]
        source: PathError,
    },
    /// A parameter that is none: a rate of zero, a size that is none.
    #[error("the machine or a flow has a parameter without meaning")]
    Network(#[from] NetworkError),
}

/// What flows get while all are active.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// The network that was solved.
    pub built: Built,
    /// Where it settles; rates are payload a nanosecond.
    pub solution: Solution,
}

impl Rates {
    /// Solves flows on a topology.
    ///
    /// # Errors
    /// When a flow has no path, or a parameter no meaning.
    pub fn of(
        topology: &Topology,
        flows: &[FlowSpec],
        settings: Settings,
    ) -> Result<Self, FlowError> {
        let built = build(topology, flows)?;
        let solution = settle(&built.network, settings)?;
        Ok(Self { built, solution })
    }

    /// What limits a flow; `None` where that is its own depth, arrivals or drives.
    pub fn limit(&self, flow: usize) -> Option<What> {
        self.solution.limits[flow].map(|at| self.built.what[at as usize])
    }
}

/// The network of flows, each with what it takes of a machine without limits.
///
/// # Errors
/// When a flow has no path.
pub fn build(topology: &Topology, flows: &[FlowSpec]) -> Result<Built, FlowError> {
    let no_path = |flow: &FlowSpec, source| FlowError::Path { flow: flow.name.clone(), source };
    let demands = flows
        .iter()
        .map(|flow| Demand::of(topology, flow).map_err(|source| no_path(flow, source)))
        .collect::<Result<Vec<Demand>, FlowError>>()?;
    Built::of(topology, flows, &demands).map_err(|(flow, source)| no_path(&flows[flow], source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::scenarios::{FAMILIES, scenario};

    #[test]
    fn nothing_limits_a_flow_but_itself_only_where_it_gets_what_it_asks_for() {
        for (family, seed) in
            FAMILIES.into_iter().flat_map(|family| (0..24).map(move |seed| (family, seed)))
        {
            let case = scenario(family, seed);
            let settings = Settings::default();
            let Rates { built, solution } =
                Rates::of(&case.topology, &case.flows, settings).unwrap();
            let all = built.network.classes.iter().zip(&solution.rates).zip(&solution.limits);
            for ((class, rate), limit) in all.filter(|_| solution.has_converged(settings)) {
                let share = rate / class.demand;
                assert!(limit.is_some() || share > 0.999, "{family} {seed}: {share}");
            }
        }
    }
}
