//! The plan: fixes in the order of their application, those that need a restart together.

use peerlane_reach::JudgedPairs;
use peerlane_results::{Finding, Fix, Needs, PlanStep};

use super::bearing::BearsOn;

/// A fix, and all pairs that it bears on.
struct Draft<'a> {
    fix: &'a Fix,
    objects: Vec<String>,
    bears_on: BearsOn,
}

/// The steps that the findings ask for, numbered.
///
/// Fixes with the same commands are one step. Fixes in force at once come first, then those that
/// stop users of a device, then all that one restart puts in force, then hardware.
pub(super) fn steps(findings: &[(Finding, BearsOn)], judged: &[JudgedPairs]) -> Vec<PlanStep> {
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    for (finding, bears_on) in findings {
        let Some(fix) = &finding.fix else { continue };
        match drafts.iter_mut().find(|draft| is_same(draft.fix, fix)) {
            Some(draft) => {
                draft.bears_on = draft.bears_on.clone().with(bears_on);
                draft.objects.push(finding.object.clone());
            }
            None => drafts.push(Draft {
                fix,
                objects: vec![finding.object.clone()],
                bears_on: bears_on.clone(),
            }),
        }
    }
    drafts.sort_by_key(|draft| draft.fix.needs);
    let numbered = (1..).zip(drafts);
    numbered.map(|(order, draft)| step(order, &draft, judged)).collect()
}

fn is_same(one: &Fix, other: &Fix) -> bool {
    let has_commands = !one.commands.is_empty();
    one.needs == other.needs
        && one.commands == other.commands
        && (has_commands || one.what == other.what)
}

fn step(order: u32, draft: &Draft<'_>, judged: &[JudgedPairs]) -> PlanStep {
    let (uses, pairs) = draft.bears_on.count(judged);
    let fix = draft.fix;
    PlanStep {
        order,
        reboot: fix.needs == Needs::Reboot,
        needs: fix.needs,
        what: fix.what.clone(),
        objects: draft.objects.clone(),
        command: fix.commands.join("\n"),
        uses,
        pairs,
        weakens: fix.weakens.clone(),
        settings: fix.settings.clone(),
    }
}
