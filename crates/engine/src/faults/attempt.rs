//! One run of the program, from its journals to its end: the copy of the product on a simulated machine.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::rc::Rc;

use peerlane_results::{CompletedCopy, Route};
use peerlane_units::{Bytes, Nanos};
use rustix::io::Errno;

use super::bare_machine;
use super::figures::DriveFigures;
use super::folder::{Folder, TARGET};
use super::machine::{DriveName, FaultState, Life, Promise, SimMachine, SimulatedDrive};
use super::plan::{copy_plans, prepared, refusals};
use super::world::{QueueEvent, World};
use crate::io::failure::RequestError;
use crate::io::journal::{self, Cadence, StateEnvironment};
use crate::io::ranges::{LoweredLimit, RangeSet};
use crate::io::watch::{Phase, Watch};
use crate::transfer::copy::{
    CheckedPlan, CopyError, CopyOptions, FanOut, Sparse, Start, Tools, copy_prepared,
};
use crate::transfer::prove::ProofCause;
use crate::transfer::relay::RelayError;
use crate::transfer::verify::{Coverage, VerifyError};

/// Outcome of a run of the program for one target.
#[derive(Debug)]
pub(super) struct TargetVerdict {
    /// Its number.
    pub(super) target: usize,
    pub(super) end: RunEnding,
    pub(super) record: Option<CompletedCopy>,
    /// Bytes that the error says are done, by a journal that is kept.
    pub(super) kept: Option<Bytes>,
    /// Its journal's claims when the run went on by it.
    pub(super) before: RangeSet,
    /// The simulation's counts of it.
    pub(super) figures: DriveFigures,
}

impl TargetVerdict {
    fn new(target: usize, end: RunEnding) -> Self {
        let (before, figures) = (RangeSet::new(), DriveFigures::default());
        Self { target, end, record: None, kept: None, before, figures }
    }

    fn is_complete(&self) -> bool {
        matches!(self.end, RunEnding::Complete { .. })
    }
}

/// Ending of a run of the program for a target.
#[derive(Debug)]
pub(super) enum RunEnding {
    Complete { route: Route },
    Stopped,
    PowerLost,
    Differs,
    Failed(Blame),
}

impl RunEnding {
    /// True when the program did not live to report anything.
    pub(super) fn is_of_the_program(&self) -> bool {
        matches!(self, Self::PowerLost | Self::Failed(Blame::Nobody))
    }
}

/// Cause that a failed run names.
#[derive(Debug)]
pub(super) enum Blame {
    Request(RequestError),
    /// A proof that left a pattern, or found the target at fault.
    Proof(#[allow(dead_code, reason = "shown by Debug")] String),
    Shape(#[allow(dead_code, reason = "shown by Debug")] String),
    /// Another target, or something that all targets use.
    Others(#[allow(dead_code, reason = "shown by Debug")] String),
    JournalNotSaved,
    /// A file could not be made, given space or finished.
    File {
        action: &'static str,
        errno: Option<Errno>,
    },
    SourceChanged,
    /// An end differs from the journal.
    Changed,
    /// Something stands against the copy.
    Refused(#[allow(dead_code, reason = "shown by Debug")] String),
    /// The program was killed and reported nothing.
    Nobody,
}

/// Observations of a run besides its verdicts.
#[derive(Debug, Default)]
pub(super) struct RunObservations {
    /// Every target was ready for the copy; else one error is that of all.
    pub(super) is_begun: bool,
    /// Payload read of the source, as the copy counts it.
    pub(super) read: Bytes,
    /// Reported progress and its total, in bytes.
    pub(super) progress: Vec<[u64; 2]>,
    pub(super) in_flight: u32,
    pub(super) operations: u64,
    /// A promise that was broken when an operation was asked for.
    pub(super) untrue: Option<String>,
    /// Names left over, other than journals.
    pub(super) left: Vec<String>,
    /// A target file had its name when the run began.
    pub(super) had_its_name: bool,
    /// The simulation's counts of the source.
    pub(super) source_figures: DriveFigures,
}

/// Events of a run, with their times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunPlan {
    pub(super) event: Option<(u64, QueueEvent)>,
    /// The program ends at this change of a small file, and how.
    pub(super) cut_at_change: Option<(u64, Life)>,
    /// It begins anew, whatever is there.
    pub(super) is_anew: bool,
    /// A person does not say again that content may be overwritten.
    pub(super) is_unforced: bool,
    /// Saving fails.
    pub(super) journal_is_full: bool,
    /// Only host memory is to be used.
    pub(super) only_host: bool,
    pub(super) coverage: Option<Coverage>,
    /// Targets that are complete are named again, unless content is to be overwritten.
    pub(super) names_all: bool,
    /// Only this target is named.
    pub(super) only: Option<usize>,
}

/// A command line of a person.
pub(super) struct Invocation {
    /// The targets, by number and name.
    pub(super) targets: Vec<(usize, DriveName)>,
    /// Content may be overwritten.
    pub(super) is_forced: bool,
}

impl Invocation {
    fn draw(world: &mut World, plan: RunPlan, folder: &Folder) -> io::Result<Self> {
        // A person may leave it out where a copy goes on.
        let is_left_out = plan.is_unforced || plan.names_all || world.random.below(2) == 0;
        let is_forced = plan.is_anew || world.needs_force() || !is_left_out;
        let names_all = plan.names_all && !is_forced;
        let all = 0..world.targets.len();
        let is_wanted = |one: usize| plan.only.is_none_or(|only| only == one);
        let named =
            all.filter(|&one| names_all || !world.targets[one].is_complete && is_wanted(one));
        let named = named.map(|one| Ok((one, world.name(one, folder)?)));
        Ok(Self { targets: named.collect::<io::Result<_>>()?, is_forced })
    }

    fn has_target(&self, number: usize) -> bool {
        self.targets.iter().any(|(one, _)| *one == number)
    }
}

/// Runs the program once, and leaves its result in the world.
pub(super) fn attempt(world: &mut World, plan: RunPlan) -> (Vec<TargetVerdict>, RunObservations) {
    let _limit = world.ranges_max.map(LoweredLimit::new);
    run(world, plan).unwrap_or_else(|error| {
        let end = RunEnding::Failed(Blame::Shape(error.to_string()));
        (vec![TargetVerdict::new(0, end)], RunObservations::default())
    })
}

fn run(world: &mut World, plan: RunPlan) -> io::Result<(Vec<TargetVerdict>, RunObservations)> {
    let folder = world.folder()?;
    let had_its_name = begin(world, &mut folder.borrow_mut())?;
    let names = folder.borrow().names()?;
    let invocation = Invocation::draw(world, plan, &folder.borrow())?;
    let copies = copy_plans(world, plan, &invocation);
    let held = refusals(world, &invocation);
    let has_journal =
        invocation.targets.iter().any(|(one, _)| world.targets[*one].journal.is_some());
    let is_resumed = !plan.is_anew && has_journal || held.iter().any(|held| !held.is_empty());
    let before = invocation.targets.iter().map(|(one, _)| world.left_before(*one, is_resumed));
    let before: Vec<RangeSet> = before.collect();
    let machine = machine(world, plan, &invocation, &folder)?;
    let start = if is_resumed { Start::Resume } else { Start::Anew };
    let options = CopyOptions { start, ..options(world, &invocation, &folder.borrow()) };
    let mut watch = Listener {
        is_stopped: Rc::clone(&machine.is_stopped),
        phase: Rc::clone(&machine.phase),
        ..Listener::default()
    };
    let clock = machine.clock.clone();
    let seed = world.random.next();
    let mut tools =
        Tools { clock: &clock, watch: &mut watch, seed, deadline: Nanos::seconds(1), options };
    let checked =
        copies.iter().zip(held).map(|(plan, held)| CheckedPlan { now: prepared(plan), held });
    let checked: Vec<_> = checked.collect();
    let done = copy_prepared(&machine, &bare_machine(), &copies, &checked, &mut tools);
    let life = machine.state.borrow().life;
    let mut figures = std::mem::take(&mut machine.state.borrow_mut().figures).into_iter();
    let source_figures = figures.next().unwrap_or_default();
    let mut seen = RunObservations { had_its_name, source_figures, ..seen(&machine, watch) };
    let is_lost = keep(world, &invocation, &machine, &mut folder.borrow_mut())?;
    let mut verdicts = verdicts(&invocation, life, done, &mut seen);
    for ((verdict, before), figures) in verdicts.iter_mut().zip(before).zip(figures) {
        (verdict.before, verdict.figures) = (before, figures);
    }
    if life == Life::Runs && !is_lost {
        let before = if verdicts.iter().all(TargetVerdict::is_complete) { vec![] } else { names };
        seen.left = left(world, &invocation, &folder.borrow(), &before)?;
    }
    for verdict in &verdicts {
        let target = &mut world.targets[verdict.target];
        target.is_complete |= verdict.is_complete();
        // Nobody goes on from what differs, or from a source that is not what it was.
        let is_worthless =
            matches!(verdict.end, RunEnding::Differs | RunEnding::Failed(Blame::SourceChanged));
        let is_cut = world.kind == super::FaultKind::SourceShrinks && world.is_file;
        target.may_need_force |= is_worthless || is_cut;
    }
    Ok((verdicts, seen))
}

fn options(world: &mut World, invocation: &Invocation, folder: &Folder) -> CopyOptions {
    let own_journal = world.has_own_journal.then(|| &invocation.targets[0].1.journal);
    let state_home = folder.state_home().as_os_str().to_owned();
    CopyOptions {
        sparse: if world.random.below(4) == 0 { Sparse::Never } else { Sparse::Auto },
        journal: own_journal.map(|journal| folder.path(journal)),
        environment: StateEnvironment { xdg_state_home: Some(state_home), home: None },
        cadence: Cadence {
            first: Nanos(100_000),
            every: Nanos(100_000 * (1 + world.random.below(6))),
            bytes: Bytes((2 + world.random.below(6)) * world.shape.request),
        },
        ..CopyOptions::default()
    }
}

/// Puts journals where they are, and a target file that has its name. Returns whether there is one.
fn begin(world: &mut World, folder: &mut Folder) -> io::Result<bool> {
    for number in 0..world.targets.len() {
        let journal = world.name(number, folder)?.journal;
        folder.put(&journal, world.targets[number].journal.as_deref())?;
    }
    let had_its_name = folder.is_named();
    if had_its_name {
        folder.settle(&world.payload)?;
        world.targets[0].old = Some(world.payload.clone());
    }
    Ok(had_its_name)
}

fn verdicts(
    invocation: &Invocation,
    life: Life,
    done: Result<FanOut, CopyError>,
    seen: &mut RunObservations,
) -> Vec<TargetVerdict> {
    // One error for all of them is about one of them.
    let is_own = done.is_ok() || invocation.targets.len() == 1;
    let verdict = |target, outcome: Result<CompletedCopy, &CopyError>| match outcome {
        Ok(record) => {
            let end = RunEnding::Complete { route: record.route };
            TargetVerdict { record: Some(record), ..TargetVerdict::new(target, end) }
        }
        Err(error) => {
            let kept = kept(error).filter(|_| is_own);
            TargetVerdict { kept, ..TargetVerdict::new(target, end(life, error)) }
        }
    };
    let numbers = invocation.targets.iter().map(|(number, _)| *number);
    match done {
        Ok(FanOut { read, targets }) => {
            (seen.is_begun, seen.read) = (true, read);
            let outcomes = targets.into_iter().zip(numbers);
            outcomes.map(|(one, target)| verdict(target, one.as_ref().cloned())).collect()
        }
        Err(error) => numbers.map(|target| verdict(target, Err(&error))).collect(),
    }
}

/// Names that the run left and should not have; names from before it may stay.
fn left(
    world: &World,
    invocation: &Invocation,
    folder: &Folder,
    before: &[OsString],
) -> io::Result<Vec<String>> {
    let mut may_stay = vec![OsString::from(TARGET)];
    for number in (0..world.targets.len()).filter(|&one| !invocation.has_target(one)) {
        // A loss of power may have brought back the lock of a target that is complete.
        let journal = world.name(number, folder)?.journal;
        let mut lock = journal.clone();
        lock.push(".lock");
        may_stay.push(lock);
        may_stay.extend(world.targets[number].journal.is_some().then_some(journal));
    }
    for (number, name) in &invocation.targets {
        let text = world.targets[*number].journal.as_deref();
        let journal = text.and_then(|text| journal::decode(text).ok());
        may_stay.extend(journal.and_then(|journal| journal.partial).map(OsString::from));
        may_stay.push(name.journal.clone());
    }
    let is_lock = |name: &OsString| name.as_encoded_bytes().ends_with(b".lock");
    let left = folder
        .names()?
        .into_iter()
        .filter(|name| !may_stay.contains(name) && (is_lock(name) || !before.contains(name)));
    Ok(left.map(|name| name.to_string_lossy().into_owned()).collect())
}

fn seen(machine: &SimMachine, watch: Listener) -> RunObservations {
    let state = &mut *machine.state.borrow_mut();
    RunObservations {
        in_flight: state.left,
        operations: state.operations,
        untrue: state.untrue.take(),
        progress: watch.progress,
        ..RunObservations::default()
    }
}

/// Keeps the state of drives and files after the run. Returns whether any of it was lost.
fn keep(
    world: &mut World,
    invocation: &Invocation,
    machine: &SimMachine,
    folder: &mut Folder,
) -> io::Result<bool> {
    world.source = machine.drives[0].content.take();
    for ((number, _), drive) in invocation.targets.iter().zip(&machine.drives[1..]) {
        world.targets[*number].content = drive.content.take();
    }
    // What is unplugged under a file has its folder, too.
    let is_gone = machine.file_system.is_some() && world.targets[0].content.is_gone;
    let is_lost = machine.state.borrow().life == Life::Dark || is_gone;
    if is_lost {
        for (number, _) in &invocation.targets {
            world.targets[*number].content.lose_power(&mut world.random);
        }
        folder.lose_power(world.targets[0].content.bytes.len() as u64, &mut world.random)?;
    }
    for (number, name) in &invocation.targets {
        world.targets[*number].journal = fs::read(folder.path(&name.journal)).ok();
    }
    Ok(is_lost)
}

/// A machine for one run.
fn machine(
    world: &mut World,
    plan: RunPlan,
    invocation: &Invocation,
    folder: &Rc<RefCell<Folder>>,
) -> io::Result<SimMachine> {
    let targets = &invocation.targets;
    let length = world.shape.length;
    let range = |offset| offset..offset + length;
    let offsets = targets.iter().map(|(one, _)| world.targets[*one].shape.offset);
    let offsets = std::iter::once(world.shape.source_offset).chain(offsets);
    let state = FaultState {
        figures: offsets.map(|offset| DriveFigures::new(range(offset))).collect(),
        event: plan.event,
        struck: targets.iter().position(|(one, _)| *one == world.broken).map_or(0, |one| one + 1),
        cut_at_change: plan.cut_at_change,
        room: plan.journal_is_full.then(|| world.random.below(4 * targets.len() as u64)),
        ..FaultState::default()
    };
    let promise =
        Promise { payload: world.payload.clone(), is_excused: world.kind.loses_silently() };
    let (source, offset) = (std::mem::take(&mut world.source), world.shape.source_offset);
    let name = DriveName::new(0, world.version);
    let token = world.token(0, &source)?;
    let mut drives = vec![SimulatedDrive::new(name, source, offset, token)];
    for (number, name) in targets {
        let target = &mut world.targets[*number];
        let content = std::mem::take(&mut target.content);
        let offset = target.shape.offset;
        let token = world.token(number + 1, &content)?;
        drives.push(SimulatedDrive::new(name.clone(), content, offset, token));
    }
    let mut random = world.random.clone();
    random.next();
    let ring = (random, world.shape.entries, world.mood());
    let files = (Rc::clone(folder), world.targets[0].file_system);
    Ok(SimMachine::new(drives, files, state, promise, ring))
}

/// Bytes that an error says are done, by a journal that is kept.
fn kept(error: &CopyError) -> Option<Bytes> {
    match error {
        CopyError::Kept { done, .. } | CopyError::Interrupted { done, journal: Some(_), .. } => {
            Some(*done)
        }
        _ => None,
    }
}

/// Translates an error of the copy.
fn end(life: Life, error: &CopyError) -> RunEnding {
    let request = |error: &RequestError| RunEnding::Failed(Blame::Request(error.again()));
    match error {
        // Whatever a program says that has no power, or is killed.
        _ if life == Life::Dark => RunEnding::PowerLost,
        _ if life == Life::Killed => RunEnding::Failed(Blame::Nobody),
        CopyError::Kept { source, .. } | CopyError::Gone { source, .. } => end(life, source),
        CopyError::Interrupted { .. } => RunEnding::Stopped,
        CopyError::Differs { .. } => RunEnding::Differs,
        CopyError::Stuck { source, .. } => request(&RequestError::Stuck(*source)),
        CopyError::Move {
            source: RelayError::Stopped { source: RequestError::NoSlot, .. },
            ..
        } => RunEnding::Failed(Blame::Others(crate::io::failure::error_in_words(error))),
        CopyError::Move { source: RelayError::Stopped { source, .. }, .. } => request(source),
        CopyError::Check { source: VerifyError::Request(source), .. } => request(source),
        CopyError::Proof { source, .. } => match &source.cause {
            ProofCause::Request(error) => request(error),
            other => RunEnding::Failed(Blame::Proof(other.to_string())),
        },
        CopyError::Refused(_) => {
            RunEnding::Failed(Blame::Refused(crate::io::failure::error_in_words(error)))
        }
        CopyError::Changed { .. } => RunEnding::Failed(Blame::Changed),
        CopyError::SourceChanged { .. } => RunEnding::Failed(Blame::SourceChanged),
        CopyError::Journal(_) => RunEnding::Failed(Blame::JournalNotSaved),
        CopyError::File { action, source, .. } => {
            RunEnding::Failed(Blame::File { action, errno: Errno::from_io_error(source) })
        }
        CopyError::WithOthers { .. } | CopyError::Move { source: RelayError::Busy { .. }, .. } => {
            RunEnding::Failed(Blame::Others(crate::io::failure::error_in_words(error)))
        }
        other => RunEnding::Failed(Blame::Shape(crate::io::failure::error_in_words(other))),
    }
}

/// Hears progress, and stops when it is told to.
#[derive(Default)]
struct Listener {
    is_stopped: Rc<Cell<bool>>,
    phase: Rc<Cell<Option<Phase>>>,
    progress: Vec<[u64; 2]>,
}

impl Watch for Listener {
    fn phase(&mut self, phase: Phase) {
        self.phase.set(Some(phase));
    }

    fn begin(&mut self, _done: Bytes, _total: Bytes) {
        self.progress.clear();
    }

    fn progress(&mut self, done: Bytes, total: Bytes) {
        self.progress.push([done.0, total.0]);
    }

    fn stop_requested(&self) -> bool {
        self.is_stopped.get()
    }
}
