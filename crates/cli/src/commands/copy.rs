//! `peerlane copy`: moves data and prints the record.

use peerlane_engine::endpoints::Notation;
use peerlane_engine::{
    CopyError, CopyOptions, FanOut, MonotonicClock, Phase, Start, Tools, Watch, copy_fan_out,
};
use peerlane_results::Asked;
use peerlane_units::Bytes;

use super::outcome::{self, EndedJob};
use super::overwrite::Asking;
use super::resume::ResumeCommand;
use super::terminal_watch::TerminalWatch;
use super::{batch, connections, overwrite, plan, target_folder, trace_file};
use crate::args::CopyArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Copies, or prints the plan with `--dry-run`.
///
/// # Errors
/// When the copy is refused, is not possible here, fails, or left other bytes at the target.
pub(crate) fn run(args: &CopyArgs, printer: Printer) -> Result<Exit, Failure> {
    if let Some(file) = &args.transfer.batch {
        return batch::run(file, args, printer);
    }
    let mut watch = TerminalWatch::new(printer)?;
    // Planning reads both ends to see what they carry; that is no payload.
    watch.phase(Phase::Check);
    let asked = target_folder::here(args.transfer.asked());
    asked.iter().try_for_each(not_with_gpu)?;
    let deadline = args.transfer.deadline();
    let ends = asked.iter().flat_map(|asked| [&asked.source, &asked.target]);
    let (_connections, fabric) =
        connections::open(ends, deadline, printer, || watch.stop_requested())?;
    let options = options(args);
    let plans = plan::make_all(&fabric, &asked, deadline, &options.surveys)?;
    if args.dry_run {
        return plan::show_all(&fabric, vec![plans], printer);
    }
    let asking = Asking { options: &options, deadline, printer };
    let plans = overwrite::settle(&fabric, plans, asking, || watch.stop_requested())?;
    let route = plans.first().and_then(|plan| plan.route);
    if route.is_some() {
        watch.show(route, args.progress.readers());
    }
    let resume = ResumeCommand { options: options.clone(), timeout: deadline };
    let clock = MonotonicClock::start();
    let trace = trace_file::begin(args, &asked, clock)?;
    let mut tools = Tools {
        clock: &clock,
        watch: &mut watch,
        seed: seed(),
        deadline,
        options: trace_file::for_copy(options, trace.as_ref()),
    };
    let copied = copy_fan_out(&fabric, &plans, &mut tools);
    watch.finish();
    let shown = copied
        .map_err(|error| failure(error, &asked, &resume))
        .and_then(|copied| show(&asked, copied, &resume, printer));
    trace_file::finish(trace, shown, printer)
}

/// Refuses a GPU as an end: its memory is freed when the program that holds it ends.
fn not_with_gpu(asked: &Asked) -> Result<(), Failure> {
    let is_gpu = |typed: &&String| matches!(typed.parse(), Ok(Notation::Gpu(_)));
    let Some(gpu) = [&asked.source, &asked.target].into_iter().find(is_gpu) else {
        return Ok(());
    };
    let error = format!("cannot copy to or from {gpu}: its memory is gone when this program ends");
    let hint = "`peerlane bench stream --source FILE --target gpu:N` measures the route; `peerlane plan` \
                explains it";
    Err(Failure::new(error).hint(hint.to_owned()))
}

fn show(
    asked: &[Asked],
    mut copied: FanOut,
    resume: &ResumeCommand,
    printer: Printer,
) -> Result<Exit, Failure> {
    // The failure of the only target is that of the command.
    if let [Err(_)] = copied.targets.as_slice() {
        copied.targets.remove(0).map_err(|error| failure(error, asked, resume))?;
    }
    let ended = EndedJob::new(asked, copied);
    let command = ended.command(asked, resume);
    let hint = command.map(|command| format!("`{command}` continues them"));
    outcome::show(&[ended], hint, printer)
}

/// A random seed.
pub(super) fn seed() -> u64 {
    peerlane::seed()
}

pub(super) fn options(args: &CopyArgs) -> CopyOptions {
    CopyOptions {
        start: if args.resume { Start::Resume } else { Start::Anew },
        journal: args.journal.clone(),
        environment: peerlane::environment(),
        sparse: args.sparse,
        watch_dma: args.watch_dma(),
        limit: args.limit,
        preserve: args.preserve.clone(),
        stages: args.stages(),
        ..CopyOptions::default()
    }
}

/// One failure as that of several targets: the first has it, the others its words.
pub(super) fn for_each(error: CopyError, count: usize) -> FanOut {
    let reason = error.to_string();
    let others = (1..count).map(|_| CopyError::WithOthers { reason: reason.clone() });
    let others: Vec<CopyError> = others.collect();
    FanOut { read: Bytes::ZERO, targets: std::iter::once(error).chain(others).map(Err).collect() }
}

/// The exit status of a copy that ended so.
pub(super) fn exit_of(error: &CopyError) -> Exit {
    match error.cause() {
        CopyError::NotPossible { .. } => Exit::NotPossible,
        CopyError::Differs { .. } => Exit::Negative,
        CopyError::Interrupted { .. } => Exit::Interrupted,
        _ => Exit::Failed,
    }
}

fn failure(error: CopyError, asked: &[Asked], resume: &ResumeCommand) -> Failure {
    let exit = exit_of(&error);
    let hint = match error.journal() {
        None => error.hint(),
        Some(_) => {
            let command = resume.for_targets(&asked.iter().collect::<Vec<_>>());
            let command = format!("`{command}` continues it");
            Some(error.hint().map_or(command.clone(), |hint| format!("{hint}; {command}")))
        }
    };
    Failure::new(error).hint(hint).exit(exit)
}
