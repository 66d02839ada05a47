//! `peerlane sim`: what a workload would do on a machine that need not be there.

mod vary;

use std::path::{Path, PathBuf};

use peerlane_bench::workload;
use peerlane_fabric::Fabric;
use peerlane_results::{BenchRecord, Workload};
use peerlane_sim::parameters::Parameters;
use peerlane_sim::predict::{self, Engine};

use super::bench::{keep, outputs};
use crate::args::{FabricArgs, SimArgs, SimEngine};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render, small_file};

/// The longest workload that is read: a full one of ten thousand transfers has a few MiB.
const WORKLOAD_MAX: u64 = 16 << 20;
/// The longest file of parameters that is read.
const PARAMETERS_MAX: u64 = 1 << 20;

/// Predicts a workload.
///
/// # Errors
/// When machine, workload or parameters cannot be read, or do not fit each other.
pub(crate) fn run(args: &SimArgs, printer: Printer) -> Result<Exit, Failure> {
    let (machine, file) = match (&args.what[..], &args.root) {
        ([machine, file], None) => (Some(machine.clone()), file),
        ([file], Some(_)) => (None, file),
        ([_], None) => {
            let hint = "`peerlane sim MACHINE WORKLOAD`; `peerlane lab machines` lists names";
            return Err(Failure::new("no machine is given").hint(hint.to_owned()));
        }
        _ => return Err(Failure::new("two machines are given: one by name, one by --root")),
    };
    let fabric = machines::fabric(&FabricArgs { root: args.root.clone(), machine })?;
    let workload = read_workload(file)?;
    let parameters = read_parameters(args.parameters.as_ref())?;
    let engine = engine(args.engine);
    if !args.vary.is_empty() {
        return vary::run(args, &fabric, &parameters, &workload, engine, printer);
    }
    args.output.as_deref().map_or(Ok(()), outputs::may_replace)?;
    let record = predict(&fabric, &parameters, &workload, engine)?;
    if let Some(output) = &args.output {
        let tried = || format!("keep the record in {}", output.display());
        keep::write(output, &record).map_err(Tried::to(tried()))?;
    }
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.data(&render::sim(&record))?;
    }
    Ok(Exit::Done)
}

fn engine(engine: SimEngine) -> Engine {
    match engine {
        SimEngine::Auto => Engine::Auto,
        SimEngine::Closed => Engine::Closed,
        SimEngine::Flow => Engine::Flow,
        SimEngine::Tlp => Engine::Tlp,
    }
}

/// The prediction of a workload on a machine.
///
/// # Errors
/// When they do not fit each other.
pub(super) fn predict(
    fabric: &Fabric,
    parameters: &Parameters,
    workload: &Workload,
    engine: Engine,
) -> Result<BenchRecord, Failure> {
    let tried = || format!("predict {} on {}", workload.name, fabric.name);
    predict::run(fabric, parameters, workload, engine).map_err(Tried::to(tried()))
}

/// Parameters of a file before those that are built in.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub(super) fn read_parameters(file: Option<&PathBuf>) -> Result<Parameters, Failure> {
    let Some(file) = file else {
        return predict::parameters(None).map_err(Failure::new);
    };
    let tried = || format!("read the parameters {}", file.display());
    let text = small_file::read(file, PARAMETERS_MAX).map_err(Tried::to(tried()))?;
    predict::parameters(Some(&text)).map_err(Tried::to(tried()))
}

fn read_workload(file: &Path) -> Result<Workload, Failure> {
    let tried = || format!("read the workload {}", file.display());
    let text = small_file::read(file, WORKLOAD_MAX).map_err(Tried::to(tried()))?;
    workload::parse(&text).map_err(Tried::to(tried()))
}
