//! The start of a copy: its plans looked at again, then the ends and the journal of each target opened.

use std::rc::Rc;

use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Plan, Refusal, Route};
use rustix::fs::OFlags;

use super::account::Account;
use super::begin::Beginning;
use super::options::Start;
use super::pieces::{CopyLayout, HOLE_MIN};
use super::preserve::{self, Preserved};
use super::source::Source;
use super::target::Target;
use super::witness::Witnesses;
use super::{CopyError, CopyJob, Tools, files, gone, resume, unfinished};
use crate::endpoints::PathNode;
use crate::endpoints::guard::{self, Surveyor};
use crate::endpoints::machine::Machine;
use crate::io::failure::Role;
use crate::io::journal::Recorder;
use crate::io::system::System;
use crate::plan::{self, PlanError, Prepared, TARGETS_MAX};
use crate::transfer::stages::StageRow;

/// A plan that was looked at again.
pub(crate) struct CheckedPlan {
    /// The plan made again, with its ends.
    pub(crate) now: Prepared,
    /// Refusals of a copy that does not find its journal.
    pub(crate) held: Vec<Refusal>,
}

/// Looks again at everything the plans were made from, since minutes may have passed.
pub(super) fn look_again(
    machine: &dyn Machine,
    fabric: &Fabric,
    plans: &[Plan],
    tools: &Tools<'_>,
) -> Result<Vec<CheckedPlan>, CopyError> {
    let count = plans.len();
    if !(1..=TARGETS_MAX).contains(&count) {
        return Err(PlanError::Targets { count, most: TARGETS_MAX }.into());
    }
    if tools.options.journal.is_some() && count > 1 {
        let reason = "one file cannot be the journal of several targets".to_owned();
        let hint = Some("leave `--journal` out".to_owned());
        return Err(CopyError::Refused(vec![Refusal { reason, hint, forceable: false }]));
    }
    let system = machine.system();
    let surveyor =
        Surveyor::on(machine, tools.clock, tools.deadline).with_surveys(&tools.options.surveys);
    let mut checked = Vec::with_capacity(plans.len());
    for plan in plans {
        let one = ready_to_start(system, &surveyor, fabric, plan, tools.options.start)
            .map_err(|error| unfinished::name(error, system, plan, &tools.options))?;
        checked.push(one);
    }
    refuse_same(system, &checked)?;
    Ok(checked)
}

/// Names may have come to mean the same thing since the plan was made.
fn refuse_same(system: &System, plans: &[CheckedPlan]) -> Result<(), CopyError> {
    for (later, CheckedPlan { now, .. }) in plans.iter().enumerate() {
        for other in &plans[..later] {
            let (mine, yours) = (now.target_span(), other.now.target_span());
            let found = guard::between(system, &now.plan.asked, yours, mine, "two targets");
            if let Some(refusal) = found {
                return Err(CopyError::Refused(vec![refusal]));
            }
        }
    }
    Ok(())
}

/// Begins a copy: opens its ends and its journal.
pub(super) fn begin_job<'a>(
    machine: &'a dyn Machine,
    fabric: &'a Fabric,
    plan: &'a Plan,
    checked: &'a CheckedPlan,
    stages: &Rc<StageRow>,
    tools: &mut Tools<'_>,
) -> Result<CopyJob<'a>, CopyError> {
    let CheckedPlan { now, held } = checked;
    let not_planned = || CopyError::NotPossible { reason: plan.reason.clone(), hint: None };
    let shape = plan.shape.as_ref().ok_or_else(not_planned)?;
    let (Some(source_live), Some(target_live)) = (&now.source.live, &now.target.live) else {
        return Err(not_planned());
    };
    preserve::refuse_devices(
        &tools.options.preserve,
        [source_live, target_live].map(|live| live.node == PathNode::Block),
        [&plan.source.path, &plan.target.path],
    )?;
    let witnesses = Witnesses::new(machine.system(), fabric, plan, tools.options.watch_dma);
    let source = machine.open(OFlags::RDONLY, source_live, tools.deadline);
    let source = source.map_err(|source| CopyError::File {
        action: "open",
        path: source_live.path.clone(),
        source,
    })?;
    let layout = CopyLayout {
        source_offset: plan.asked.offset.0,
        length: shape.length.0,
        block: plan.source.block.max(plan.target.block).0,
        hole_min: HOLE_MIN,
        chunk: stages.chunk(),
    };
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
        staged: stages.journal(),
        held: held.clone(),
        route: plan.route.unwrap_or(Route::Host),
        seed: tools.seed,
        deadline: tools.deadline,
        surveyor: &surveyor,
        target_block: plan.target.block.0,
        target_name: gone::drive_of(&plan.target),
    };
    let mut begun = resume::begin_or_go_on(beginning, plan, tools)?;
    // What has no digest is copied again.
    let undigested = stages.keep_only(begun.manifest.as_deref(), &begun.done)?;
    undigested.into_iter().for_each(|range| begun.done.subtract(range));
    let preserved = Preserved::read(&tools.options.preserve, &source.file, &source_live.path)?;
    if begun.target.partial().is_some() {
        preserved.try_on(begun.target.file(), &target_live.path)?;
    }
    let recorder = Recorder::new(tools.options.cadence, begun.done.clone(), tools.clock.now());
    let mut job = CopyJob {
        machine,
        fabric,
        plan,
        ends: now,
        layout,
        stages: Rc::clone(stages),
        source: Source { opened: source, live: source_live, identity: begun.source },
        target: Target {
            place: begun.target,
            preserved,
            keeper: begun.keeper,
            recorder,
            holes: begun.holes,
            is_touched: begun.is_resumed,
        },
        account: Account::new(plan, begun.done, witnesses),
    };
    for warning in begun.warnings {
        // At the end, in the record, it would be too late.
        tools.watch.caution(&format!("{warning}; {}", warning.advice()));
        job.account.warnings.push(warning);
    }
    job.note_page_cache();
    job.account.evidence.extend(files::evidence_of_node(source_live, Role::Source));
    job.account.evidence.extend(files::evidence_of_node(target_live, Role::Target));
    if begun.is_resumed {
        match job.check_claims(held.clone(), tools) {
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

/// Checks that a plan still holds.
fn ready_to_start(
    system: &System,
    surveyor: &Surveyor<'_>,
    fabric: &Fabric,
    plan: &Plan,
    start: Start,
) -> Result<CheckedPlan, CopyError> {
    // What a copy that goes on has written itself is not content to lose.
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
    Ok(CheckedPlan { now, held })
}
