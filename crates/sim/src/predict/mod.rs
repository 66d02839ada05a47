//! Predicts the result of a workload on a machine: the record of a benchmark, marked as predicted.
//!
//! Leaves out everything that a fabric and parameters do not say: garbage collection, temperature, other users.

mod alike;
mod assumptions;
mod case;
mod device_names;
mod error;
mod flows;
mod interval;
mod links;
mod names;
mod processor;
mod record;
mod sensitivity;
mod setting;
mod table;
#[cfg(test)]
mod tests;
mod utilisation;
mod windows;

use std::sync::atomic::AtomicUsize;

use peerlane_fabric::{Fabric, Origin};
use peerlane_results::{
    BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, CaseSpec, Gain, Machine, Workload,
};
use peerlane_units::{ByteRate, Named, Nanos};
use rayon::prelude::*;

use self::case::{CAREFUL, CaseRates, Model};
use self::setting::ParameterSetting;
use crate::flow::run::RunSettings;
use crate::parameters::{Parameters, fnv1a};
use crate::threads;

pub(crate) use device_names::lends_memory;
pub use device_names::{device_parameter, own_name, own_names, unknown, unused, why_unused};
pub use error::{CaseError, FlowError, PredictError};
pub use interval::SOLVER_ERROR;
pub use links::linked;
pub(crate) use names::resource_name;
pub use setting::{DEFAULTS, ParametersError, SettingError, parameters};
pub use table::is_whole;

/// Transfers of a case up to which `auto` simulates packets.
const MAX_PACKET_TRANSFERS: usize = 128;
/// Transfers of a case up to which it has an interval and sensitivities: each is dozens of runs, and a run solves anew as
/// often as a transfer ends.
pub const RANGE_FLOWS_MAX: usize = 256;

/// The computation of rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Engine {
    /// Packets for few transfers, flows for many.
    #[default]
    Auto,
    /// Bounds of each transfer alone: their sum may exceed what they share.
    Closed,
    /// Rates as flows.
    Flow,
    /// Rates by packets of all transfers that run together, ends of transfers by flows.
    Tlp,
}

impl Engine {
    /// The engine for a case, and the reason.
    fn choose(self, case: &CaseSpec) -> (Self, &'static str) {
        match (self, case.flows.len()) {
            (Self::Auto, 0..=MAX_PACKET_TRANSFERS) => {
                (Self::Tlp, "few enough transfers for packets")
            }
            (Self::Auto, _) => (Self::Flow, "too many transfers for packets"),
            (Self::Closed, 2..) => (
                Self::Closed,
                "as asked for; each transfer as if alone: their sum may be beyond what they share",
            ),
            (engine, _) => (engine, "as asked for"),
        }
    }
}

impl Named for Engine {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("closed", Self::Closed), ("flow", Self::Flow), ("tlp", Self::Tlp)];
}

/// Predicts a workload on a machine. The same arguments give the same record on any number of threads.
///
/// # Errors
/// When the machine does not have a name or a path of the workload, or a parameter has no meaning.
pub fn run(
    fabric: &Fabric,
    parameters: &Parameters,
    workload: &Workload,
    engine: Engine,
) -> Result<BenchRecord, PredictError> {
    run_watched(fabric, parameters, workload, engine, &AtomicUsize::new(0))
}

/// Predicts a workload, and counts in `ended` the transfers of all cases whose end is known.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    fabric: &Fabric,
    parameters: &Parameters,
    workload: &Workload,
    engine: Engine,
    ended: &AtomicUsize,
) -> Result<BenchRecord, PredictError> {
    threads::prepare();
    let parameters = &own_names(parameters, fabric)?;
    table::check_ranges(parameters)?;
    let numbers = parameters.values();
    let predictor = Predictor { fabric, parameters, seed: workload.seed };
    let settings = RunSettings { ended: Some(ended), ..CAREFUL };
    let prepare = |case| predictor.prepare(case, &numbers, engine, settings);
    let cases: Vec<PreparedCase<'_>> =
        workload.cases.par_iter().map(prepare).collect::<Result<_, _>>()?;
    let shown = simulate(&cases)?;
    let models = cases.iter().map(|case| &case.model);
    let warnings = assumptions::warnings(fabric, parameters, models);
    let record = |case: &PreparedCase<'_>| predictor.record(case, &shown);
    let cases: Vec<CaseRecord> = cases.par_iter().map(record).collect::<Result<_, _>>()?;
    Ok(BenchRecord {
        schema: BENCH_SCHEMA.to_owned(),
        asked: workload.clone(),
        machine: Machine {
            name: fabric.name.clone(),
            fabric: format!("{:016x}", fnv1a(&fabric.to_toml())),
            kernel: fabric.kernel.release.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        },
        outline: fabric.outline(),
        basis: Basis::Predicted,
        started_s: None,
        summaries: cases.iter().map(record::summary).collect(),
        cases,
        effects: Vec::new(),
        warnings,
    })
}

/// Rates of the cases of many variants of a workload, in bytes a second, in order of the variants. `variant` returns the
/// workload and the numbers that replace those of the parameters.
///
/// # Errors
/// As [`run`], for the first variant that cannot be predicted.
pub fn variants(
    fabric: &Fabric,
    parameters: &Parameters,
    count: usize,
    variant: impl Fn(usize) -> (Workload, Vec<f64>) + Sync,
    engine: Engine,
) -> Result<Vec<Vec<f64>>, PredictError> {
    threads::prepare();
    let parameters = &own_names(parameters, fabric)?;
    let rates = |index| {
        let (workload, numbers) = variant(index);
        table::check(parameters, &numbers)?;
        let predictor = Predictor { fabric, parameters, seed: workload.seed };
        let rate = |case| {
            let prepared = [predictor.prepare(case, &numbers, engine, CAREFUL)?];
            let shown = simulate(&prepared)?;
            Ok(prepared[0].report(&shown).found.rate() * 1e9)
        };
        workload.cases.iter().map(rate).collect()
    };
    // Collected before the first error is taken, so that it is the same on any number of threads.
    let all: Vec<Result<Vec<f64>, PredictError>> = (0..count).into_par_iter().map(rates).collect();
    all.into_iter().collect()
}

/// Runs the windows of packets of cases.
fn simulate<'a>(cases: &'a [PreparedCase<'_>]) -> Result<windows::Shown<'a>, PredictError> {
    let planned = cases.iter().filter_map(|case| Some((case.asked, case.windows.as_ref()?)));
    windows::run(planned).map_err(|(case, source)| PredictError::of_case(case, source))
}

/// A case with rates of the flow engine or the closed form, before windows are run.
struct PreparedCase<'a> {
    asked: &'a CaseSpec,
    engine: Engine,
    why: &'static str,
    is_auto: bool,
    model: Model,
    found: CaseRates,
    windows: Option<windows::PlannedWindows>,
}

/// The rates that a case reports.
struct CaseReport {
    found: CaseRates,
    /// The engine, and the reason.
    engine: String,
    /// True for rates of the flow engine.
    is_by_flows: bool,
    windows: Option<windows::Windows>,
}

impl PreparedCase<'_> {
    /// Chooses between packets and flows: packets that have settled are the answer of `auto`.
    fn report(&self, shown: &windows::Shown<'_>) -> CaseReport {
        const UNSETTLED: &str = "rates of packets had not settled";
        let windows = self.windows.as_ref().map(|planned| windows::summary(planned, shown));
        let mut found = self.found.clone();
        let mut engine = format!("{}: {}", self.engine.name(), self.why);
        let mut is_by_flows = self.engine == Engine::Flow;
        match &windows {
            Some(windows) if windows.is_settled || !self.is_auto => {
                found.slow(&windows.slower, self.model.has_time());
                if !windows.is_settled {
                    engine.push_str(&format!("; {UNSETTLED}"));
                }
                let (simulated, all) = windows.count;
                if simulated < all {
                    engine.push_str(&format!("; in {simulated} of {all} sets of transfers"));
                }
            }
            Some(_) => {
                engine = format!("{}: {UNSETTLED}", Engine::Flow.name());
                is_by_flows = true;
            }
            None => {}
        }
        CaseReport { found, engine, is_by_flows, windows }
    }
}

struct Predictor<'a> {
    fabric: &'a Fabric,
    parameters: &'a Parameters,
    seed: u64,
}

impl Predictor<'_> {
    /// The model of a case with these numbers. Pasted text must state the speeds of the links that the case crosses.
    fn model(&self, case: &CaseSpec, numbers: &[f64]) -> Result<Model, PredictError> {
        let setting = ParameterSetting::new(self.parameters, numbers);
        let topology = setting.topology(self.fabric)?;
        let model = Model::new(self.fabric, topology, &setting, case)
            .map_err(|source| PredictError::of_case(case, source))?;
        if self.fabric.origin == Origin::Text {
            let below = assumptions::below_unknown_links(self.fabric, self.parameters, &model);
            if !below.is_empty() {
                return Err(PredictError::of_case(case, CaseError::LinkNotStated(below)));
            }
        }
        Ok(model)
    }

    fn prepare<'a>(
        &self,
        case: &'a CaseSpec,
        numbers: &[f64],
        asked: Engine,
        settings: RunSettings<'_>,
    ) -> Result<PreparedCase<'a>, PredictError> {
        let model = self.model(case, numbers)?;
        let found = match asked {
            Engine::Closed => model.closed(),
            Engine::Auto | Engine::Flow | Engine::Tlp => model.flow(settings),
        };
        let found = found.map_err(|source| PredictError::of_case(case, source))?;
        let (engine, why) = match asked {
            Engine::Closed => asked.choose(case),
            _ if model.has_network() => (Engine::Flow, "packets stay in one machine"),
            _ if model.has_stage() => (Engine::Flow, "packets pass no stage"),
            _ if model.shares_processors() => (Engine::Flow, "packets share no processors"),
            _ => asked.choose(case),
        };
        let windows = (engine == Engine::Tlp).then(|| windows::plan(&model, &found));
        let is_auto = asked == Engine::Auto;
        Ok(PreparedCase { asked: case, engine, why, is_auto, model, found, windows })
    }

    fn record(
        &self,
        case: &PreparedCase<'_>,
        shown: &windows::Shown<'_>,
    ) -> Result<CaseRecord, PredictError> {
        let report = case.report(shown);
        let (interval, gains) = if case.asked.flows.len() <= RANGE_FLOWS_MAX {
            self.ranges(case, &report)?
        } else {
            (None, Vec::new())
        };
        let mut record = record::record(case.asked, &case.model, report);
        record.warnings.splice(0..0, assumptions::refused_peers(self.fabric, &case.model));
        if let Some(prediction) = &mut record.prediction {
            (prediction.interval, prediction.gains) = (interval, gains);
        }
        Ok(record)
    }

    /// The interval around the rate that a case reports, and its gains.
    fn ranges(&self, case: &PreparedCase<'_>, report: &CaseReport) -> Result<Ranges, PredictError> {
        let of_case = |source| PredictError::of_case(case.asked, source);
        let by_flows = match case.engine {
            Engine::Closed => &case.model.flow(CAREFUL).map_err(of_case)?,
            _ => &case.found,
        };
        let interval = self.interval(case.asked, by_flows, report)?;
        Ok((interval, sensitivity::gains(&case.model, by_flows).map_err(of_case)?))
    }
}

/// An interval of rates, and gains.
type Ranges = (Option<(ByteRate, ByteRate)>, Vec<Gain>);

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn nanos(nanos: Nanos) -> f64 {
    (nanos.0 as f64).max(1.0)
}
