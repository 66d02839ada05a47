//! One run of the program, from its journal to its end: the copy of the product on a simulated machine.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use peerlane_results::{
    Asked, Candidate, CopyRecord, EndpointFacts, EndpointKind, MemoryFacts, MemoryKind,
    PLAN_SCHEMA, Plan as CopyPlan, Route, RouteChoice, Shape as CopyShape, Verdict, VerifyMode,
};
use peerlane_units::{Bytes, Nanos};

use super::bare_machine;
use super::disk::Disk;
use super::machine::{Drive, Life, Promise, SimMachine, State};
use super::world::{Event, World};
use crate::Watch;
use crate::copy::{CopyError, CopyOptions, Start, Tools, copy_prepared};
use crate::endpoint::{Endpoint, Live, Node};
use crate::failure::RequestError;
use crate::journal::Cadence;
use crate::plan::Prepared;
use crate::prove::ProofCause;
use crate::relay::RelayError;
use crate::ring::sim::SimFile;
use crate::scrub::ScrubCause;
use crate::verify::{Coverage, VerifyError};

/// Names of the drives.
const SOURCE: &str = "/dev/nvme0n1";
const TARGET: &str = "/dev/nvme1n1";
/// Of the journal, in its folder.
const JOURNAL: &str = "journal";

/// How a run of the program ended.
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
    JournalNotSaved,
    SourceChanged,
    /// The program was killed and reported nothing.
    Nobody,
}

/// What a run showed besides its end.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) record: Option<CopyRecord>,
    /// Reported progress, in bytes.
    pub(super) progress: Vec<u64>,
    /// Cautions shown while it ran.
    pub(super) cautions: Vec<String>,
    /// True if device memory was released with payload in it.
    pub(super) is_unclean: bool,
    pub(super) in_flight: u32,
    pub(super) operations: u64,
    /// A promise that was broken when an operation was asked for.
    pub(super) untrue: Option<String>,
    /// Names that are left beside the journal.
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
}

/// A folder of a run, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/peerlane-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program once; the world is then what it left.
pub(super) fn attempt(world: &mut World, plan: Plan) -> (End, Seen) {
    run(world, plan)
        .unwrap_or_else(|error| (End::Failed(Blame::Shape(error.to_string())), Seen::default()))
}

fn run(world: &mut World, plan: Plan) -> io::Result<(End, Seen)> {
    let folder = Folder::make()?;
    let journal = folder.0.join(JOURNAL);
    let is_resumed = world.journal.is_some();
    let copy = copy_plan(world, plan);
    let machine = machine(world, plan, &folder)?;
    let ends = Prepared {
        source: endpoint(&copy.source),
        target: endpoint(&copy.target),
        plan: copy.clone(),
    };
    let options = CopyOptions {
        start: if is_resumed { Start::Resume } else { Start::Anew },
        journal: Some(journal.clone()),
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
    let done = copy_prepared(&machine, &bare_machine(), &copy, (&ends, Vec::new()), &mut tools);
    let (life, mut seen) = {
        let state = &mut *machine.state.borrow_mut();
        let seen = Seen {
            is_unclean: state.is_unclean,
            in_flight: state.left,
            operations: state.operations,
            untrue: state.untrue.take(),
            progress: watch.progress,
            cautions: watch.cautions,
            ..Seen::default()
        };
        (state.life, seen)
    };
    world.journal = match life {
        Life::Dark => machine.disk.borrow().after_loss(JOURNAL.as_ref(), &mut world.random),
        Life::Runs | Life::Killed => fs::read(&journal).ok(),
    };
    if life == Life::Runs {
        let names = fs::read_dir(&folder.0)?.flatten().map(|entry| entry.file_name());
        seen.left = names.map(|name| name.to_string_lossy().into_owned()).collect();
        seen.left.retain(|name| name != JOURNAL);
    }
    let content = |number: usize| machine.drives[number].content.take();
    (world.source, world.target) = (content(0), content(1));
    if life == Life::Dark {
        world.target.lose_power(&mut world.random);
    }
    let end = match (life, done) {
        (Life::Dark, Err(_)) => End::PowerLost,
        (Life::Killed, Err(_)) => End::Failed(Blame::Nobody),
        (_, Ok(record)) => {
            let route = record.route;
            seen.record = Some(record);
            End::Complete { route }
        }
        (_, Err(error)) => end(error),
    };
    Ok((end, seen))
}

fn machine(world: &mut World, plan: Plan, folder: &Folder) -> io::Result<SimMachine> {
    let disk = match &world.journal {
        Some(text) => {
            use std::os::unix::fs::PermissionsExt as _;
            let path = folder.0.join(JOURNAL);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            Disk::with(JOURNAL.as_ref(), &File::open(&path)?, text)
        }
        None => Disk::default(),
    };
    let state = State {
        event: plan.event,
        struck: 1,
        cut_at_change: plan.cut_at_save,
        room: plan.journal_is_full.then(|| world.random.below(4)),
        ..State::default()
    };
    let promise = Promise {
        payload: world.payload.clone(),
        is_excused: world.kind == super::Kind::LostLater,
    };
    let drive = |path: &str, serial: &str, content: &mut SimFile, offset, has_holes| {
        let names = (path.to_owned(), serial.to_owned());
        Drive::new(names, std::mem::take(content), offset, has_holes)
    };
    let [from, to] = [world.shape.source_offset, world.shape.target_offset];
    let drives = vec![
        drive(SOURCE, "A", &mut world.source, from, world.is_file)?,
        drive(TARGET, "B", &mut world.target, to, false)?,
    ];
    let mut random = world.random.clone();
    random.next();
    let mood = world.mood();
    Ok(SimMachine::new(drives, disk, state, promise, (random, world.shape.entries, mood)))
}

/// A plan as the planner makes one, of drives that it does not know.
fn copy_plan(world: &mut World, plan: Plan) -> CopyPlan {
    let shape = world.shape;
    let verify = match plan.coverage {
        None => VerifyMode::None,
        Some(Coverage::Sample { .. }) => VerifyMode::Sample,
        Some(Coverage::Full) => VerifyMode::Full,
    };
    let asked = Asked {
        route: if plan.only_host { RouteChoice::Host } else { RouteChoice::Auto },
        block: Bytes(shape.request),
        depth: shape.slots,
        offset: Bytes(shape.source_offset),
        length: Some(Bytes(shape.length)),
        target_offset: Bytes(shape.target_offset),
        verify,
        ..Asked::between(SOURCE, TARGET)
    };
    let facts = |path: &str, file: &SimFile, kind| EndpointFacts {
        path: path.to_owned(),
        kind,
        size: Bytes(file.bytes.len() as u64),
        block: Bytes(file.block),
        request_host: Bytes(shape.request),
        request_p2p: Some(Bytes(shape.request)),
        device: None,
        address: None,
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
    };
    let kind = if world.is_file { EndpointKind::File } else { EndpointKind::BlockDevice };
    let source = facts(SOURCE, &world.source, kind);
    let target = facts(TARGET, &world.target, EndpointKind::BlockDevice);
    let memory = |number: u32| MemoryFacts {
        name: format!("cmb:nvme{number}"),
        kind: MemoryKind::P2pmem,
        address: Some(format!("0000:0{number}:00.0")),
        size: None,
        available: None,
    };
    let candidate = |number| Candidate {
        memory: memory(number),
        source: Verdict::BusAddress,
        target: Verdict::BusAddress,
        distance: None,
        refusals: Vec::new(),
        facts: Vec::new(),
    };
    let count = 1 + u32::from(world.random.below(3) == 0);
    let slots = shape.slots;
    CopyPlan {
        schema: PLAN_SCHEMA.to_owned(),
        asked,
        source,
        target,
        route: Some(if plan.only_host { Route::Host } else { Route::P2p }),
        memory: (!plan.only_host).then(|| memory(2)),
        reason: "it is drawn".to_owned(),
        candidates: (2..2 + count).map(candidate).collect(),
        shape: Some(CopyShape {
            length: Bytes(shape.length),
            request: Bytes(shape.request),
            slots,
            memory: Bytes(shape.request * u64::from(slots)),
            request_limit: String::new(),
            slots_limit: String::new(),
            tail: shape.tail,
        }),
        way: Vec::new(),
        limits: Vec::new(),
        unmeasured: Vec::new(),
        refusals: Vec::new(),
        warnings: Vec::new(),
    }
}

fn endpoint(facts: &EndpointFacts) -> Endpoint {
    let node = match facts.kind {
        EndpointKind::File => Node::File { device: (0, 1), inode: 1 },
        _ => Node::Block,
    };
    let live = Live {
        path: PathBuf::from(&facts.path),
        node,
        device: None,
        layer: None,
        is_direct: true,
        passthrough: None,
    };
    Endpoint { facts: facts.clone(), initiator: None, further: Vec::new(), live: Some(live) }
}

/// Translates an error of the copy.
fn end(error: CopyError) -> End {
    let request = |error| End::Failed(Blame::Request(error));
    match error {
        CopyError::Kept { source, .. } | CopyError::Gone { source, .. } => end(*source),
        CopyError::Interrupted { .. } => End::Stopped,
        CopyError::Differs { .. } => End::Differs,
        CopyError::Stuck { source, .. } => request(RequestError::Stuck(source)),
        CopyError::Move { source: RelayError::Stopped { source, .. }, .. } => request(source),
        CopyError::Check { source: VerifyError::Request(source), .. } => request(source),
        CopyError::Proof { source, .. } => match source.cause {
            ProofCause::Request(error) => request(error),
            other => End::Failed(Blame::Proof(other.to_string())),
        },
        CopyError::Scrub { source, .. } => match source.cause {
            ScrubCause::Request(error) => request(error),
            other => End::Failed(Blame::Proof(other.to_string())),
        },
        CopyError::SourceChanged { .. } => End::Failed(Blame::SourceChanged),
        CopyError::Journal(_) => End::Failed(Blame::JournalNotSaved),
        other => End::Failed(Blame::Shape(crate::failure::error_in_words(&other))),
    }
}

/// Hears progress and cautions, and stops when it is told to.
#[derive(Default)]
pub(super) struct Listener {
    pub(super) is_stopped: Rc<Cell<bool>>,
    pub(super) progress: Vec<u64>,
    pub(super) cautions: Vec<String>,
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
