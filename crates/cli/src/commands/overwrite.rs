//! Leave to overwrite the content of a target, asked of a person at the terminal.
//!
//! Asked only where content alone blocks the copy: no confirmation covers a target that is refused
//! anyway. Without a terminal the refusal stays. After the answer, the target is compared with the
//! summary that was shown.

use std::io;
use std::path::Path;

use peerlane_engine::overwrite_summary::{JournalPlace, OverwriteSummary, summarize};
use peerlane_engine::{CopyOptions, MonotonicClock, Start, Surveyor};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, EndpointKind, Plan};
use peerlane_units::Nanos;

use super::plan;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::{Printer, Reply};
use crate::render;

/// Context of a question.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) options: &'a CopyOptions,
    /// The longest wait for a device.
    pub(super) deadline: Nanos,
    pub(super) printer: Printer,
}

/// Returns the plans of a job, with leave to overwrite where that was needed and given. All targets are
/// asked for before any is looked at again, since each answer may take any time.
///
/// # Errors
/// When an answer is not yes, the terminal cannot be asked, or a target changed meanwhile.
pub(super) fn settle(
    fabric: &Fabric,
    plans: Vec<Plan>,
    asking: Asking<'_>,
    is_stopped: impl Fn() -> bool,
) -> Result<Vec<Plan>, Failure> {
    let stands =
        |one: &Plan| one.route.is_none() || one.refusals.iter().any(|refusal| !refusal.forceable);
    if plans.iter().any(stands) {
        return Ok(plans);
    }
    let mut shown = Vec::with_capacity(plans.len());
    for one in &plans {
        shown.push(ask_for(one, asking, &is_stopped)?);
    }
    if shown.iter().all(Option::is_none) {
        return Ok(plans);
    }
    let asked: Vec<Asked> = (plans.iter().zip(&shown))
        .map(|(one, shown)| shown.as_ref().map_or_else(|| one.asked.clone(), |_| forced(one)))
        .collect();
    let settled = plan::make_all(fabric, &asked, asking.deadline, &asking.options.surveys)?;
    for ((one, shown), now) in plans.iter().zip(&shown).zip(&settled) {
        compare(one, shown.as_ref(), now, asking)?;
    }
    Ok(settled)
}

/// Asks if that is needed and helps; returns the summary that was shown before a yes.
fn ask_for(
    plan: &Plan,
    asking: Asking<'_>,
    is_stopped: impl FnOnce() -> bool,
) -> Result<Option<OverwriteSummary>, Failure> {
    if !is_open(plan, asking.options.start) || !Printer::can_ask() {
        return Ok(None);
    }
    // What cannot be shown is not asked for.
    let Ok(shown) = look(plan, asking) else { return Ok(None) };
    ask(plan, &shown, asking.printer, is_stopped)?;
    Ok(Some(shown))
}

fn look(plan: &Plan, asking: Asking<'_>) -> io::Result<OverwriteSummary> {
    let clock = MonotonicClock::start();
    let surveyor = Surveyor::new(&clock, asking.deadline).with_surveys(&asking.options.surveys);
    let start = plan.asked.target_offset.0;
    let length = plan.shape.as_ref().map_or(0, |shape| shape.length.0);
    let written = start..start.saturating_add(length);
    let CopyOptions { journal, environment, .. } = asking.options;
    let place = JournalPlace { path: journal.as_deref(), environment };
    summarize(Path::new(&plan.target.path), written, place, &surveyor)
}

fn forced(plan: &Plan) -> Asked {
    Asked { force: true, ..plan.asked.clone() }
}

/// Checks that a target has not changed since the questions.
fn compare(
    plan: &Plan,
    shown: Option<&OverwriteSummary>,
    settled: &Plan,
    asking: Asking<'_>,
) -> Result<(), Failure> {
    let is_content = shown.is_none_or(|shown| look(plan, asking).is_ok_and(|now| now == *shown));
    if is_content && settled.target == plan.target {
        return Ok(());
    }
    let changed = format!("{} is not what it was when the question was put", plan.target.path);
    Err(Failure::new(changed).hint("nothing was changed; run the command again".to_owned()))
}

/// True when a yes would allow a copy that cannot start without one.
fn is_open(plan: &Plan, start: Start) -> bool {
    // What an interrupted copy wrote to a device is not content to lose.
    let is_held = start == Start::Resume && plan.target.kind != EndpointKind::File;
    let is_open = !plan.refusals.is_empty() && plan.refusals.iter().all(|one| one.forceable);
    is_open && plan.route.is_some() && !is_held
}

fn ask(
    plan: &Plan,
    shown: &OverwriteSummary,
    printer: Printer,
    is_stopped: impl FnOnce() -> bool,
) -> Result<(), Failure> {
    let path = &plan.target.path;
    let answer = printer
        .ask(&render::question(plan, shown), is_stopped)
        .map_err(Tried::to(format!("ask whether {path} may be overwritten")))?;
    let untouched = "`--force` overwrites without asking".to_owned();
    match answer {
        Reply::Yes => Ok(()),
        Reply::No => {
            Err(Failure::new(format!("not confirmed; {path} was not changed")).hint(untouched))
        }
        Reply::Stopped => {
            let failure = Failure::new(format!("interrupted; {path} was not changed"));
            Err(failure.exit(Exit::Interrupted))
        }
    }
}

#[cfg(test)]
mod tests {
    use peerlane_results::Refusal;
    use peerlane_units::Bytes;

    use super::*;

    const MACHINE: &str = include_str!("../../../../machines/pair.toml");

    #[test]
    fn resumed_device_is_not_asked_for() {
        let fabric = Fabric::from_toml(MACHINE).unwrap();
        let asked = Asked { length: Some(Bytes::mib(16)), ..Asked::between("a", "b") };
        let mut plan = super::plan::make(&fabric, &asked, Nanos::seconds(60)).unwrap();
        assert!(plan.route.is_some(), "{plan:?}");
        plan.refusals = vec![Refusal { reason: "full".into(), hint: None, forceable: true }];
        for (kind, when_resumed) in [
            (EndpointKind::BlockDevice, false),
            (EndpointKind::Passthrough, false),
            (EndpointKind::File, true),
        ] {
            plan.target.kind = kind;
            assert!(is_open(&plan, Start::Anew), "{kind:?}");
            assert_eq!(is_open(&plan, Start::Resume), when_resumed, "{kind:?}");
        }
    }
}
