//! The 80 % interval of a prediction.
//!
//! Covers the ranges of parameters: [`DRAWS`] sets of numbers are drawn from them, and four of five rates lie in the
//! interval. The flow engine finds each rate; all are scaled by the reported rate over its own, which is not 1 where
//! packets or the closed form were reported. Where the flow engine is reported, the interval is wider by its measured
//! distance from packets. It covers neither other mistakes of the model nor anything that parameters leave out, such as
//! garbage collection, heat and other users. It always includes the reported rate.

use peerlane_results::CaseSpec;
use peerlane_units::ByteRate;
use rayon::prelude::*;

use super::case::{CAREFUL, CaseRates};
use super::names::per_second;
use super::{CaseReport, PredictError, Predictor};
use crate::flow::run::RunSettings;
use crate::parameters::{Draw, percentile};

/// Relative error of a sum of rates by the flow engine against packets: the 95th percentile over the cases of
/// `tests/agreement`. The interval of a rate by the flow engine is wider by it on each side.
pub const SOLVER_ERROR: f64 = 0.05;
/// Draws from the ranges of parameters.
const DRAWS: u64 = 40;
/// Ends within this share of their time are one change: rates are 0.1 % off then, and ranges are wide.
const TOGETHER: f64 = 0.01;

impl Predictor<'_> {
    /// The interval around a reported rate of a case that the flow engine found.
    pub(super) fn interval(
        &self,
        case: &CaseSpec,
        found: &CaseRates,
        report: &CaseReport,
    ) -> Result<Option<(ByteRate, ByteRate)>, PredictError> {
        let draw = Draw::new(self.seed);
        let settings = RunSettings { together: TOGETHER, ..CAREFUL };
        let rate = |number| {
            let numbers = draw.numbers(self.parameters, number);
            let found = self.model(case, &numbers)?.flow(settings);
            Ok(found.map_err(|source| PredictError::of_case(case, source))?.rate())
        };
        let mut rates: Vec<f64> =
            (0..DRAWS).into_par_iter().map(rate).collect::<Result<_, PredictError>>()?;
        rates.sort_by(f64::total_cmp);
        let reported = report.found.rate();
        let (scale, error) =
            (reported / found.rate(), if report.is_by_flows { SOLVER_ERROR } else { 0.0 });
        let (low, high) = (percentile(&rates, 0.1), percentile(&rates, 0.9));
        Ok(low.zip(high).map(|(low, high)| {
            let (low, high) = ((low * scale).min(reported), (high * scale).max(reported));
            (per_second(low * (1.0 - error)), per_second(high * (1.0 + error)))
        }))
    }
}
