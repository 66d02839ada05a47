//! Carries a plan out: memory, proof of the route, the relay, flush, verification, the final name.
//!
//! Candidates are tried in the plan's order until the kernel and a proof agree that one works; the
//! answers of each are evidence in the record. Under `auto` host memory comes last, loudly. The
//! order of the rest keeps a target honest: a file takes its name only after verification,
//! and whatever ends the copy earlier removes it, or keeps it with a journal for the copy to go on
//! by. The journal is made when the first part of a copy is flushed, or when something ends it.

mod account;
mod attempt;
mod begin;
mod beside;
mod carry;
pub(crate) mod check;
mod claims;
mod compare;
mod copying;
mod error;
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
mod settle;
mod source;
mod start;
mod target;
mod twin;
mod unfinished;
mod witness;

use std::rc::Rc;
use std::slice;

use peerlane_fabric::Fabric;
use peerlane_results::{CompletedCopy, Plan, Warning};
use peerlane_units::{ByteRate, Bytes, Nanos};

pub use error::CopyError;
pub(crate) use files::{Claim, grow, open_in_place};
pub use options::{CopyOptions, Sparse, Start};
pub use preserve::Metadatum;
pub(crate) use start::CheckedPlan;

use crate::endpoints::machine::{Machine, host};
use crate::io::clock::Clock;
use crate::io::watch::Watch;
use crate::plan::Prepared;
use crate::transfer::stages::StageRow;
use account::{Account, Payload};
use copying::Copying;
use pieces::CopyLayout;
use source::Source;
use target::Target;

/// Clock, watch and settings that the caller gives a copy.
pub struct Tools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Receives progress and notices, and may ask for an end.
    pub watch: &'a mut dyn Watch,
    /// Random seed for names of unfinished files, patterns and samples.
    pub seed: u64,
    /// The longest wait for a single request.
    pub deadline: Nanos,
    /// Options for journal, holes, and memory.
    pub options: CopyOptions,
}

/// Outcome of a copy with several targets.
#[derive(Debug)]
pub struct FanOut {
    /// Payload read from the source to be written, each byte once besides tails.
    pub read: Bytes,
    /// Each target's record, or why it is not complete.
    pub targets: Vec<Result<CompletedCopy, CopyError>>,
}

/// Carries a plan for one target out on this machine.
///
/// # Errors
/// [`CopyError`] by what went wrong; its variants say what is at the target then.
pub fn copy(
    fabric: &Fabric,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<CompletedCopy, CopyError> {
    copy_on(host(), fabric, slice::from_ref(plan), tools)?.targets.swap_remove(0)
}

/// Carries the plans for 1 to 16 targets out on this machine.
///
/// # Errors
/// [`CopyError`] when nothing was begun; a later end of the copy is the outcome of each target.
pub fn copy_fan_out(
    fabric: &Fabric,
    plans: &[Plan],
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    copy_on(host(), fabric, plans, tools)
}

fn copy_on(
    machine: &dyn Machine,
    fabric: &Fabric,
    plans: &[Plan],
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    let checked = start::look_again(machine, fabric, plans, tools)?;
    copy_prepared(machine, fabric, plans, &checked, tools)
}

/// Carries out plans whose ends were looked at again.
pub(crate) fn copy_prepared(
    machine: &dyn Machine,
    fabric: &Fabric,
    plans: &[Plan],
    checked: &[CheckedPlan],
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    let stages = Rc::new(stages_of(plans, tools)?);
    let mut jobs: Vec<CopyJob<'_>> = Vec::with_capacity(checked.len());
    for (plan, checked) in plans.iter().zip(checked) {
        match start::begin_job(machine, fabric, plan, checked, &stages, tools) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                jobs.iter_mut().for_each(|job| job.target.withdraw());
                if tools.options.start == Start::Anew {
                    stages.discard();
                }
                return Err(error);
            }
        }
    }
    Ok(Copying::new(jobs, stages).run(tools))
}

/// The stages that were asked for. Those that change content see holes as the zeroes that they are.
fn stages_of(plans: &[Plan], tools: &mut Tools<'_>) -> Result<StageRow, CopyError> {
    let Some((plan, shape)) = plans.first().and_then(|plan| Some((plan, plan.shape.as_ref()?)))
    else {
        return Ok(StageRow::default());
    };
    let (seed, options) = (tools.seed, &mut tools.options);
    let (sizes, run) = ((shape.length.0, shape.request.0), (options.start == Start::Resume, seed));
    let targets = plans.iter().map(|plan| plan.target.path.as_ref());
    let others = targets.chain([plan.source.path.as_ref()]).chain(options.journal.as_deref());
    options.stages.check_place(others)?;
    let row = StageRow::asked_for(&plan.asked, &options.stages, &plan.source.path, sizes, run)?;
    if row.changes_content() {
        options.sparse = Sparse::Never;
    }
    Ok(row)
}

/// A copy under way.
struct CopyJob<'a> {
    machine: &'a dyn Machine,
    fabric: &'a Fabric,
    plan: &'a Plan,
    ends: &'a Prepared,
    layout: CopyLayout,
    stages: Rc<StageRow>,
    source: Source<'a>,
    target: Target<'a>,
    account: Account,
}

/// Results of moving and checking.
struct Done {
    payload: Payload,
    elapsed: Nanos,
    check: Nanos,
    cpu: peerlane_results::CpuTime,
    stages: Vec<peerlane_results::StageRecord>,
    verification: peerlane_results::Verification,
}

impl<'a> CopyJob<'a> {
    /// True when an end is a passthrough node.
    fn has_nodes(&self) -> bool {
        self.source.opened.passthrough.is_some() || self.target.place.opened().passthrough.is_some()
    }

    /// Gives the target its name and takes the journal away, in this order: a crash in between leaves
    /// the journal of a complete copy. One that cannot take its name is kept like any other that stopped.
    fn complete(
        mut self,
        settled: record::Settled,
        done: Done,
        limit: Option<ByteRate>,
    ) -> Result<CompletedCopy, CopyError> {
        if let Err(error) = self.target.place.finish(settled.shape.length, &self.target.preserved) {
            return Err(self.conclude(error));
        }
        if let Some(keeper) = self.target.keeper {
            keeper.end()?;
        }
        let (evidence, warnings) = (self.account.evidence, self.account.warnings);
        Ok(record::write(self.fabric, self.plan, settled, done, evidence, warnings).limited(limit))
    }

    /// Paths of the ends that take no direct I/O.
    fn buffered_ends(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let ends = [
            (self.source.opened.is_direct, &self.plan.source.path),
            (self.target.place.is_direct(), &self.plan.target.path),
        ];
        ends.into_iter().filter(|(is_direct, _)| !is_direct).map(|(_, path)| path.as_str())
    }

    /// A file system that refused direct I/O after all.
    fn note_page_cache(&mut self) {
        for path in self.buffered_ends() {
            let warning = Warning::PageCache { path: path.to_owned() };
            if !self.account.warnings.contains(&warning) {
                self.account.warnings.push(warning);
            }
        }
    }
}

#[cfg(test)]
mod beside_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod several_tests;
#[cfg(test)]
pub(crate) mod tests;
