//! `peerlane bench`: builds a workload from arguments, runs it, keeps and shows its record.

pub(super) mod attach;
mod compare;
mod compare_nodes;
mod fio;
mod gpu;
pub(super) mod keep;
mod outputs;
mod roundtrip;
mod watcher;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use peerlane_bench::length::{self, LengthError};
use peerlane_bench::run::{self, Conditions, RunError};
use peerlane_bench::workload::{Brief, WrittenWorkload};
use peerlane_engine::MonotonicClock;
use peerlane_engine::measure::Consent;
use peerlane_fabric::Fabric;
use peerlane_results::{BenchRecord, FlowStage, Order, Workload, WorkloadKind};
use peerlane_sim::predict::Engine;

use super::connections;
use super::sim::{self, PredictionModel};
use super::trace_file::{self, TraceFile};
use super::workload_file::{self, WorkloadFile};
use crate::args::{BenchCommand, BenchCommandArgs, FabricArgs, HowArgs, ModelArgs, On};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output_file::{OutputError, OutputFile};
use crate::printer::Printer;
use crate::render::OverwrittenRanges;
use crate::{machines, render, signals};
use gpu::Classical;
use watcher::Watcher;

/// Runs a benchmark.
///
/// # Errors
/// When it is refused, is not possible here, fails, or its figures cannot be.
pub(crate) fn run(args: &BenchCommandArgs, printer: Printer) -> Result<Exit, Failure> {
    match &args.command {
        BenchCommand::Compare(args) => return compare::run(args, printer),
        BenchCommand::Attach(args) => return attach::run(args, printer),
        _ => {}
    }
    if let Some(model) = model(args)? {
        return on_model(args, model, printer);
    }
    let how = &args.bench.how;
    let earlier = how.resume.as_deref().map(keep::read).transpose()?;
    let seed = earlier.as_ref().map_or_else(super::copy::seed, |record| record.asked.seed);
    let asked = match &args.command {
        BenchCommand::Run(args) => AskedWorkload::File(workload_file::read(&args.file)?),
        _ => AskedWorkload::Words(Box::new(brief(args, seed))),
    };
    let stop = signals::stop_flag()?;
    let deadline = how.timeout;
    let (_connections, fabric) =
        connections::open(asked.ends(), deadline, printer, || stop.load(Ordering::Relaxed))?;
    let workload = workload_of(&fabric, asked, (&args.command, how, &stop), printer)?;
    let fio = match &args.command {
        BenchCommand::Stream(args) => args.fio.as_deref(),
        _ => None,
    };
    let output = outputs::check(how, fio, &workload)?;
    if fio.is_some() {
        fio::check(&fabric, &workload)?;
    }
    let (record, overwritten) =
        carry_out(&fabric, &workload, earlier, (how, output), &stop, printer)?;
    let shown = if printer.is_json() {
        printer.object(&record)
    } else {
        printer.text(&render::bench(&record, &overwritten))
    };
    shown?;
    if let Some(file) = fio {
        fio::beside(&fabric, &record, file, printer)?;
    }
    Ok(Exit::Done)
}

/// Every transfer of a workload on this machine.
fn workload_of(
    fabric: &Fabric,
    asked: AskedWorkload<'_>,
    (command, how, stop): (&BenchCommand, &HowArgs, &AtomicBool),
    printer: Printer,
) -> Result<Workload, Failure> {
    let (has_usual_routes, workload) = match asked {
        AskedWorkload::File(file) => in_reach(fabric, file, printer)?,
        AskedWorkload::Words(brief) => {
            let brief = length::within(fabric, *brief).map_err(no_length)?;
            let is_default = gpu::has_default_routes(&brief);
            let brief = gpu::with_routes(fabric, brief, classical(command), printer)?;
            if let BenchCommand::Roundtrip(_) = command {
                roundtrip::tell(&brief, printer);
            }
            tell_excluded(&brief, printer);
            let is_usual = is_default || brief.has_usual_routes();
            (is_usual, brief.build().map_err(Failure::new)?)
        }
    };
    if !has_usual_routes {
        return Ok(workload);
    }
    let consent = Consent { scratch: how.scratch.clone(), force: how.force };
    let conditions = conditions(fabric, &consent, (how, stop));
    let (workload, left_out) =
        run::possible_cases(workload, &conditions).map_err(|error| failure(error, None))?;
    if let Some(left_out) = left_out {
        printer.note(&left_out.to_string());
    }
    Ok(workload)
}

fn tell_excluded(brief: &Brief, printer: Printer) {
    if let Some(words) = brief.excluded_route() {
        printer.note(&words);
    }
}

/// Conditions of a run without a trace, on a clock that begins now.
fn conditions<'a>(
    fabric: &'a Fabric,
    consent: &'a Consent,
    (how, stop): (&HowArgs, &'a AtomicBool),
) -> Conditions<'a> {
    Conditions {
        fabric,
        consent,
        clock: MonotonicClock::start(),
        stop,
        trace: None,
        deadline: how.timeout,
        started_s: keep::time_of_day(),
        warnings: &[],
    }
}

/// A workload before anything is looked at.
enum AskedWorkload<'a> {
    File(WorkloadFile<'a>),
    Words(Box<Brief>),
}

impl AskedWorkload<'_> {
    /// Sources and targets as typed.
    fn ends(&self) -> Vec<&String> {
        match self {
            Self::Words(brief) => ends_of_brief(brief),
            Self::File(file) => match &file.written {
                WrittenWorkload::Brief(brief) => ends_of_brief(brief),
                WrittenWorkload::Full(workload) => {
                    let flows = workload.cases.iter().flat_map(|case| &case.flows);
                    flows.flat_map(|flow| [&flow.source, &flow.target]).collect()
                }
            },
        }
    }
}

fn ends_of_brief(brief: &Brief) -> Vec<&String> {
    brief.source.iter().chain(&brief.target).chain(&brief.drives).collect()
}

/// The workload of a file, and whether cases by a route that it does not name may be left out. A file in its short
/// form says no more of lengths and routes than the options do.
fn in_reach(
    fabric: &Fabric,
    mut file: WorkloadFile<'_>,
    printer: Printer,
) -> Result<(bool, Workload), Failure> {
    let mut is_usual = file.has_usual_routes();
    if let WrittenWorkload::Brief(brief) = file.written {
        tell_excluded(&brief, printer);
        let brief = length::within(fabric, *brief).map_err(no_length)?;
        is_usual |= gpu::has_default_routes(&brief);
        let brief = gpu::with_routes(fabric, brief, Classical::LeftOut, printer)?;
        file.written = WrittenWorkload::Brief(Box::new(brief));
    }
    Ok((is_usual, file.build()?))
}

fn no_length(error: LengthError) -> Failure {
    let hint = error.hint();
    Failure::new(error).hint(hint)
}

/// The model that is asked instead of this machine, if it is.
fn model(args: &BenchCommandArgs) -> Result<Option<&ModelArgs>, Failure> {
    let model = &args.bench.model;
    if model.on == On::Model {
        return Ok(Some(model));
    }
    if model.machine.is_none() && model.parameters.is_none() {
        return Ok(None);
    }
    let error = "`--machine` and `--parameters` are of the model, and `--on this` measures";
    Err(Failure::new(error).hint("`--on model` predicts".to_owned()))
}

/// The same workload on the model: a record that says that it is predicted.
fn on_model(args: &BenchCommandArgs, model: &ModelArgs, printer: Printer) -> Result<Exit, Failure> {
    let how = &args.bench.how;
    if how.trace.is_some() {
        let hint = "take `--trace` away, or `--on model`";
        return Err(Failure::new("a trace is of real requests, and the model makes none")
            .hint(hint.to_owned()));
    }
    let fabric = machines::fabric(&FabricArgs { machine: model.machine.clone() }, printer)?;
    let workload = match &args.command {
        BenchCommand::Run(args) => workload_file::read(&args.file)?.build()?,
        _ => {
            let brief = brief(args, 0);
            tell_excluded(&brief, printer);
            brief.build().map_err(Failure::new)?
        }
    };
    for option in args.bench.workload.without_effect_on_model() {
        printer.warning(&format!(
            "{option} changes nothing on the model: all places of a drive are alike"
        ));
    }
    let parameters = sim::read_parameters(model.parameters.as_deref())?;
    let model = PredictionModel { fabric: &fabric, parameters: &parameters, engine: Engine::Auto };
    model.run(&workload, how.output.as_deref(), printer)
}

fn classical(command: &BenchCommand) -> Classical {
    match command {
        BenchCommand::Roundtrip(args) if args.classical => Classical::Too,
        _ => Classical::LeftOut,
    }
}

/// Returns the workload that the command line describes.
fn brief(args: &BenchCommandArgs, seed: u64) -> Brief {
    let BenchCommandArgs { bench, command } = args;
    let of = |kind| bench.workload.brief(kind, seed);
    match command {
        BenchCommand::Sweep(args) => Brief {
            source: vec![args.source.clone()],
            target: vec![args.target.clone()],
            via: args.memory.via.clone(),
            ..of(WorkloadKind::Sweep)
        },
        BenchCommand::Matrix(args) => Brief {
            drives: args.drives.clone(),
            via: args.memory.via.clone(),
            ..of(WorkloadKind::Matrix)
        },
        BenchCommand::Crowd(args) => Brief {
            drives: args.drives.clone(),
            pattern: Some(args.pattern),
            via: args.memory.via.clone(),
            ..of(WorkloadKind::Crowd)
        },
        BenchCommand::Stream(args) => {
            let (source, target) = args.ends();
            Brief {
                source,
                target,
                jobs: Some(args.jobs),
                order: if args.random { Order::Random } else { Order::Sequential },
                stage: args.stage.as_ref().map(|name| FlowStage::new(name.to_string())),
                ..of(WorkloadKind::Stream)
            }
        }
        BenchCommand::Roundtrip(args) => {
            roundtrip::brief(args, &bench.how.scratch, of(WorkloadKind::Roundtrip))
        }
        BenchCommand::Run(_) | BenchCommand::Compare(_) | BenchCommand::Attach(_) => {
            Brief::new(WorkloadKind::Sweep)
        }
    }
}

fn carry_out(
    fabric: &Fabric,
    workload: &Workload,
    earlier: Option<BenchRecord>,
    (how, output): (&HowArgs, Option<OutputFile>),
    stop: &AtomicBool,
    printer: Printer,
) -> Result<(BenchRecord, OverwrittenRanges), Failure> {
    let (_, warnings) = run::of_machine(fabric);
    let clock = MonotonicClock::start();
    let trace = how.trace.as_deref();
    let trace = trace.map(|file| TraceFile::begin(file, clock, at_once(workload))).transpose()?;
    let tracer = trace.as_ref().map(TraceFile::tracer);
    let consent = Consent { scratch: how.scratch.clone(), force: how.force };
    let conditions = Conditions {
        clock,
        trace: tracer.as_ref(),
        warnings: &warnings,
        ..conditions(fabric, &consent, (how, stop))
    };
    printer.note(&format!("{}; seed {}", workload.name, workload.seed));
    let kept = output.as_ref().map(|output| output.path().to_owned());
    let mut watcher = Watcher::new(printer, output);
    let result = run::run(workload, earlier, &conditions, &mut watcher);
    watcher.finish();
    if result.is_err() {
        watcher.tell_what_is_left();
    }
    let result = result.map_err(|error| failure(error, kept.as_deref()));
    let record = trace_file::finish(trace, result, printer)?;
    Ok((record, watcher.overwritten()))
}

/// Most transfers at a time.
fn at_once(workload: &Workload) -> u16 {
    let most = workload.cases.iter().map(|case| case.flows.len()).max().unwrap_or(1);
    u16::try_from(most).unwrap_or(u16::MAX)
}

fn failure(error: RunError, output: Option<&Path>) -> Failure {
    let error = match (error, output) {
        (RunError::Save(why), Some(output)) => match why.downcast::<OutputError>() {
            Ok(why) => return why.on(output),
            Err(why) => RunError::Save(why),
        },
        (error, _) => error,
    };
    let exit = match &error {
        RunError::Interrupted(_) => Exit::Interrupted,
        error if error.is_not_possible() => Exit::NotPossible,
        error if error.is_difference() => Exit::Negative,
        _ => Exit::Failed,
    };
    let hint = match (&error, output) {
        (RunError::Interrupted(record), Some(output)) if !record.cases.is_empty() => {
            Some(format!("`--resume {}` with the same options continues", output.display()))
        }
        (error, _) => error.hint(),
    };
    Failure::new(error).hint(hint).exit(exit)
}
