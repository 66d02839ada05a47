//! `peerlane copy --batch`: several copies, so many at a time.
//!
//! All are planned before the first byte moves, and none begins unless all could. One that fails later
//! does not stop the others.

mod disks;
mod jobs_file;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use peerlane_engine::shares::{Arbiter, Demand};
use peerlane_engine::trace::Tracer;
use peerlane_engine::{
    CopyError, CopyOptions, FanOut, MonotonicClock, Phase, Surveyor, Surveys, Tools, Watch,
    copy_fan_out, plan_jobs,
};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Plan};
use peerlane_units::Bytes;

use super::marks::Marks;
use super::outcome::{self, EndedJob};
use super::resume::ResumeCommand;
use super::trace_file::{self, TraceFile};
use super::{connections, copy, plan};
use crate::args::{CopyArgs, ProgressFor};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::signals;
use disks::Disks;
use jobs_file::BatchJob;

/// Carries the copies out, or prints their plans with `--dry-run`.
///
/// # Errors
/// When nothing was begun, or a target is not complete.
pub(super) fn run(file: &Path, args: &CopyArgs, printer: Printer) -> Result<Exit, Failure> {
    if args.progress.readers() == ProgressFor::Programs {
        let words = "`--batch` has no `--json-progress`: it says one line a copy";
        return Err(Failure::new(words).hint("leave one of them out".to_owned()));
    }
    let jobs = jobs_file::read(file, args)?;
    let stop = signals::stop_flag()?;
    let asked: Vec<Vec<Asked>> = jobs.iter().map(|job| job.asked.clone()).collect();
    let ends = asked.iter().flatten().flat_map(|asked| [&asked.source, &asked.target]);
    let deadline = args.transfer.deadline();
    let (_connections, fabric) =
        connections::open(ends, deadline, printer, || stop.load(Ordering::Relaxed))?;
    let clock = MonotonicClock::start();
    let surveys = Surveys::default();
    let surveyor = Surveyor::new(&clock, deadline).with_surveys(&surveys);
    let plans = plan_jobs(&fabric, &asked, &surveyor).map_err(|(number, error)| {
        let hint = error.hint();
        Tried::to(format!("plan copy {}", number + 1))(error).hint(hint)
    })?;
    if args.dry_run {
        return plan::show_all(&fabric, plans, printer);
    }
    refuse(&plans)?;
    let clock = MonotonicClock::start();
    let trace = trace_file::begin(args, asked.iter().flatten(), clock)?;
    let batch = Batch {
        fabric: &fabric,
        jobs: &jobs,
        plans: &plans,
        args,
        printer,
        stop,
        next: AtomicUsize::new(0),
        arbiter: Arbiter::new(args.limit),
        clock,
        trace: trace.as_ref().map(TraceFile::tracer),
        disks: Disks::from_plans(&plans),
        surveys,
    };
    let ended = batch.finish(&batch.carry_out());
    trace_file::finish(trace, ended, printer)
}

/// Nothing begins while something stands against one of them.
fn refuse(plans: &[Vec<Plan>]) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    let mut hint = None;
    let mut exit = Exit::NotPossible;
    for (number, job) in plans.iter().enumerate() {
        for one in job {
            for refusal in &one.refusals {
                exit = Exit::Failed;
                hint = hint.or_else(|| refusal.hint.clone());
                reasons.push(format!("copy {}: {}", number + 1, refusal.reason));
            }
        }
        if let Some(plan) = job.iter().find(|plan| plan.route.is_none()) {
            reasons.push(format!("copy {}: {}", number + 1, plan.reason));
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Tried::to("begin the batch")(reasons.join("; ")).hint(hint).exit(exit))
}

struct Batch<'a> {
    fabric: &'a Fabric,
    jobs: &'a [BatchJob],
    plans: &'a [Vec<Plan>],
    args: &'a CopyArgs,
    printer: Printer,
    stop: Arc<AtomicBool>,
    /// The next that is not taken yet.
    next: AtomicUsize,
    arbiter: Arc<Arbiter>,
    clock: MonotonicClock,
    trace: Option<Tracer>,
    disks: Disks,
    surveys: Surveys,
}

impl Batch<'_> {
    /// Carries all of them out; their ends, in their order.
    fn carry_out(&self) -> Vec<EndedJob> {
        let ended: Mutex<Vec<Option<EndedJob>>> =
            Mutex::new(self.jobs.iter().map(|_| None).collect());
        let work = || {
            loop {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                if number >= self.jobs.len() {
                    return;
                }
                let job = self.one(number);
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                ended[number] = Some(job);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..usize::from(self.args.jobs).min(self.jobs.len()) {
                scope.spawn(work);
            }
            work();
        });
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.into_iter().flatten().collect()
    }

    fn one(&self, number: usize) -> EndedJob {
        let (job, plan) = (&self.jobs[number], &self.plans[number]);
        let _turn = self.disks.wait_for(number);
        let copied = if self.stop.load(Ordering::Relaxed) {
            let targets = job.asked.iter().map(|_| Err(not_begun(plan))).collect();
            FanOut { read: Bytes::ZERO, targets }
        } else {
            self.copy(number)
        };
        let ended = EndedJob::new(&job.asked, copied);
        let is_done = ended.targets.iter().all(|one| one.exit == Exit::Done);
        let word = if is_done { "done" } else { "not complete" };
        self.printer.note(&format!("copy {} of {}: {word}", number + 1, self.jobs.len()));
        ended
    }

    fn copy(&self, number: usize) -> FanOut {
        let (job, plan) = (&self.jobs[number], &self.plans[number]);
        let mut watch = JobWatch {
            number,
            printer: self.printer,
            stop: &self.stop,
            marks: (self.args.jobs == 1).then(|| Marks::new(self.printer)),
        };
        let share = self.arbiter.join(Demand::of_all(plan));
        let options = CopyOptions {
            share: Some(Arc::new(share)),
            trace: self.trace.clone(),
            surveys: self.surveys.clone(),
            ..job.options.clone()
        };
        let mut tools = Tools {
            clock: &self.clock,
            watch: &mut watch,
            seed: copy::seed(),
            deadline: job.timeout,
            options,
        };
        match copy_fan_out(self.fabric, plan, &mut tools) {
            Ok(copied) => copied,
            Err(error) => copy::for_each(error, plan.len()),
        }
    }

    /// A copy that goes on by itself has all of the batch's rate.
    fn resume(&self, job: &BatchJob) -> ResumeCommand {
        let limit = job.options.limit.or(self.args.limit);
        let options = CopyOptions { limit, ..job.options.clone() };
        ResumeCommand { options, timeout: job.timeout }
    }

    /// Prints what became of them.
    fn finish(&self, ended: &[EndedJob]) -> Result<Exit, Failure> {
        let commands: Vec<String> = (self.jobs.iter().zip(ended))
            .filter_map(|(job, ended)| ended.command(&job.asked, &self.resume(job)))
            .map(|command| format!("`{command}`"))
            .collect();
        let hint = (!commands.is_empty()).then(|| format!("{} continues", commands.join("; ")));
        outcome::show(ended, hint, self.printer)
    }
}

fn not_begun(plans: &[Plan]) -> CopyError {
    let shape = plans.first().and_then(|one| one.shape.as_ref());
    let total = shape.map_or(Bytes::ZERO, |shape| shape.length);
    CopyError::Interrupted { done: Bytes::ZERO, total, journal: None }
}

/// Watch of one copy of several.
struct JobWatch<'a> {
    number: usize,
    printer: Printer,
    stop: &'a AtomicBool,
    /// `None` where several copies run at a time, which have no common phase.
    marks: Option<Marks>,
}

impl Watch for JobWatch<'_> {
    fn phase(&mut self, phase: Phase) {
        if let Some(marks) = &mut self.marks {
            marks.phase(phase);
        }
    }

    fn notice(&mut self, text: &str) {
        self.printer.warning(&format!("copy {}: {text}", self.number + 1));
    }

    fn caution(&mut self, text: &str) {
        self.notice(text);
    }

    fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
