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
use peerlane_results::{BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, CaseSpec, Machine, Workload};
use peerlane_units::Nanos;
use rayon::prelude::*;

use self::case::{CAREFUL, Found, Model};
use self::record::Parts;
use self::setting::Setting;
use crate::flow::run::RunSettings;
use crate::parameters::{Parameters, fnv1a};
use crate::threads;

pub(crate) use device_names::lends_memory;
pub use device_names::{device_parameter, own_name, own_names, unknown, unused, why_unused};
pub use error::{CaseError, FlowError, PredictError};
pub use links::linked;
pub use setting::{DEFAULTS, ParametersError, SettingError, parameters};
pub use table::is_whole;

/// Transfers of a case up to which `auto` simulates packets.
const MAX_PACKET_TRANSFERS: usize = 128;
/// Transfers active at once up to which packets stand in for a flow solution that has not settled.
const MAX_FALLBACK_ACTIVE: usize = 256;
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
    /// The engine for a case, and the reason; `found` is by the flow engine, or by the closed form if that was asked for.
    fn choose(self, case: &CaseSpec, found: &Found) -> (Self, &'static str) {
        match (self, case.flows.len()) {
            (Self::Auto, 0..=MAX_PACKET_TRANSFERS) => {
                (Self::Tlp, "few enough transfers for packets")
            }
            (Self::Auto, _)
                if found.is_unsettled() && found.most_active() <= MAX_FALLBACK_ACTIVE =>
            {
                (Self::Tlp, "rates of the flow engine had not settled")
            }
            (Self::Auto, _) => (Self::Flow, "too many transfers for packets"),
            (Self::Closed, 2..) => (
                Self::Closed,
                "as asked for; each transfer as if alone: their sum may be beyond what they share",
            ),
            (engine, _) => (engine, "as asked for"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Closed => "closed",
            Self::Flow => "flow",
            Self::Tlp => "tlp",
        }
    }
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
    let cases: Vec<Prepared<'_>> =
        workload.cases.par_iter().map(prepare).collect::<Result<_, _>>()?;
    let shown = simulate(&cases)?;
    let models = cases.iter().map(|case| &case.model);
    let warnings = assumptions::warnings(fabric, parameters, models);
    let record = |case: &Prepared<'_>| predictor.record(case, &shown);
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
        packets: Vec::new(),
        warnings,
    })
}

/// Rates of the cases of many variants of a workload, in bytes a second, in order of the variants. `variant` returns the
/// workload and the numbers in place of those of the parameters.
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
            let [prepared] = &prepared;
            Ok(prepared.report(&shown).found.rate() * 1e9)
        };
        workload.cases.iter().map(rate).collect()
    };
    // Collected before the first error is taken, so that it is the same on any number of threads.
    let all: Vec<Result<Vec<f64>, PredictError>> = (0..count).into_par_iter().map(rates).collect();
    all.into_iter().collect()
}

/// Runs the windows of packets of cases.
fn simulate<'a>(cases: &'a [Prepared<'_>]) -> Result<windows::Shown<'a>, PredictError> {
    let planned =
        cases.iter().filter_map(|case| Some((case.asked.name.as_str(), case.windows.as_ref()?)));
    windows::run(planned).map_err(|(case, source)| PredictError::Case {
        case: case.to_owned(),
        source: source.into(),
    })
}

/// A case with rates of the flow engine or the closed form, before windows are run.
struct Prepared<'a> {
    asked: &'a CaseSpec,
    engine: Engine,
    why: &'static str,
    is_auto: bool,
    model: Model,
    found: Found,
    windows: Option<windows::Planned>,
}

/// The rates that a case reports.
struct Report {
    found: Found,
    /// The engine, and the reason.
    engine: String,
    windows: Option<windows::Windows>,
}

impl Prepared<'_> {
    /// Chooses between packets and flows: packets that have settled are the answer of `auto`.
    fn report(&self, shown: &windows::Shown<'_>) -> Report {
        let windows =
            self.windows.as_ref().map(|planned| windows::summary(planned, shown, &self.found));
        let says = |engine: Engine, why: &str| format!("{}: {why}", engine.name());
        let (found, engine) = match &windows {
            Some(windows) if windows.is_settled || !self.is_auto => {
                let found = self.found.slowed(&windows.slower, self.model.has_time());
                let mut says = says(self.engine, self.why);
                if !windows.is_settled {
                    says.push_str("; rates of packets had not settled");
                }
                let (simulated, all) = windows.count;
                if simulated < all {
                    says.push_str(&format!("; in {simulated} of {all} sets of transfers"));
                }
                (found, says)
            }
            Some(_) => (self.found.clone(), says(Engine::Flow, "rates of packets had not settled")),
            None => (self.found.clone(), says(self.engine, self.why)),
        };
        Report { found, engine, windows }
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
        let setting = Setting::new(self.parameters, numbers);
        let topology = setting.topology(self.fabric)?;
        let model = Model::new(self.fabric, &topology, &setting, case)?;
        if self.fabric.origin == Origin::Text {
            let below = assumptions::below_unknown_links(self.fabric, self.parameters, &model);
            let below = below.into_iter().map(|id| self.fabric.function(id).name.clone());
            let below: Vec<String> = below.collect();
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
    ) -> Result<Prepared<'a>, PredictError> {
        let model = self.model(case, numbers)?;
        let found = match asked {
            Engine::Closed => model.closed(case)?,
            Engine::Auto | Engine::Flow | Engine::Tlp => model.flow(case, settings)?,
        };
        let (engine, why) = asked.choose(case, &found);
        let windows = (engine == Engine::Tlp).then(|| windows::plan(&model, &found));
        let is_auto = asked == Engine::Auto;
        Ok(Prepared { asked: case, engine, why, is_auto, model, found, windows })
    }

    fn record(
        &self,
        prepared: &Prepared<'_>,
        shown: &windows::Shown<'_>,
    ) -> Result<CaseRecord, PredictError> {
        let &Prepared { asked, engine, ref model, ref found, .. } = prepared;
        let report = prepared.report(shown);
        let (interval, gains) = if asked.flows.len() <= RANGE_FLOWS_MAX {
            let by_flows = match engine {
                Engine::Closed => &model.flow(asked, CAREFUL)?,
                _ => found,
            };
            let interval = self.interval(asked, by_flows, report.found.rate())?;
            (interval, sensitivity::gains(model, by_flows, asked)?)
        } else {
            (None, Vec::new())
        };
        let refused = assumptions::refused_peers(self.fabric, model);
        let has_fallen_back = engine == Engine::Tlp && asked.flows.len() > MAX_PACKET_TRANSFERS;
        let fallback = (has_fallen_back && prepared.is_auto).then_some(found.unsettled);
        Ok(Parts { asked, model, report, interval, gains, refused, fallback }.record())
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn nanos(nanos: Nanos) -> f64 {
    (nanos.0 as f64).max(1.0)
}
