//! One run of the program, from its journals to its end: the copy of the product on a simulated machine.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use peerlane_results::{CopyRecord, Refusal, Route};
use peerlane_units::{Bytes, Nanos};

use super::bare_machine;
use super::disk::Disk;
use super::machine::{Drive, Life, Promise, SimMachine, State};
use super::plan::{copy_plans, prepared};
use super::world::{Event, World};
use crate::Watch;
use crate::copy::{CopyError, CopyOptions, FanOut, Start, Tools, copy_prepared};
use crate::failure::RequestError;
use crate::journal::{Cadence, Environment, for_device};
use crate::plan::Prepared;
use crate::prove::ProofCause;
use crate::relay::RelayError;
use crate::scrub::ScrubCause;
use crate::verify::{Coverage, VerifyError};

/// What became of one target in a run of the program.
#[derive(Debug)]
pub(super) struct TargetVerdict {
    /// Its number.
    pub(super) target: usize,
    pub(super) end: End,
    pub(super) record: Option<CopyRecord>,
}

/// How a run of the program ended for a target.
#[derive(Debug)]
pub(super) enum End {
    Complete { route: Route },
    Stopped,
    PowerLost,
    Differs,
    Failed(Blame),
}

/// What a failed run says.
#[derive(Debug)]
pub(super) enum Blame {
    Request(RequestError),
    /// A proof that left a pattern, or found the target at fault.
    Proof(#[allow(dead_code, reason = "shown by Debug")] String),
    Shape(#[allow(dead_code, reason = "shown by Debug")] String),
    /// Another target, or what all targets use.
    Others(#[allow(dead_code, reason = "shown by Debug")] String),
    JournalNotSaved,
    SourceChanged,
    /// The program was killed and reported nothing.
    Nobody,
}

/// What a run showed besides its verdicts.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Payload read of the source, as the copy counts it.
    pub(super) read: Bytes,
    /// Reported progress, in bytes.
    pub(super) progress: Vec<u64>,
    /// Cautions shown while it ran.
    pub(super) cautions: Vec<String>,
    /// True if device memory was released with payload in it.
    pub(super) is_unclean: bool,
    /// The same of the memory that was released last.
    pub(super) is_last_unclean: bool,
    pub(super) in_flight: u32,
    pub(super) operations: u64,
    /// A promise that was broken when an operation was asked for.
    pub(super) untrue: Option<String>,
    /// Names that are left beside the journals.
    pub(super) left: Vec<String>,
}

/// What may happen in a run, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    pub(super) event: Option<(u64, Event)>,
    /// Power is lost at this save.
    pub(super) cut_at_save: Option<u64>,
    /// Saving fails.
    pub(super) journal_is_full: bool,
    /// Only host memory is to be used.
    pub(super) only_host: bool,
    pub(super) coverage: Option<Coverage>,
    /// Targets that are complete are named again.
    pub(super) names_all: bool,
}

/// A state directory, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/peerlane-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let folder = Self(path);
        fs::create_dir(folder.journals())?;
        Ok(folder)
    }

    fn journals(&self) -> PathBuf {
        self.0.join("peerlane")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program once; the world is then what it left.
pub(super) fn attempt(world: &mut World, plan: Plan) -> (Vec<TargetVerdict>, Seen) {
    let all = 0..world.targets.len();
    let targets: Vec<usize> =
        all.filter(|&one| plan.names_all || !world.targets[one].is_complete).collect();
    run(world, plan, &targets).unwrap_or_else(|error| {
        let end = || End::Failed(Blame::Shape(error.to_string()));
        let verdict = |&target| TargetVerdict { target, end: end(), record: None };
        (targets.iter().map(verdict).collect(), Seen::default())
    })
}

fn run(world: &mut World, plan: Plan, targets: &[usize]) -> io::Result<(Vec<TargetVerdict>, Seen)> {
    let folder = Folder::make()?;
    let is_resumed = world.targets.iter().any(|one| one.is_complete || one.journal.is_some());
    let copies = copy_plans(world, plan, targets);
    let held = targets.iter().map(|&one| refusals(world.targets[one].is_complete)).collect();
    let (machine, journals) = machine(world, plan, targets, &folder)?;
    let options = CopyOptions {
        start: if is_resumed { Start::Resume } else { Start::Anew },
        environment: Environment { xdg_state_home: Some(folder.0.clone().into()), home: None },
        cadence: Cadence {
            first: Nanos(100_000),
            every: Nanos(100_000),
            bytes: Bytes(3 * world.shape.request),
        },
        ..CopyOptions::default()
    };
    let mut watch = Listener { is_stopped: Rc::clone(&machine.is_stopped), ..Listener::default() };
    let clock = machine.clock.clone();
    let seed = world.random.next();
    let mut tools =
        Tools { clock: &clock, watch: &mut watch, seed, deadline: Nanos::seconds(1), options };
    let ends: Vec<Prepared> = copies.iter().map(prepared).collect();
    let done = copy_prepared(&machine, &bare_machine(), &copies, (&ends, held), &mut tools);
    let life = machine.state.borrow().life;
    let mut seen = seen(&machine, watch);
    keep(world, targets, &machine, (&folder, &journals));
    if life == Life::Runs {
        let names = fs::read_dir(folder.journals())?.flatten().map(|entry| entry.file_name());
        let left = names.filter(|name| !journals.contains(name));
        seen.left = left.map(|name| name.to_string_lossy().into_owned()).collect();
    }
    let verdict = |target, outcome: Result<CopyRecord, &CopyError>| match outcome {
        Ok(record) => {
            let end = End::Complete { route: record.route };
            TargetVerdict { target, end, record: Some(record) }
        }
        Err(error) => TargetVerdict { target, end: end(life, error), record: None },
    };
    let numbers = targets.iter().copied();
    let verdicts: Vec<TargetVerdict> = match done {
        Ok(FanOut { read, targets }) => {
            seen.read = read;
            let outcomes = targets.into_iter().zip(numbers);
            outcomes.map(|(one, target)| verdict(target, one.as_ref().cloned())).collect()
        }
        Err(error) => numbers.map(|target| verdict(target, Err(&error))).collect(),
    };
    for TargetVerdict { target, end, .. } in &verdicts {
        world.targets[*target].is_complete |= matches!(end, End::Complete { .. });
    }
    Ok((verdicts, seen))
}

/// What stands against a copy that does not find its journal: content that it left there itself.
fn refusals(is_complete: bool) -> Vec<Refusal> {
    let there = || Refusal { reason: "it is not blank".to_owned(), hint: None, forceable: true };
    is_complete.then(there).into_iter().collect()
}

fn seen(machine: &SimMachine, watch: Listener) -> Seen {
    let state = &mut *machine.state.borrow_mut();
    Seen {
        is_unclean: state.is_unclean,
        is_last_unclean: state.is_last_unclean,
        in_flight: state.left,
        operations: state.operations,
        untrue: state.untrue.take(),
        progress: watch.progress,
        cautions: watch.cautions,
        ..Seen::default()
    }
}

/// Keeps what the run left of drives and journals.
fn keep(
    world: &mut World,
    targets: &[usize],
    machine: &SimMachine,
    (folder, journals): (&Folder, &[OsString]),
) {
    let is_dark = machine.state.borrow().life == Life::Dark;
    let texts = if is_dark {
        machine.disk.borrow().after_loss(journals, &mut world.random)
    } else {
        journals.iter().map(|name| fs::read(folder.journals().join(name)).ok()).collect()
    };
    world.source = machine.drives[0].content.take();
    for ((&number, text), drive) in targets.iter().zip(texts).zip(&machine.drives[1..]) {
        let target = &mut world.targets[number];
        (target.journal, target.file) = (text, drive.content.take());
        if is_dark {
            target.file.lose_power(&mut world.random);
        }
    }
}

/// A machine for one run, and the name of each target's journal.
fn machine(
    world: &mut World,
    plan: Plan,
    targets: &[usize],
    folder: &Folder,
) -> io::Result<(SimMachine, Vec<OsString>)> {
    let state = State {
        event: plan.event,
        struck: targets.iter().position(|&one| one == world.broken).map_or(0, |one| one + 1),
        cut_at_change: plan.cut_at_save,
        room: plan.journal_is_full.then(|| world.random.below(4 * targets.len() as u64)),
        ..State::default()
    };
    let promise = Promise {
        payload: world.payload.clone(),
        is_excused: world.kind == super::Kind::LostLater,
    };
    let (source, offset) = (std::mem::take(&mut world.source), world.shape.source_offset);
    let mut drives = vec![Drive::new(0, source, offset, world.is_file)?];
    let (mut disk, mut journals) = (Disk::default(), Vec::new());
    for &number in targets {
        let target = &mut world.targets[number];
        let file = std::mem::take(&mut target.file);
        let drive = Drive::new(number + 1, file, target.offset, false)?;
        let path = for_device(&folder.journals(), &drive.identity()).map_err(io::Error::other)?;
        let name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
        if let Some(text) = &target.journal {
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            disk.placed(&name, &File::open(&path)?, text);
        }
        journals.push(name);
        drives.push(drive);
    }
    let mut random = world.random.clone();
    random.next();
    let ring = (random, world.shape.entries, world.mood());
    Ok((SimMachine::new(drives, disk, state, promise, ring), journals))
}

/// Translates an error of the copy.
fn end(life: Life, error: &CopyError) -> End {
    let request = |error: &RequestError| End::Failed(Blame::Request(error.again()));
    match error {
        // Whatever a program says that has no power, or is killed.
        _ if life == Life::Dark => End::PowerLost,
        _ if life == Life::Killed => End::Failed(Blame::Nobody),
        CopyError::Kept { source, .. } | CopyError::Gone { source, .. } => end(life, source),
        CopyError::Interrupted { .. } => End::Stopped,
        CopyError::Differs { .. } => End::Differs,
        CopyError::Stuck { source, .. } => request(&RequestError::Stuck(*source)),
        CopyError::Move { source: RelayError::Stopped { source, .. }, .. } => request(source),
        CopyError::Check { source: VerifyError::Request(source), .. } => request(source),
        CopyError::Proof { source, .. } => match &source.cause {
            ProofCause::Request(error) => request(error),
            other => End::Failed(Blame::Proof(other.to_string())),
        },
        CopyError::Scrub { source, .. } => match &source.cause {
            ScrubCause::Request(error) => request(error),
            other => End::Failed(Blame::Proof(other.to_string())),
        },
        CopyError::SourceChanged { .. } => End::Failed(Blame::SourceChanged),
        CopyError::Journal(_) => End::Failed(Blame::JournalNotSaved),
        CopyError::WithOthers { .. } | CopyError::Move { source: RelayError::Busy { .. }, .. } => {
            End::Failed(Blame::Others(crate::failure::error_in_words(error)))
        }
        other => End::Failed(Blame::Shape(crate::failure::error_in_words(other))),
    }
}

/// Hears progress and cautions, and stops when it is told to.
#[derive(Default)]
struct Listener {
    is_stopped: Rc<Cell<bool>>,
    progress: Vec<u64>,
    cautions: Vec<String>,
}

impl Watch for Listener {
    fn begin(&mut self, _done: Bytes, _total: Bytes) {
        self.progress.clear();
    }

    fn progress(&mut self, done: Bytes, _total: Bytes) {
        self.progress.push(done.0);
    }

    fn caution(&mut self, text: &str) {
        self.cautions.push(text.to_owned());
    }

    fn stop_requested(&self) -> bool {
        self.is_stopped.get()
    }
}
