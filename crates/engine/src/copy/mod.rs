//! Carries a plan out: memory, proof of the route, the relay, flush, verification, the final name.
//!
//! Candidates are tried in the plan's order until the kernel and a proof agree that one works; what
//! each of them answered is evidence in the record. Under `auto` host memory comes last, loudly. The
//! order of the rest is what keeps a target honest: a file takes its name only after verification,
//! and whatever ends the copy earlier removes it, or keeps it with the journal by which the copy can go
//! on. The journal is made when the first part of a copy is flushed, or when something ends it.

mod attempt;
mod begin;
mod beside;
mod carry;
pub(crate) mod check;
mod claims;
mod compare;
mod error;
mod fan_out;
mod files;
mod foreign;
mod gone;
mod gpu;
mod ledger;
mod leftovers;
mod options;
mod permission;
mod pieces;
mod preserve;
mod record;
mod resume;
mod scrub;
mod unfinished;
mod witness;

use peerlane_fabric::Fabric;
use peerlane_results::{Asked, CopyRecord, Plan, Refusal, Route, RouteEvidence, Warning};
use peerlane_units::{ByteRate, Nanos};
use rustix::fs::OFlags;

pub use error::CopyError;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use fan_out::fan_out_prepared;
pub use fan_out::{FanOut, copy_fan_out};
pub(crate) use files::{Claim, grow, open_in_place};
pub use options::{CopyOptions, Scrub, Sparse, Start};
pub use preserve::Metadatum;

use crate::endpoint::{Live, Node};
use crate::failure::Role;
use crate::guard::Surveyor;
use crate::journal::{Identity, Recorder};
use crate::machine::{Machine, host};
use crate::open::Opened;
use crate::plan::{self, Prepared};
use crate::ranges::RangeSet;
use crate::system::System;
use crate::{Clock, Watch, prove};
use begin::Beginning;
use carry::Payload;
use fan_out::Copying;
use files::Target;
use ledger::Keeper;
use pieces::{HOLE_MIN, Holes, Layout};
use preserve::Preserved;
use witness::Witnesses;

/// What a copy is given from outside.
pub struct Tools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Is told what happens, and may ask for an end.
    pub watch: &'a mut dyn Watch,
    /// Where randomness comes from: names of unfinished files, patterns, samples.
    pub seed: u64,
    /// The longest wait for a single request.
    pub deadline: Nanos,
    /// Journal, holes, and what becomes of the memory.
    pub options: CopyOptions,
}

/// Carries a plan out on this machine.
///
/// # Errors
/// [`CopyError`] by what went wrong; its variants say what is at the target then.
pub fn copy(fabric: &Fabric, plan: &Plan, tools: &mut Tools<'_>) -> Result<CopyRecord, CopyError> {
    copy_on(host(), fabric, plan, tools)
}

fn copy_on(
    machine: &dyn Machine,
    fabric: &Fabric,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<CopyRecord, CopyError> {
    let system = machine.system();
    let surveyor = Surveyor::on(machine, tools.clock, tools.deadline);
    let (now, held) = ready_to_start(system, &surveyor, fabric, plan, tools.options.start)
        .map_err(|error| unfinished::name(error, system, plan, &tools.options))?;
    copy_prepared(machine, fabric, plan, (&now, held), tools)
}

/// Carries out what was planned and looked at again; `held` is what only a journal that is found overrides.
pub(crate) fn copy_prepared(
    machine: &dyn Machine,
    fabric: &Fabric,
    plan: &Plan,
    (now, held): (&Prepared, Vec<Refusal>),
    tools: &mut Tools<'_>,
) -> Result<CopyRecord, CopyError> {
    let job = begin_job(machine, fabric, plan, (now, held), tools)?;
    Copying::of(vec![job]).run(tools).targets.swap_remove(0)
}

/// Begins a copy: opens its ends and its journal.
fn begin_job<'a>(
    machine: &'a dyn Machine,
    fabric: &'a Fabric,
    plan: &'a Plan,
    (now, held): (&'a Prepared, Vec<Refusal>),
    tools: &mut Tools<'_>,
) -> Result<Job<'a>, CopyError> {
    let not_planned = || CopyError::NotPossible { reason: plan.reason.clone(), hint: None };
    let shape = plan.shape.as_ref().ok_or_else(not_planned)?;
    let (Some(source_live), Some(target_live)) = (&now.source.live, &now.target.live) else {
        return Err(not_planned());
    };
    preserve::refuse_devices(
        &tools.options.preserve,
        [source_live, target_live].map(|live| live.node == Node::Block),
        [&plan.source.path, &plan.target.path],
    )?;
    let witnesses = Witnesses::new(machine.system(), fabric, plan, tools.options.watch_dma);
    let source = machine.open(OFlags::RDONLY, source_live, tools.deadline);
    let source = source.map_err(|source| CopyError::File {
        action: "open",
        path: source_live.path.clone(),
        source,
    })?;
    let layout = Layout {
        source_offset: plan.asked.offset.0,
        length: shape.length.0,
        block: plan.source.block.max(plan.target.block).0,
        hole_min: HOLE_MIN,
    };
    let stands = held.clone();
    let surveyor = Surveyor::on(machine, tools.clock, tools.deadline);
    let options = tools.options.clone();
    let beginning = Beginning {
        machine,
        asked: &plan.asked,
        options: &options,
        source_live,
        target_live,
        source: &source,
        layout,
        held,
        route: plan.route.unwrap_or(Route::Host),
        seed: tools.seed,
        deadline: tools.deadline,
        surveyor: &surveyor,
        target_block: plan.target.block.0,
        target_name: gone::drive_of(&plan.target),
    };
    let begun = resume::begin(beginning, plan, tools)?;
    let preserved = Preserved::of(&tools.options.preserve, &source.file, &source_live.path)?;
    if begun.target.partial().is_some() {
        preserved.try_on(begun.target.file(), &target_live.path)?;
    }
    let recorder = Recorder::new(tools.options.cadence, begun.done.clone(), tools.clock.now());
    let mut job = Job {
        machine,
        fabric,
        plan,
        ends: now,
        source,
        source_live,
        source_identity: begun.source,
        before: begun.done,
        layout,
        target: begun.target,
        preserved,
        keeper: begun.keeper,
        recorder,
        holes: begun.holes,
        evidence: Vec::new(),
        witnesses,
        warnings: plan.warnings.clone(),
        memory: None,
        is_touched: begun.is_resumed,
    };
    for warning in begun.warnings {
        // At the end, in the record, it would be too late.
        tools.watch.caution(&format!("{warning}; {}", warning.advice()));
        job.warnings.push(warning);
    }
    job.note_page_cache();
    job.evidence.extend(files::evidence_of_node(source_live, Role::Source));
    job.evidence.extend(files::evidence_of_node(target_live, Role::Target));
    if begun.is_resumed {
        match job.check_claims(stands, tools) {
            Ok(()) => {}
            // It says itself that nothing was changed and what to do.
            Err(error @ CopyError::Refused(_)) => return Err(error),
            Err(error) => {
                let error = job.name_the_stuck(error, Route::Host);
                return Err(job.conclude(error));
            }
        }
    }
    Ok(job)
}

/// Looks again at everything the plan was made from: minutes may have passed since. Returns also what
/// stands against a copy that does not find its journal.
fn ready_to_start(
    system: &System,
    surveyor: &Surveyor<'_>,
    fabric: &Fabric,
    plan: &Plan,
    start: Start,
) -> Result<(Prepared, Vec<Refusal>), CopyError> {
    // What a copy that goes on has written itself is no content that somebody would miss.
    let stands = |refusals: &[Refusal]| {
        let is_held = start == Start::Resume && refusals.iter().all(|refusal| refusal.forceable);
        !refusals.is_empty() && !is_held
    };
    if !fabric.is_this_machine() {
        let reason = format!("machine {} is described, not here", fabric.name);
        return Err(CopyError::NotPossible { reason, hint: None });
    }
    if stands(&plan.refusals) {
        return Err(CopyError::Refused(plan.refusals.clone()));
    }
    if plan.route.is_none() {
        let by_host = "`--route auto` copies through host memory";
        let way_out = [&plan.source, &plan.target].into_iter().find_map(|end| end.way_out.as_ref());
        let hint = way_out.map_or_else(|| by_host.to_owned(), |way| format!("{way}; or {by_host}"));
        let hint = Some(hint);
        return Err(CopyError::NotPossible { reason: plan.reason.clone(), hint });
    }
    // The plan holds absolute paths; the working directory may have changed since.
    let asked = Asked {
        source: plan.source.path.clone(),
        target: plan.target.path.clone(),
        ..plan.asked.clone()
    };
    let now = plan::prepare(system, surveyor, fabric, &asked)?;
    if stands(&now.plan.refusals) {
        return Err(CopyError::Refused(now.plan.refusals));
    }
    let held = now.plan.refusals.clone();
    for (planned, found) in [(&plan.source, &now.plan.source), (&plan.target, &now.plan.target)] {
        if (planned.kind, planned.size, planned.block) != (found.kind, found.size, found.block) {
            let reason = format!("{} is not what it was when the copy was planned", planned.path);
            return Err(CopyError::Refused(vec![Refusal { reason, hint: None, forceable: false }]));
        }
    }
    Ok((now, held))
}

/// A copy under way.
struct Job<'a> {
    machine: &'a dyn Machine,
    fabric: &'a Fabric,
    plan: &'a Plan,
    ends: &'a Prepared,
    source: Opened,
    source_live: &'a Live,
    /// What the source was when the copy began.
    source_identity: Identity,
    /// What earlier runs moved.
    before: RangeSet,
    layout: Layout,
    target: Target<'a>,
    preserved: Preserved,
    keeper: Option<Keeper<'a>>,
    recorder: Recorder,
    holes: Holes,
    evidence: Vec<RouteEvidence>,
    witnesses: Witnesses,
    warnings: Vec<Warning>,
    /// Name of the device memory in use.
    memory: Option<String>,
    /// Whether anything may have been written to the target.
    is_touched: bool,
}

/// What moving and checking showed.
struct Done {
    payload: Payload,
    elapsed: Nanos,
    check: Nanos,
    cpu: peerlane_results::CpuTime,
    scrubbed: peerlane_results::Scrubbed,
    verification: peerlane_results::Verification,
}

impl Job<'_> {
    /// Whether an end is a passthrough node.
    fn has_nodes(&self) -> bool {
        self.source.passthrough.is_some() || self.target.opened().passthrough.is_some()
    }

    /// Gives the target its name and takes the journal away, in this order: a crash in between leaves
    /// the journal of a complete copy. One that cannot take its name is kept like any other that stopped.
    fn complete(
        mut self,
        settled: record::Settled,
        done: Done,
        limit: Option<ByteRate>,
    ) -> Result<CopyRecord, CopyError> {
        if let Err(error) = self.target.finish(settled.shape.length, &self.preserved) {
            return Err(self.conclude(error));
        }
        if let Some(keeper) = self.keeper {
            keeper.end()?;
        }
        let (evidence, warnings) = (self.evidence, self.warnings);
        Ok(record::write(self.fabric, self.plan, settled, done, evidence, warnings).limited(limit))
    }

    /// A proof writes patterns to the first bytes of the target: what a journal says must not include
    /// them while it does.
    fn make_room_for_proof(&mut self, tools: &Tools<'_>) -> Result<(), CopyError> {
        if self.plan.route != Some(Route::P2p) || self.target.is_finished() {
            return Ok(());
        }
        let proof = 0..prove::LENGTH_MAX.max(self.layout.block);
        let mut done = self.recorder.done().clone();
        done.subtract(proof);
        if let (Some(keeper), true) = (&mut self.keeper, &done != self.recorder.done()) {
            keeper.save(&done)?;
            let now = tools.clock.now();
            self.recorder = Recorder::new(tools.options.cadence, done, now);
        }
        Ok(())
    }

    /// A file system that refused direct I/O after all.
    fn note_page_cache(&mut self) {
        let ends = [
            (self.source.is_direct, &self.plan.source.path),
            (self.target.is_direct(), &self.plan.target.path),
        ];
        for (is_direct, path) in ends {
            let warning = Warning::PageCache { path: path.clone() };
            if !is_direct && !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

#[cfg(test)]
mod beside_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
pub(crate) mod tests;
