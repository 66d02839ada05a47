//! `peerlane sim`: the prediction of a workload on a machine that need not exist.

mod vary;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use peerlane_fabric::{Fabric, LinkSpeed};
use peerlane_results::{RecordSchema, Workload};
use peerlane_sim::generate::{self, NotationError};
use peerlane_sim::parameters::Parameters;
use peerlane_sim::predict::{self, Engine, PredictError};

use super::bench::keep;
use super::workload_file;
use crate::args::{FabricArgs, SimArgs};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::{Elapsed, Printer};
use crate::{machines, render, small_file};

/// The longest file of parameters that is read.
const PARAMETERS_MAX: u64 = 1 << 20;

/// The schema of the object that `--vary --json` prints.
pub(super) fn schema() -> RecordSchema {
    vary::schema()
}

/// Predicts a workload.
///
/// # Errors
/// When machine, workload or parameters cannot be read, or do not fit each other.
pub(crate) fn run(args: &SimArgs, printer: Printer) -> Result<Exit, Failure> {
    let (machine, file) = match (&args.what[..], &args.machine) {
        ([machine, file], None) | ([file], Some(machine)) => (machine, file),
        ([_], None) => {
            let hint = "`peerlane sim MACHINE WORKLOAD`; `peerlane lab machines` lists names";
            return Err(Failure::new("a machine or a workload is missing").hint(hint.to_owned()));
        }
        _ => {
            let hint = "`peerlane sim MACHINE WORKLOAD`, or `peerlane sim --machine WHAT WORKLOAD`";
            let error = "two machines are given: one before the workload, one by --machine";
            return Err(Failure::new(error).hint(hint.to_owned()));
        }
    };
    let fabric = machine_of(machine, printer)?;
    let workload = workload_of(file, &fabric)?;
    let parameters = read_parameters(args.parameters.as_deref())?;
    let engine = args.engine;
    if !args.vary.is_empty() {
        warn_of_parameters(&fabric, &parameters, printer);
        return vary::run(args, &fabric, &parameters, &workload, engine, printer);
    }
    let model = PredictionModel { fabric: &fabric, parameters: &parameters, engine };
    model.run(&workload, args.output.as_deref(), printer)
}

/// Machine, parameters and engine of a prediction.
pub(super) struct PredictionModel<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) parameters: &'a Parameters,
    pub(super) engine: Engine,
}

impl PredictionModel<'_> {
    /// Predicts a workload, keeps the record in `output`, and shows it.
    ///
    /// # Errors
    /// When the file must not be written, or the workload does not fit the machine.
    pub(super) fn run(
        &self,
        workload: &Workload,
        output: Option<&Path>,
        printer: Printer,
    ) -> Result<Exit, Failure> {
        let output = output.map(keep::output).transpose()?;
        warn_of_parameters(self.fabric, self.parameters, printer);
        let what = format!("{} on {}", workload.name, self.fabric.name);
        let tried = format!("predict {what}");
        let (ended, all) = (Arc::new(AtomicUsize::new(0)), transfers(workload));
        let so_far = Arc::clone(&ended);
        let words = move || match so_far.load(Ordering::Relaxed) {
            ended if ended < all => format!("predicting {what}: {ended} of {all} transfers"),
            // The interval, sensitivities and packets.
            _ => format!("predicting {what}"),
        };
        let waiting = Elapsed::start(printer, words);
        let &Self { fabric, parameters, engine } = self;
        let found = predict::run_watched(fabric, parameters, workload, engine, &ended);
        drop(waiting);
        let record = found.map_err(|error| not_predicted(error, tried, self.fabric))?;
        if let Some(mut output) = output {
            keep::write(&mut output, &record).map_err(|error| error.on(output.path()))?;
        }
        if printer.is_json() {
            printer.object(&record)?;
        } else {
            printer.text(&render::sim(&record))?;
        }
        Ok(Exit::Done)
    }
}

/// Transfers of all cases.
fn transfers(workload: &Workload) -> usize {
    workload.cases.iter().map(|case| case.flows.len()).sum()
}

/// The failure of a prediction, with advice.
fn not_predicted(error: PredictError, tried: String, fabric: &Fabric) -> Failure {
    let hint = error.hint(fabric);
    let exit = if error.is_not_possible() { Exit::NotPossible } else { Exit::Failed };
    Tried::to(tried)(error).hint(hint).exit(exit)
}

/// The failure of a notation, with advice.
fn not_made(error: NotationError, tried: &str) -> Failure {
    let hint = match &error {
        NotationError::NoPairs(_) => {
            "a workload file (`peerlane bench run --help`) moves data by host memory, too"
        }
        _ => "`peerlane sim --help` has the forms",
    };
    Tried::to(tried)(error).hint(hint.to_owned())
}

/// Warns of parameters without effect, and of an Ethernet faster than its link, which may be in another unit.
fn warn_of_parameters(fabric: &Fabric, given: &Parameters, printer: Printer) {
    for function in &fabric.functions {
        let link = function.link.and_then(|link| link.speed()).map(LinkSpeed::usable_rate);
        if let (Some(ethernet), Some(link)) = (function.ethernet, link) {
            if ethernet > link {
                printer.warning(&format!(
                    "the Ethernet of {} carries {ethernet}, and its link {link}: machine files have bytes a second, \
                     12.5GB/s for 100 Gbit/s",
                    function.name
                ));
            }
        }
    }
    for name in predict::unknown(given, fabric) {
        printer.warning(&format!(
            "parameter `{name}` changes nothing: neither the model nor a device of {} has it",
            fabric.name
        ));
    }
    for (name, why) in predict::unused(given, fabric) {
        warn_unused(name, fabric, why, printer);
    }
}

/// Warns of a parameter without effect on a machine, with the reason.
fn warn_unused(name: &str, fabric: &Fabric, why: &str, printer: Printer) {
    printer.warning(&format!("parameter `{name}` changes nothing on {}: {why}", fabric.name));
}

/// Parameters of a file before those that are built in.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub(super) fn read_parameters(file: Option<&Path>) -> Result<Parameters, Failure> {
    let Some(file) = file else {
        return predict::parameters(None).map_err(Failure::new);
    };
    let tried = || format!("read the parameters {}", file.display());
    let text = small_file::read(file, PARAMETERS_MAX).map_err(Tried::to_read(tried(), file))?;
    let hint = "`peerlane sim --help` shows such a file, and `--vary ?=1` lists names";
    predict::parameters(Some(&text))
        .map_err(|error| Tried::to(tried())(error).hint(hint.to_owned()))
}

/// The machine: generated by a notation, or as every command finds it.
fn machine_of(machine: &Path, printer: Printer) -> Result<Fabric, Failure> {
    let notation = machine.to_str().filter(|_| !machine.exists());
    match notation.and_then(generate::fabric) {
        Some(generated) => generated.map_err(|error| not_made(error, "make the machine")),
        None => machines::fabric(&FabricArgs { machine: Some(machine.to_owned()) }, printer),
    }
}

/// The workload: generated by a notation, or as `bench run` finds it.
fn workload_of(file: &Path, fabric: &Fabric) -> Result<Workload, Failure> {
    match file.to_str().and_then(|text| generate::workload(text, fabric)) {
        Some(made) => made.map_err(|error| not_made(error, "make the workload")),
        None => workload_file::read(file)?.build(),
    }
}
