//! Cases by a route that this machine does not have between their ends, left out where no route was named.
//!
//! cuFile tells only on request whether it takes a file; its way to a GPU is opened once for that.

use std::collections::HashMap;

use peerlane_engine::Surveyor;
use peerlane_engine::measure::{MeasureError, PlannedFlow};
use peerlane_results::{Flow, Path, Workload};

use super::{Conditions, RunError, by_itself};
use crate::workload::is_gpu;

/// Cases by p2p that were left out of a workload.
#[derive(Debug)]
pub struct LeftOut {
    /// Their number.
    pub cases: usize,
    /// Number of cases by p2p before.
    pub of: usize,
    /// Reason of the first.
    pub reason: String,
}

/// Removes the p2p cases that are not possible between their ends; nothing that is there is changed.
///
/// # Errors
/// [`RunError::Flow`] when no case is left.
pub fn possible_cases(
    mut workload: Workload,
    conditions: &Conditions<'_>,
) -> Result<(Workload, Option<LeftOut>), RunError> {
    let surveyor = Surveyor::new(&conditions.clock, conditions.deadline);
    // What the target holds is looked at before the run, and says nothing of routes; but one that is opened is given
    // its length.
    let forced = super::Consent { force: true, ..conditions.consent.clone() };
    let mut known: HashMap<(String, String), bool> = HashMap::new();
    let mut first: Option<(String, MeasureError)> = None;
    let mut is_possible = |case: &str, flow: &Flow| {
        let ends = (flow.source.clone(), flow.target.clone());
        *known.entry(ends).or_insert_with(|| {
            let has_gpu = is_gpu(&flow.source) || is_gpu(&flow.target);
            let consent = if has_gpu { conditions.consent } else { &forced };
            let looked = PlannedFlow::look(conditions.fabric, flow, consent, &surveyor);
            let opened =
                |planned: PlannedFlow| by_itself(0, conditions, |tools| planned.try_gpu(tools));
            match looked.and_then(opened) {
                Err(error) if error.is_not_possible() => {
                    first.get_or_insert_with(|| (case.to_owned(), error));
                    false
                }
                _ => true,
            }
        })
    };
    let is_p2p = |flow: &Flow| flow.path == Path::P2p;
    let all = workload.cases.len();
    let of = workload.cases.iter().filter(|case| case.flows.iter().any(is_p2p)).count();
    workload.cases.retain(|case| {
        case.flows.iter().filter(|flow| is_p2p(flow)).all(|flow| is_possible(&case.name, flow))
    });
    let Some((case, error)) = first else { return Ok((workload, None)) };
    if workload.cases.is_empty() {
        return Err(RunError::Flow { case, source: Box::new(error) });
    }
    let cases = all - workload.cases.len();
    let reason = error.reason();
    Ok((workload, Some(LeftOut { cases, of, reason })))
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("p2p is left out")?;
        if self.cases < self.of {
            write!(f, " in {} of {} cases", self.cases, self.of)?;
        }
        write!(f, ": {}", self.reason)
    }
}
