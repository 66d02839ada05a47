//! Changes between two machines.

use std::collections::BTreeMap;

use peerlane_results::{
    ChangeEffect, ChangeKind, Machine, TopoDiffRecord, TopoUncompared, UncomparedReason,
};

use super::LabelSheet;

/// The verdict, then the changes by their effect, worst first, then the parts that could not be
/// compared.
pub(crate) fn topo_diff(record: &TopoDiffRecord) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(&record.verdict);
    sheet.row("before", machine(&record.before));
    sheet.row("after", machine(&record.after));
    for (effect, title) in [
        (ChangeEffect::Worse, "worse:"),
        (ChangeEffect::Neutral, "neither better nor worse by itself:"),
        (ChangeEffect::Better, "better:"),
    ] {
        let changes: Vec<_> =
            record.changes.iter().filter(|change| change.effect == effect).collect();
        if changes.is_empty() {
            continue;
        }
        sheet.line("");
        sheet.line(title);
        for change in changes {
            sheet.line(format_args!("  {}", change.what));
            for reason in change.pairs.iter().flat_map(|pairs| &pairs.reasons) {
                sheet.line(format_args!("    {reason}"));
            }
        }
    }
    let (of_one_side, others): (Vec<_>, Vec<_>) =
        record.uncompared.iter().partition(|fact| fact.reason.is_of_one_side());
    for (title, facts) in [("cannot tell:", of_one_side), ("could not be compared:", others)] {
        if !facts.is_empty() {
            sheet.line("");
            sheet.line(title);
            uncompared(&mut sheet, &facts);
        }
    }
    sheet.0
}

/// A line for functions that may not be listed, and one for each reason with all its facts.
fn uncompared(sheet: &mut LabelSheet, facts: &[&TopoUncompared]) {
    let is_presence = |fact: ChangeKind| matches!(fact, ChangeKind::Removed | ChangeKind::Added);
    let (presence, facts): (Vec<&TopoUncompared>, Vec<_>) =
        facts.iter().partition(|one| is_presence(one.fact));
    for fact in presence {
        sheet.line(format_args!("  {}", fact.what));
    }
    let reasons: BTreeMap<UncomparedReason, Vec<String>> =
        facts.into_iter().fold(BTreeMap::new(), |mut reasons, one| {
            reasons.entry(one.reason).or_default().push(counted(one));
            reasons
        });
    for (reason, facts) in reasons {
        sheet.line(format_args!("  {reason}: {}", facts.join(", ")));
    }
}

/// A fact, with the number of functions or pairs that have it.
fn counted(one: &TopoUncompared) -> String {
    let fact = one.fact;
    match (&one.functions[..], one.pairs) {
        ([], 0) => fact.to_string(),
        ([], 1) => format!("{fact} of 1 pair"),
        ([], pairs) => format!("{fact} of {pairs} pairs"),
        ([function], _) => format!("{fact} of {}", function.name),
        (functions, _) => format!("{fact} of {} functions", functions.len()),
    }
}

fn machine(machine: &Machine) -> String {
    match &machine.kernel {
        Some(kernel) => format!("{}, kernel {kernel}", machine.name),
        None => format!("{}, kernel not stated", machine.name),
    }
}
