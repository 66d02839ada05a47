//! Both engines on one case. Their agreement does not say that machines agree; it says what the fluid loses.

use std::ops::Range;

use peerlane_sim::flow::{FlowRates, SolverSettings};
use peerlane_sim::model::{FlowSpec, Picos};
use peerlane_sim::tlp::{self, RunLength, simulate};
use rayon::prelude::*;

use crate::cases::{AgreementCase, Family, case};

/// Commands of each relay in a window: its rate counts by slots.
const SLOTS: f64 = 50.0;

/// Rates of the flows of one case, in bytes of payload a nanosecond.
#[derive(Debug, Clone)]
pub(crate) struct AgreementRates {
    pub(crate) tlp: Vec<f64>,
    pub(crate) flow: Vec<f64>,
}

/// Mean, 95th percentile and largest of relative errors.
pub(crate) fn spread(errors: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut errors: Vec<f64> = errors.into_iter().collect();
    errors.sort_by(f64::total_cmp);
    let last = errors.len().saturating_sub(1);
    let at = |percent: usize| errors.get((last * percent + 50) / 100).copied().unwrap_or(0.0);
    [errors.iter().sum::<f64>() / errors.len().max(1) as f64, at(95), at(100)]
}

impl AgreementRates {
    /// The relative error of each flow.
    pub(crate) fn errors(&self) -> impl Iterator<Item = f64> {
        let pairs = self.tlp.iter().zip(&self.flow);
        pairs.map(|(tlp, flow)| (flow / tlp.max(1e-9) - 1.0).abs())
    }

    /// The relative error of the sum over all flows.
    pub(crate) fn sum_error(&self) -> f64 {
        (self.flow.iter().sum::<f64>() / self.tlp.iter().sum::<f64>() - 1.0).abs()
    }
}

/// A window of 4 ms, or as long as a relay needs for some commands.
fn extent(case: &AgreementCase, rates: &[f64]) -> RunLength {
    let time = |(flow, rate): (&FlowSpec, &f64)| match flow.second {
        Some(_) => SLOTS * flow.request.0 as f64 / rate / 1e6,
        None => 0.0,
    };
    let millis = case.flows.iter().zip(rates).map(time).fold(4.0, f64::max).min(100.0);
    let has_relays = case.flows.iter().any(|flow| flow.second.is_some());
    let most = Picos::millis(if has_relays { 300 } else { 60 });
    RunLength::Steady { window: Picos::millis(millis.ceil() as u64), most }
}

/// Runs both engines on a case.
pub(crate) fn compare(case: &AgreementCase) -> AgreementRates {
    let AgreementCase { topology, flows } = case;
    let rates = FlowRates::new(topology, flows, SolverSettings::default()).expect("rates");
    let extent = extent(case, &rates.rates);
    let settings = tlp::Settings { extent, ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings).expect("packets");
    let nanos = outcome.measured.to_nanos().0.max(1) as f64;
    AgreementRates {
        tlp: outcome.flows.iter().map(|flow| flow.bytes.0 as f64 / nanos).collect(),
        flow: rates.rates,
    }
}

/// Seeds in view when the equations were written, and seeds that came after.
pub(crate) const DEVELOPMENT: Range<u64> = 0..12;
pub(crate) const HOLD_OUT: Range<u64> = 1000..1008;

/// Both engines on each seed of each family.
pub(crate) fn compared(
    seeds: &Range<u64>,
    families: &[Family],
) -> Vec<(Family, u64, AgreementRates)> {
    let all = families.iter().flat_map(|&family| seeds.clone().map(move |seed| (family, seed)));
    let all: Vec<_> = all.collect();
    let both = |(family, seed)| (family, seed, compare(&case(family, seed)));
    all.into_par_iter().map(both).collect()
}

/// Errors of sums and of single flows.
pub(crate) fn spreads<'a>(
    cases: impl Iterator<Item = &'a AgreementRates> + Clone,
) -> [[f64; 3]; 2] {
    [
        spread(cases.clone().map(AgreementRates::sum_error)),
        spread(cases.flat_map(AgreementRates::errors)),
    ]
}
