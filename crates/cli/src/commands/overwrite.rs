//! Leave to overwrite what a target holds, asked of a person at the terminal.
//!
//! Asked only where content is all that stands against the copy, so that nobody says yes to what is
//! refused anyway; without a terminal the refusal stays. What was shown is compared with what is there
//! after the answer.

use std::path::Path;

use peerlane_engine::stake::{self, Stake};
use peerlane_engine::{CopyOptions, Start};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, EndpointKind, Plan};

use super::plan;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::{Answer, Printer};
use crate::render;

/// Returns the plan, with leave to overwrite where that was needed and given.
///
/// # Errors
/// When the answer is not yes, the terminal cannot be asked, or the target changed meanwhile.
pub(super) fn settle(
    fabric: &Fabric,
    plan: Plan,
    options: &CopyOptions,
    printer: Printer,
    is_stopped: impl FnOnce() -> bool,
) -> Result<Plan, Failure> {
    if !is_open(&plan, options.start) || !Printer::can_ask() {
        return Ok(plan);
    }
    let path = Path::new(&plan.target.path);
    let look = || stake::look_at(path, options);
    // What cannot be shown is not asked for.
    let Ok(shown) = look() else { return Ok(plan) };
    ask(&plan, &shown, printer, is_stopped)?;
    let forced = plan::make(fabric, &Asked { force: true, ..plan.asked.clone() })?;
    let is_as_shown = look().is_ok_and(|now| now == shown) && forced.target == plan.target;
    if is_as_shown {
        return Ok(forced);
    }
    let changed = format!("{} is not what it was when the question was put", plan.target.path);
    Err(Failure::new(changed).hint("nothing was changed; run the command again".to_owned()))
}

/// Whether a yes would let the copy start that cannot start without.
fn is_open(plan: &Plan, start: Start) -> bool {
    // What an interrupted copy wrote to a device is no content that somebody would miss.
    let is_held = start == Start::Resume && plan.target.kind != EndpointKind::File;
    let is_open = !plan.refusals.is_empty() && plan.refusals.iter().all(|one| one.forceable);
    is_open && plan.route.is_some() && !is_held
}

fn ask(
    plan: &Plan,
    shown: &Stake,
    printer: Printer,
    is_stopped: impl FnOnce() -> bool,
) -> Result<(), Failure> {
    let path = &plan.target.path;
    let answer = printer
        .ask(&render::question(plan, shown), is_stopped)
        .map_err(Tried::to(format!("ask whether {path} may be overwritten")))?;
    let untouched = "nothing was changed; `--force` overwrites without a question".to_owned();
    match answer {
        Answer::Yes => Ok(()),
        Answer::No => {
            Err(Failure::new(format!("{path} is left as it is: that was no yes")).hint(untouched))
        }
        Answer::Stopped => {
            let failure = Failure::new(format!("interrupted: {path} is left as it is"));
            Err(failure.exit(Exit::Interrupted))
        }
    }
}
