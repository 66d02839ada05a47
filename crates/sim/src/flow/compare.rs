//! The flow engine beside the TLP engine, on one case.
//!
//! Leaves out which cases: `generate::scenarios` has them. The one thing to know: that both agree does
//! not say that machines do; it says that the fluid loses nothing that the packets have.

use peerlane_units::Bytes;

use super::rates::{FlowError, Rates};
use super::solve::{Settings, max_min};
use crate::generate::scenarios::Scenario;
use crate::model::{FlowSpec, Node, Picos};
use crate::tlp::{self, Extent, TlpError, simulate};
use crate::way::as_f64;

/// Commands of each flow that passes on slots, and of each where draws have a part.
const SLOTS: f64 = 50.0;
const DRAWN: f64 = 200.0;
/// The shortest window and the longest, in milliseconds.
const LEAST: f64 = 4.0;
const MOST: f64 = 100.0;

/// What the engines say of the flows of one case, in payload a nanosecond.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The TLP engine.
    pub tlp: Vec<f64>,
    /// The flow engine.
    pub flow: Vec<f64>,
    /// Plain max-min fairness.
    pub max_min: Vec<f64>,
    /// Rounds of the flow engine.
    pub rounds: u32,
    /// Whether the rates of the TLP engine were stable, and the rules that it checks held.
    pub is_sound: bool,
}

/// Why a case could not be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// The flow engine.
    #[error("the flow engine has no result")]
    Flow(#[from] FlowError),
    /// The TLP engine.
    #[error("the TLP engine has no result")]
    Tlp(#[from] TlpError),
}

impl Compared {
    /// The relative error of each flow.
    pub fn errors(&self, rates: &[f64]) -> Vec<f64> {
        self.tlp.iter().zip(rates).map(|(tlp, rate)| (rate / tlp.max(1e-9) - 1.0).abs()).collect()
    }

    /// The relative error of the sum over all flows.
    pub fn sum_error(&self) -> f64 {
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        (sum(&self.flow) / sum(&self.tlp) - 1.0).abs()
    }
}

/// How long packets are watched: 4 ms, but as long as a flow needs for some commands where bytes count by
/// slots or draws decide their queue; 100 ms at most, so that what hardly moves ends.
fn extent(scenario: &Scenario, rates: &[f64]) -> Extent {
    let Scenario { topology, flows, .. } = scenario;
    let is_drawn = |node: &Node| (1..1 << 16).contains(&node.kind.hol().in_65536ths());
    let is_random = topology.nodes().iter().any(is_drawn);
    let time = |(flow, rate): (&FlowSpec, &f64)| {
        let commands = match &flow.second {
            _ if is_random => DRAWN,
            Some(_) => SLOTS,
            None => 0.0,
        };
        commands * as_f64(flow.request) / rate / 1e6
    };
    let millis = flows.iter().zip(rates).map(time).fold(LEAST, f64::max).min(MOST);
    let has_slots = flows.iter().any(|flow| flow.second.is_some());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "4 to 100")]
    let window = Picos::millis(millis.ceil() as u64);
    Extent::Steady { window, most: Picos::millis(if has_slots { 300 } else { 60 }) }
}

/// Runs both engines on a case.
///
/// # Errors
/// When one of them has no result.
pub fn compare(scenario: &Scenario) -> Result<Compared, CompareError> {
    let Scenario { topology, flows, .. } = scenario;
    let rates = Rates::of(topology, flows, Settings::default())?;
    let extent = extent(scenario, &rates.solution.rates);
    let settings = tlp::Settings { extent, ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings)?;
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let per_nano = |bytes: Bytes| bytes.0 as f64 / outcome.measured.to_nanos().0.max(1) as f64;
    Ok(Compared {
        tlp: outcome.flows.iter().map(|flow| per_nano(flow.bytes)).collect(),
        max_min: max_min(&rates.built.network),
        rounds: rates.solution.rounds,
        flow: rates.solution.rates,
        is_sound: outcome.is_settled && outcome.check.holds(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::scenarios::{Family, scenario};

    #[test]
    fn fluids_and_packets_agree_where_queues_join_and_hold_each_other_up() {
        for (family, seed) in [(Family::ParkingLot, 2), (Family::Victim, 0), (Family::Tree, 10)] {
            let compared = compare(&scenario(family, seed)).expect("both have a result");
            assert!(compared.sum_error() < 0.01, "{family} {compared:?}");
            let errors = compared.errors(&compared.flow);
            assert!(errors.iter().all(|&error| error < 0.03), "{family} {errors:?}");
        }
    }

    #[test]
    fn reads_wait_where_packets_of_others_fill_a_queue() {
        // Reads of three initiators with 2 to 32 tags, some behind others in full queues: without the
        // time that those take, the rates of some are up to 170 % too high.
        for (family, seed) in [(Family::FewTags, 5), (Family::FewTags, 9), (Family::Mixed, 7)] {
            let compared = compare(&scenario(family, seed)).expect("both have a result");
            assert!(compared.sum_error() < 0.06, "{family} {compared:?}");
            let errors = compared.errors(&compared.flow);
            assert!(errors.iter().all(|&error| error < 0.4), "{family} {errors:?}");
        }
    }

    /// A first seed that changes with every commit, so that each version is tried on other cases.
    fn rotating() -> u64 {
        let commit = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output();
        let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let digits = commit.as_deref().ok().and_then(|id| id.get(..12));
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(12)
    }

    #[test]
    fn fluids_and_packets_agree_on_cases_that_no_version_was_written_beside() {
        let first = rotating();
        for family in [Family::ParkingLot, Family::Victim] {
            for seed in first..first + 2 {
                let compared = compare(&scenario(family, seed)).expect("both have a result");
                assert!(compared.sum_error() < 0.03, "{family} {seed} {compared:?}");
                let errors = compared.errors(&compared.flow);
                assert!(errors.iter().all(|&error| error < 0.1), "{family} {seed} {errors:?}");
            }
        }
    }
}
