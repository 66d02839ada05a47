//! `peerlane copy --batch`: several copies, so many at a time.
//!
//! All are planned before the first byte moves, and none begins unless all could. One that fails later
//! does not stop the others.

mod disks;
mod jobs_file;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use peerlane_engine::shares::{Arbiter, Demand};
use peerlane_engine::trace::Tracer;
use peerlane_engine::{
    CopyError, CopyOptions, MonotonicClock, Phase, Sparse, Surveyor, Surveys, Tools, Watch,
    copy_fan_out, plan_jobs,
};
use peerlane_fabric::Fabric;
use peerlane_results::{
    Asked, BATCH_PLAN_SCHEMA, BATCH_SCHEMA, BatchPlan, BatchRecord, CopyRecord, FanOutPlan,
    JobOutcome, RouteChoice,
};
use peerlane_units::{ByteRate, Bytes};

use super::marks::Marks;
use super::outcome::{self, EndedTarget};
use super::trace_file::{self, TraceFile};
use super::{connections, copy, plan, resume};
use crate::args::{CopyArgs, ProgressFor};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{render, signals};
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
        return show(&fabric, plans, printer);
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
    let ended = batch.finish(batch.carry_out());
    trace_file::finish(trace, ended, printer)
}

fn show(fabric: &Fabric, jobs: Vec<FanOutPlan>, printer: Printer) -> Result<Exit, Failure> {
    let would_start = jobs.iter().flat_map(|job| &job.targets).all(plan::would_start);
    let batch = BatchPlan { schema: BATCH_PLAN_SCHEMA.to_owned(), jobs };
    if printer.is_json() {
        printer.object(&batch)?;
    } else {
        printer.text(&render::batch_plan(&batch, &|one| plan::sentence(fabric, one)))?;
    }
    Ok(if would_start { Exit::Done } else { Exit::Negative })
}

/// Nothing begins while something stands against one of them.
fn refuse(plans: &[FanOutPlan]) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    let mut hint = None;
    let mut exit = Exit::NotPossible;
    for (number, job) in plans.iter().enumerate() {
        for one in &job.targets {
            for refusal in &one.refusals {
                exit = Exit::Failed;
                hint = hint.or_else(|| refusal.hint.clone());
                reasons.push(format!("copy {}: {}", number + 1, refusal.reason));
            }
        }
        if job.route.is_none() {
            reasons.push(format!("copy {}: {}", number + 1, job.reason));
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
    plans: &'a [FanOutPlan],
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
    /// Carries all of them out; what became of each target of each, in their order.
    fn carry_out(&self) -> Vec<Vec<EndedTarget>> {
        let ended: Mutex<Vec<Option<Vec<EndedTarget>>>> =
            Mutex::new(self.jobs.iter().map(|_| None).collect());
        let work = || {
            loop {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                if number >= self.jobs.len() {
                    return;
                }
                let outcomes = self.one(number);
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                ended[number] = Some(outcomes);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..usize::from(self.args.jobs).min(self.jobs.len()) {
                scope.spawn(work);
            }
            work();
        });
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn one(&self, number: usize) -> Vec<EndedTarget> {
        let (job, plan) = (&self.jobs[number], &self.plans[number]);
        let _turn = self.disks.wait_for(number);
        let results = if self.stop.load(Ordering::Relaxed) {
            job.asked.iter().map(|_| Err(not_begun(plan))).collect()
        } else {
            self.copy(number)
        };
        let ended: Vec<EndedTarget> = (job.asked.iter().zip(results))
            .map(|(asked, result)| EndedTarget::new(&asked.target, result))
            .collect();
        let is_done = ended.iter().all(|one| one.exit == Exit::Done);
        let word = if is_done { "done" } else { "not complete" };
        self.printer.note(&format!("copy {} of {}: {word}", number + 1, self.jobs.len()));
        ended
    }

    fn copy(&self, number: usize) -> Vec<Result<CopyRecord, CopyError>> {
        let (job, plan) = (&self.jobs[number], &self.plans[number]);
        let mut watch = JobWatch {
            number,
            printer: self.printer,
            stop: &self.stop,
            marks: (self.args.jobs == 1).then(|| Marks::new(self.printer)),
        };
        let share = self.arbiter.join(Demand::of_all(&plan.targets));
        let options = CopyOptions {
            sparse: job.sparse,
            preserve: job.preserve.clone(),
            limit: job.limit,
            share: Some(Arc::new(share)),
            trace: self.trace.clone(),
            surveys: self.surveys.clone(),
            ..copy::options(self.args)
        };
        let mut tools = Tools {
            clock: &self.clock,
            watch: &mut watch,
            seed: copy::seed(),
            deadline: job.timeout,
            options,
        };
        match copy_fan_out(self.fabric, plan, &mut tools) {
            Ok(copied) => copied.targets,
            Err(error) => copy::for_each(error, plan.targets.len()),
        }
    }

    /// Prints what became of them.
    fn finish(&self, ended: Vec<Vec<EndedTarget>>) -> Result<Exit, Failure> {
        let jobs = self.jobs.iter().zip(&ended).map(|(job, ended)| JobOutcome {
            source: job.asked.first().map(|asked| asked.source.clone()).unwrap_or_default(),
            targets: ended.iter().map(|one| one.outcome.clone()).collect(),
        });
        let record = BatchRecord { schema: BATCH_SCHEMA.to_owned(), jobs: jobs.collect() };
        if self.printer.is_json() {
            self.printer.object(&record)?;
        } else {
            self.printer.text(&render::batch(&record))?;
        }
        let all: Vec<&EndedTarget> = ended.iter().flatten().collect();
        all.iter().for_each(|one| one.report(self.printer));
        let commands: Vec<String> = (self.jobs.iter().zip(&ended))
            .filter_map(|(job, ended)| resume_command(job, self.args.limit, ended))
            .collect();
        let hint = (!commands.is_empty()).then(|| format!("{} continues", commands.join("; ")));
        outcome::end(&all, hint)
    }
}

fn not_begun(plan: &FanOutPlan) -> CopyError {
    let shape = plan.targets.first().and_then(|one| one.shape.as_ref());
    let total = shape.map_or(Bytes::ZERO, |shape| shape.length);
    CopyError::Interrupted { done: Bytes::ZERO, total, journal: None }
}

/// Command that resumes the targets of a job that have a journal; `limit` is that of the whole
/// batch.
fn resume_command(
    job: &BatchJob,
    limit: Option<ByteRate>,
    ended: &[EndedTarget],
) -> Option<String> {
    let left: Vec<&Asked> = (job.asked.iter().zip(ended))
        .filter(|(_, ended)| ended.has_journal())
        .map(|(asked, _)| asked)
        .collect();
    let asked = left.first()?;
    let mut words: Vec<String> = vec!["peerlane".into(), "copy".into(), asked.source.clone()];
    words.extend(left.iter().map(|asked| asked.target.clone()));
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if asked.route != RouteChoice::Auto {
        option("--route", asked.route.to_string());
    }
    if let Some(via) = &asked.via {
        option("--via", via.clone());
    }
    option("--block", asked.block.0.to_string());
    option("--depth", asked.depth.to_string());
    for (name, value) in [("--offset", asked.offset), ("--target-offset", asked.target_offset)] {
        if value != Bytes::ZERO {
            option(name, value.0.to_string());
        }
    }
    if let Some(length) = asked.length {
        option("--length", length.0.to_string());
    }
    option("--verify", asked.verify.to_string());
    if job.sparse == Sparse::Never {
        option("--sparse", "never".to_owned());
    }
    if !job.preserve.is_empty() {
        let names = job.preserve.iter().map(|one| format!("{one:?}").to_lowercase());
        option("--preserve", names.collect::<Vec<_>>().join(","));
    }
    if let Some(limit) = job.limit.or(limit) {
        option("--limit", limit.0.to_string());
    }
    option("--timeout", job.timeout.exact());
    if asked.force {
        words.push("--force".to_owned());
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Some(format!("`{}`", resume::command(&words)))
}

/// Hears what one copy of several tells.
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

#[cfg(test)]
mod tests {
    use peerlane_units::Nanos;

    use super::*;

    #[test]
    fn resume_command_keeps_rate_and_timeout() {
        let asked = Asked {
            route: RouteChoice::Host,
            block: Bytes::kib(64),
            depth: 4,
            force: true,
            ..Asked::between("a", "b")
        };
        let mut job = BatchJob {
            asked: vec![asked],
            sparse: Sparse::Auto,
            preserve: Vec::new(),
            limit: None,
            timeout: Nanos::seconds(90),
        };
        let error = CopyError::Interrupted {
            done: Bytes::ZERO,
            total: Bytes::mib(1),
            journal: Some("journal".into()),
        };
        let ended = [EndedTarget::new("b", Err(error))];
        let front = "`peerlane copy a b --route host --block 65536 --depth 4 --verify sample";
        let command = |job: &BatchJob, limit| resume_command(job, limit, &ended).unwrap();
        let all = command(&job, Some(ByteRate(5_000_000)));
        assert_eq!(all, format!("{front} --limit 5000000 --timeout 90s --force --resume`"));
        assert_eq!(command(&job, None), format!("{front} --timeout 90s --force --resume`"));
        job.limit = Some(ByteRate(1000));
        let own = command(&job, Some(ByteRate(5_000_000)));
        assert_eq!(own, format!("{front} --limit 1000 --timeout 90s --force --resume`"));
    }
}
