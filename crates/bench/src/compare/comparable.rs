//! Conditions under which two runs, and two cases of them, can be compared.

use std::fmt::Debug;

use peerlane_results::{
    Basis, BenchRecord, CaseRecord, CaseSpec, Flow, FlowStage, Incomparable, RouteVerdict, Warning,
    WhichRun,
};

/// Returns the reasons against comparing any case of these turns.
pub(super) fn turns(turns: &[super::Turn<'_>]) -> Vec<Incomparable> {
    let mut reasons = Vec::new();
    for turn in turns {
        reasons.extend(records(turn.0, turn.1));
        // Turns must be of the same thing as each other, too.
        reasons.extend(records(turns[0].0, turn.0));
    }
    reasons.extend(twice(turns));
    reasons.extend(order(turns));
    reasons
}

/// Returns the reasons against comparing any case of two records.
fn records(before: &BenchRecord, after: &BenchRecord) -> Vec<Incomparable> {
    let mut reasons = Vec::new();
    if before.machine.name != after.machine.name {
        let (before, after) = (before.machine.name.clone(), after.machine.name.clone());
        reasons.push(Incomparable::Machine { before, after });
    }
    if before.basis != after.basis {
        reasons.push(Incomparable::Basis { before: before.basis, after: after.basis });
    }
    reasons
}

/// Turns that do not follow each other: drift then touches one side more than the other.
fn order(turns: &[super::Turn<'_>]) -> Option<Incomparable> {
    let is_late = |(one, other): (&super::Turn<'_>, &super::Turn<'_>)| {
        let last = one.0.started_s.max(one.1.started_s);
        let first = other.0.started_s.min(other.1.started_s);
        last.zip(first).is_some_and(|(last, first)| last > first)
    };
    let number = turns.iter().zip(turns.iter().skip(1)).position(is_late)?;
    Some(Incomparable::NotInTurns { turn: u32::try_from(number + 2).unwrap_or(u32::MAX) })
}

/// Finds a record that is given twice: each of its runs would count twice. Figures of two
/// measurements are never all equal, but two predictions of one thing are; of these only the same
/// object is the same record.
fn twice(turns: &[super::Turn<'_>]) -> Option<Incomparable> {
    let all: Vec<(WhichRun, &BenchRecord)> = turns
        .iter()
        .flat_map(|turn| [(WhichRun::Before, turn.0), (WhichRun::After, turn.1)])
        .filter(|(_, record)| !record.cases.is_empty())
        .collect();
    let is_same = |one: &BenchRecord, other: &BenchRecord| match other.basis {
        Basis::Predicted => std::ptr::eq(one, other),
        _ => one.cases == other.cases,
    };
    all.iter().enumerate().find_map(|(later, (run, record))| {
        let is_again = all[..later].iter().any(|(_, earlier)| is_same(earlier, record));
        is_again.then_some(Incomparable::Twice { run: *run })
    })
}

/// Differences whose effect a person may want to know.
pub(super) fn notes(before: &BenchRecord, after: &BenchRecord) -> Vec<String> {
    let (old, new) = (&before.machine, &after.machine);
    let unknown = || "unknown".to_owned();
    let kernel = |kernel: &Option<String>| kernel.clone().unwrap_or_else(unknown);
    let pairs = [
        ("kernel", kernel(&old.kernel), kernel(&new.kernel)),
        ("program", old.program.clone(), new.program.clone()),
        ("fabric (devices, firmware, links)", old.fabric.clone(), new.fabric.clone()),
    ];
    let differ = pairs.into_iter().filter(|(_, before, after)| before != after);
    let mut notes: Vec<String> =
        differ.map(|(what, before, after)| format!("another {what}: {before}, {after}")).collect();
    // What made the runs of one record differ so may make the records differ.
    for (run, record) in [(WhichRun::Before, before), (WhichRun::After, after)] {
        let wide = record.warnings.iter().filter(|one| matches!(one, Warning::Variance { .. }));
        notes.extend(wide.map(|warning| format!("the run {run}: {warning}")));
    }
    notes
}

/// Differences in the requests of two cases.
pub(crate) fn specs(before: &CaseSpec, after: &CaseSpec) -> Vec<Incomparable> {
    let mut reasons = Vec::new();
    reasons.extend(differs(None, "time", &before.time_ns, &after.time_ns));
    reasons.extend(differs(None, "number of flows", &before.flows.len(), &after.flows.len()));
    for (position, (before, after)) in before.flows.iter().zip(&after.flows).enumerate() {
        let flow = Some(u32::try_from(position).unwrap_or(u32::MAX));
        reasons.extend(flows(flow, before, after));
    }
    reasons
}

fn flows(flow: Option<u32>, before: &Flow, after: &Flow) -> impl Iterator<Item = Incomparable> {
    let Flow { source, target, via, path, block, depth, order, offset, .. } = before;
    let Flow { target_offset, bytes, limit, start_ns, stage, .. } = before;
    // Its numbers are parameters of the model, whose effect a person may want to know.
    let name = |stage: &Option<FlowStage>| stage.as_ref().map(|stage| stage.name.clone());
    [
        differs(flow, "source", source, &after.source),
        differs(flow, "target", target, &after.target),
        differs(flow, "memory", via, &after.via),
        differs(flow, "path", path, &after.path),
        differs(flow, "block", &block.0, &after.block.0),
        differs(flow, "depth", depth, &after.depth),
        differs(flow, "order", order, &after.order),
        differs(flow, "offset", &offset.0, &after.offset.0),
        differs(flow, "target offset", &target_offset.0, &after.target_offset.0),
        differs(flow, "number of bytes", &bytes.0, &after.bytes.0),
        differs(flow, "limit", limit, &after.limit),
        differs(flow, "start", start_ns, &after.start_ns),
        differs(flow, "stage", &name(stage), &name(&after.stage)),
    ]
    .into_iter()
    .flatten()
}

fn differs<T: PartialEq + Debug>(
    flow: Option<u32>,
    setting: &str,
    before: &T,
    after: &T,
) -> Option<Incomparable> {
    let (before_said, after_said) = (format!("{before:?}"), format!("{after:?}"));
    (before != after).then(|| Incomparable::Asked {
        flow,
        setting: setting.to_owned(),
        before: before_said,
        after: after_said,
    })
}

/// A run whose route is contradicted is not a result, so nothing is compared with it.
pub(super) fn route<'a>(
    run: WhichRun,
    mut cases: impl Iterator<Item = &'a CaseRecord>,
) -> Option<Incomparable> {
    let is_wrong = cases.any(|case| case.verdict == RouteVerdict::Contradicted);
    is_wrong.then_some(Incomparable::Route { run })
}
