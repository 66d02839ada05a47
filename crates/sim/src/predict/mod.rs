//! Predicts what a workload would do on a machine: the record of a benchmark, marked as predicted.
//!
//! Leaves out everything that a fabric and parameters do not say: garbage collection, temperature, other
//! users. The one thing to know: an interval covers the ranges of parameters, not mistakes of the model.

mod alike;
mod bounds;
mod case;
mod cautions;
mod flows;
mod gains;
mod links;
mod more;
mod names;
mod of_devices;
mod own;
mod peers;
mod processor;
mod record;
mod setting;
mod strangers;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::atomic::AtomicUsize;

use peerlane_fabric::{Fabric, Origin};
use peerlane_results::{BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, CaseSpec, Machine, Workload};
use peerlane_units::{ByteRate, Nanos};
use rayon::prelude::*;

use self::case::{CAREFUL, Found, Model};
use self::record::Parts;
use self::setting::Setting;
use crate::flow::build::per_nano;
use crate::flow::rates;
use crate::flow::run::RunSettings;
use crate::parameters::{Draw, ParameterError, Parameters, fnv1a, percentile};
use crate::threads;
use crate::tlp::TlpError;

pub use bounds::is_whole;
pub use flows::FlowError;
pub(crate) use flows::lends_memory;
pub use links::linked;
pub use of_devices::{device_parameter, own_name, own_names};
pub use setting::{DEFAULTS, ParametersError, SettingError, parameters};
pub use strangers::{strangers, unused, why_unused};

/// Draws from the ranges of parameters.
const DRAWS: u64 = 40;
/// Ends within this share of their time are one change in a draw: rates are 0.1 % off then, and ranges are wide.
const ABOUT: f64 = 0.01;
/// Flows of a case beyond which neither ranges nor gains are looked at: each is dozens of runs, and a run
/// solves anew as often as a flow ends.
pub const RANGE_FLOWS_MAX: usize = 256;
/// Flows of a case up to which `auto` adds windows of packets.
const FEW: usize = 128;
/// What computes rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Engine {
    /// Whichever fits the case.
    #[default]
    Auto,
    /// Bounds of each flow alone: the sum of flows may be beyond what they share.
    Closed,
    /// Fluids.
    Flow,
    /// Packets for all flows that run together, and fluids for when they end.
    Tlp,
}

impl Engine {
    /// The engine for a case, and why.
    fn choose(self, case: &CaseSpec) -> (Self, &'static str) {
        match (self, case.flows.len()) {
            (Self::Auto, 1) => (Self::Flow, "one flow; a window of packets for percentiles"),
            (Self::Auto, 2..=FEW) => {
                (Self::Flow, "flows share what they cross; windows of packets for percentiles")
            }
            (Self::Auto, _) => (Self::Flow, "too many flows for packets"),
            (Self::Closed, 2..) => (
                Self::Closed,
                "as asked for; each flow as if alone: their sum may be beyond what they share",
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

/// Why a workload cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// Parameters that are missing, or a machine that is none.
    #[error("machine and parameters make no model")]
    Setting(#[from] SettingError),
    /// A flow that the machine cannot carry.
    #[error("case {case} cannot be modelled")]
    Flow {
        /// The case.
        case: String,
        /// Why.
        #[source]
        source: FlowError,
    },
    /// Pasted text that leaves open how fast links are.
    #[error("case {case}: `link` is not known of {}", few(below))]
    LinkNotStated {
        /// The case.
        case: String,
        /// The functions below the links.
        below: Vec<String>,
    },
    /// The flow engine.
    #[error("case {case} has no rates")]
    Engine {
        /// The case.
        case: String,
        /// Why.
        #[source]
        source: rates::FlowError,
    },
    /// The TLP engine.
    #[error("case {case}: packets cannot be simulated")]
    Tlp {
        /// The case.
        case: String,
        /// Why.
        #[source]
        source: TlpError,
    },
}

/// Devices that a hint names.
const NAMED: usize = 12;

/// Names, of which not all are said where there are many.
fn few(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().map(String::as_str).take(NAMED).collect();
    let others = names.len() - named.len();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

impl PredictError {
    /// What a person can do about it.
    pub fn hint(&self, fabric: &Fabric) -> Option<String> {
        let source = match self {
            Self::Flow { source, .. } => source,
            Self::Setting(source) => return source.hint(),
            Self::Tlp { source: TlpError::Account { .. }, .. } => {
                return Some(
                    "`--engine flow` predicts it without packets; please report this case"
                        .to_owned(),
                );
            }
            Self::LinkNotStated { below, .. } => {
                return below.first().map(|name| {
                    format!(
                        "`peerlane topo --machine WHAT --format toml > machine.toml`, then add \
                         `link = \"16GT/s x4\"` below `name = \"{name}\"`, and so on; or \
                         `--vary {name}.lanes=4 --vary {name}.generation=4`"
                    )
                });
            }
            Self::Engine { .. } | Self::Tlp { .. } => return None,
        };
        match source {
            FlowError::NoSuchEnd { .. } | FlowError::NoEnd { .. } => {
                let ends = fabric.functions.iter().filter(|function| flows::is_end(function));
                let mut names: Vec<&str> =
                    ends.clone().map(|function| function.name.as_str()).take(NAMED).collect();
                if ends.count() > NAMED {
                    names.push("...");
                }
                names.extend(["host", "null"]);
                Some(format!("ends are {}; `peerlane topo --machine` draws a machine", names.join(", ")))
            }
            FlowError::NoMemory { .. } => Some(
                "name a memory between them (`via`), say in the machine file which drive lends one \
                 (`cmb = \"64M\"`), or take the route `host`"
                    .to_owned(),
            ),
            FlowError::Block { size, .. } => Some(format!("a block is a multiple of {size} bytes")),
            FlowError::Setting(source) => source.hint(),
            FlowError::NoInitiator { .. } | FlowError::NoCopy { .. } => None,
        }
    }
}

impl From<ParameterError> for PredictError {
    fn from(error: ParameterError) -> Self {
        Self::Setting(error.into())
    }
}

/// Predicts a workload on a machine. The same arguments give the same record on any number of threads.
///
/// # Errors
/// When a name is not of the machine, a path is not there, or a parameter has no meaning.
pub fn run(
    fabric: &Fabric,
    parameters: &Parameters,
    workload: &Workload,
    engine: Engine,
) -> Result<BenchRecord, PredictError> {
    run_watched(fabric, parameters, workload, engine, &AtomicUsize::new(0))
}

/// The same for somebody who waits: `ended` counts the transfers of all cases whose end is known.
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
    bounds::check_ranges(parameters)?;
    let numbers = parameters.values();
    let predictor = Predictor { fabric, parameters, seed: workload.seed };
    let cases: Vec<Prepared<'_>> = workload
        .cases
        .par_iter()
        .map(|case| predictor.prepare(case, &numbers, engine, Some(ended)))
        .collect::<Result<_, _>>()?;
    let planned =
        cases.iter().filter_map(|case| Some((case.asked.name.as_str(), case.windows.as_ref()?)));
    let shown = windows::run(planned)
        .map_err(|(case, source)| PredictError::Tlp { case: case.to_owned(), source })?;
    let warnings = cautions::of(fabric, parameters, cases.iter().map(|case| &case.model));
    let cases: Vec<CaseRecord> =
        cases.par_iter().map(|case| predictor.case(case, &shown)).collect::<Result<_, _>>()?;
    let record = BenchRecord {
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
    };
    Ok(record)
}

/// Rates of the cases of many variants of a workload, in bytes a second, in order of the variants.
/// `variant` gives the workload and the numbers that stand in place of those of the parameters.
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
        bounds::check(parameters, &numbers)?;
        let predictor = Predictor { fabric, parameters, seed: workload.seed };
        let rate = |case| Ok(predictor.rate(case, &numbers, engine)? * 1e9);
        workload.cases.iter().map(rate).collect()
    };
    // Found out of order, so that the error is that of the first variant on any number of threads.
    let all: Vec<Result<Vec<f64>, PredictError>> = (0..count).into_par_iter().map(rates).collect();
    all.into_iter().collect()
}

/// A case with its rates, before windows are run.
struct Prepared<'a> {
    asked: &'a CaseSpec,
    engine: Engine,
    why: &'static str,
    model: Model,
    found: Found,
    windows: Option<windows::Planned>,
}

struct Predictor<'a> {
    fabric: &'a Fabric,
    parameters: &'a Parameters,
    seed: u64,
}

impl Predictor<'_> {
    fn model(&self, case: &CaseSpec, numbers: &[f64]) -> Result<Model, PredictError> {
        let setting = Setting::new(self.parameters, numbers);
        let topology = setting.topology(self.fabric)?;
        let model = Model::new(self.fabric, &topology, &setting, case)?;
        self.refuse_unknown_links(case, &model)?;
        Ok(model)
    }

    /// Refuses to assume link speeds that pasted text leaves open.
    fn refuse_unknown_links(&self, case: &CaseSpec, model: &Model) -> Result<(), PredictError> {
        if self.fabric.origin != Origin::Text {
            return Ok(());
        }
        let below = cautions::without_link(self.fabric, self.parameters, model);
        if below.is_empty() {
            return Ok(());
        }
        let below = below.into_iter().map(|id| self.fabric.function(id).name.clone()).collect();
        Err(PredictError::LinkNotStated { case: case.name.clone(), below })
    }

    fn found(
        &self,
        case: &CaseSpec,
        numbers: &[f64],
        engine: Engine,
        settings: RunSettings<'_>,
    ) -> Result<Found, PredictError> {
        self.model(case, numbers)?.find(engine, case, settings)
    }

    fn prepare<'a>(
        &self,
        case: &'a CaseSpec,
        numbers: &[f64],
        asked: Engine,
        ended: Option<&AtomicUsize>,
    ) -> Result<Prepared<'a>, PredictError> {
        let (engine, why) = asked.choose(case);
        let model = self.model(case, numbers)?;
        let found = model.find(engine, case, RunSettings { ended, ..CAREFUL })?;
        let has_windows = engine == Engine::Tlp || asked == Engine::Auto && case.flows.len() <= FEW;
        let windows = has_windows.then(|| windows::plan(&model, &found));
        Ok(Prepared { asked: case, engine, why, model, found, windows })
    }

    /// The rate of a case as its record would have it, payload a nanosecond.
    fn rate(&self, case: &CaseSpec, numbers: &[f64], engine: Engine) -> Result<f64, PredictError> {
        if engine != Engine::Tlp {
            return Ok(self.found(case, numbers, engine, CAREFUL)?.rate());
        }
        let Prepared { model, mut found, windows, .. } =
            self.prepare(case, numbers, engine, None)?;
        if let Some(planned) = windows {
            let shown = windows::run(std::iter::once((case.name.as_str(), &planned)));
            let shown = shown
                .map_err(|(_, source)| PredictError::Tlp { case: case.name.clone(), source })?;
            let windows = windows::of(&planned, &shown, &found);
            found.take_rates(&windows.slower, model.has_time());
        }
        Ok(found.rate())
    }

    fn case(
        &self,
        prepared: &Prepared<'_>,
        shown: &windows::Shown<'_>,
    ) -> Result<CaseRecord, PredictError> {
        let &Prepared { asked: case, engine, why, ref model, .. } = prepared;
        let fluids = &prepared.found;
        let windows = prepared.windows.as_ref().map(|planned| windows::of(planned, shown, fluids));
        let packets = windows.as_ref().map(|windows| {
            let mut packets = fluids.clone();
            packets.take_rates(&windows.slower, model.has_time());
            packets
        });
        let packets = packets.as_ref().unwrap_or(fluids);
        let rates = (fluids.rate(), packets.rate());
        let found = if engine == Engine::Tlp { packets } else { fluids };
        let is_small = case.flows.len() <= RANGE_FLOWS_MAX;
        let interval = if is_small { self.interval(case, engine)? } else { None };
        // Draws are fluids, and packets as much slower in all of them as they are without.
        let as_found =
            |rate: ByteRate| names::per_second(per_nano(rate.0) * found.rate() / fluids.rate());
        let interval = interval.map(|(low, high)| (as_found(low), as_found(high)));
        // Where queues fill on one side of it, and lose some, the rate itself may be beyond all draws.
        let rate = names::per_second(found.rate());
        let interval = interval.map(|(low, high)| (low.min(rate), high.max(rate)));
        let gains = if is_small {
            // Both sides of a gain by fluids, whatever packets say of the rates.
            gains::gains(model, &prepared.found, (case, engine))?
        } else {
            Vec::new()
        };
        let engine = format!("{}: {why}", engine.name());
        let windows = windows.as_ref();
        let refused = peers::refused(self.fabric, model);
        let parts =
            Parts { asked: case, model, found, windows, engine, interval, gains, refused, rates };
        Ok(parts.record())
    }

    /// Between which rates four of five draws lie.
    fn interval(
        &self,
        case: &CaseSpec,
        engine: Engine,
    ) -> Result<Option<(ByteRate, ByteRate)>, PredictError> {
        let draw = Draw::new(self.seed);
        let settings = RunSettings { together: ABOUT, ..CAREFUL };
        let rate = |number| {
            let numbers = draw.numbers(self.parameters, number);
            Ok(self.found(case, &numbers, engine, settings)?.rate())
        };
        let mut rates: Vec<f64> =
            (0..DRAWS).into_par_iter().map(rate).collect::<Result<_, PredictError>>()?;
        rates.sort_by(f64::total_cmp);
        let at = |share| percentile(&rates, share).map(names::per_second);
        Ok(at(0.1).zip(at(0.9)))
    }
}

impl Found {
    /// Puts rates of packets in place of those of fluids: what was in a window is as much slower all the time as it was
    /// there, since a window is of the longest set of flows, and they are faster when others have ended. Of flows
    /// with a time that decides how much is moved, of others when they end.
    fn take_rates(&mut self, slower: &std::collections::BTreeMap<usize, f64>, has_time: bool) {
        self.unsettled = 0.0;
        for (&index, &slower) in slower {
            let flow = &mut self.flows[index];
            if has_time {
                flow.bytes /= slower;
            } else {
                flow.end = flow.start + (flow.end - flow.start) * slower;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn nanos(nanos: Nanos) -> f64 {
    (nanos.0 as f64).max(1.0)
}
