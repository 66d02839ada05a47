//! `peerlane sim`: what a workload would do on a machine that need not be there.

mod vary;

use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_results::Workload;
use peerlane_sim::parameters::Parameters;
use peerlane_sim::predict::{self, Engine};

use super::bench::{keep, outputs};
use super::workload_file;
use crate::args::{FabricArgs, SimArgs, SimEngine};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render, small_file};

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
    let workload = workload_file::read(file)?.build()?;
    let parameters = read_parameters(args.parameters.as_deref())?;
    let engine = engine(args.engine);
    if !args.vary.is_empty() {
        return vary::run(args, &fabric, &parameters, &workload, engine, printer);
    }
    let model = Model { fabric: &fabric, parameters: &parameters, engine };
    model.run(&workload, args.output.as_deref(), printer)
}

fn engine(engine: SimEngine) -> Engine {
    match engine {
        SimEngine::Auto => Engine::Auto,
        SimEngine::Closed => Engine::Closed,
        SimEngine::Flow => Engine::Flow,
        SimEngine::Tlp => Engine::Tlp,
    }
}

/// What a prediction is made with.
pub(super) struct Model<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) parameters: &'a Parameters,
    pub(super) engine: Engine,
}

impl Model<'_> {
    /// Predicts a workload, keeps the record where a file is named, and shows it.
    ///
    /// # Errors
    /// When the file must not be written, or the workload does not fit the machine.
    pub(super) fn run(
        &self,
        workload: &Workload,
        output: Option<&Path>,
        printer: Printer,
    ) -> Result<Exit, Failure> {
        output.map_or(Ok(()), outputs::may_replace)?;
        let tried = || format!("predict {} on {}", workload.name, self.fabric.name);
        let record = predict::run(self.fabric, self.parameters, workload, self.engine)
            .map_err(Tried::to(tried()))?;
        if let Some(output) = output {
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
    let text = small_file::read(file, PARAMETERS_MAX).map_err(Tried::to(tried()))?;
    predict::parameters(Some(&text)).map_err(Tried::to(tried()))
}
