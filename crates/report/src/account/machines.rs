//! Machines examined, and plans.

use peerlane_results::{DoctorRecord, Limit, Plan, PlanRecord, PlanStep, UseAnswer, Warning};

use super::{machine_facts, warnings};
use crate::document::{Block, Cell, RecordVerdict, Section, Table, Tone};
use crate::plain::{command_line, count, plain};

/// A machine examined.
pub(super) fn doctor(name: &str, record: &DoctorRecord) -> (RecordVerdict, Section) {
    let mut facts = vec![("record", plain(name))];
    facts.extend(machine_facts(&record.machine));
    if let Some([source, target]) = &record.pair {
        facts.push(("pair", format!("{} to {}", plain(source), plain(target))));
    }
    let mut blocks = vec![Block::Facts(facts)];
    blocks.extend(uses_table(record));
    let rows: Vec<_> = record
        .findings
        .iter()
        .map(|finding| {
            vec![
                Cell::text(finding.cost.to_string()),
                Cell::text(&finding.object),
                Cell::text(&finding.what),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let columns = vec!["costs", "on", "what"];
        blocks.push(Block::Table(Table::new(
            "What was found, the most costly first",
            columns,
            rows,
        )));
    }
    blocks.extend(steps_table(record));
    blocks.extend(commands(record));
    let evidence = record.findings.iter().flat_map(|finding| &finding.evidence);
    let rows: Vec<_> = evidence
        .map(|one| vec![Cell::text(plain(&one.looked_at)), Cell::text(plain(&one.showed))])
        .collect();
    if !rows.is_empty() {
        let table = Table::new("Evidence of the findings", vec!["looked at", "showed"], rows);
        blocks.push(Block::Table(table.detail()));
    }
    let unknown: Vec<_> = record
        .unknown
        .iter()
        .map(|one| vec![Cell::text(&one.what), Cell::text(&one.needs)])
        .collect();
    if !unknown.is_empty() {
        blocks.push(Block::Table(Table::new(
            "What could not be known",
            vec!["what", "it would take"],
            unknown,
        )));
    }
    let tone = if record.is_healthy() { Tone::Firm } else { Tone::Limited };
    let more = vec![format!("Machine: {}.", plain(&record.machine.name))];
    let verdict = RecordVerdict { tone, basis: "examined", text: plain(&record.verdict), more };
    (verdict, Section { heading: format!("doctor: {}", plain(&record.machine.name)), blocks })
}

fn uses_table(record: &DoctorRecord) -> Option<Block> {
    let row = |one: &UseAnswer| {
        vec![
            Cell::text(one.of_use.to_string()),
            Cell::text(one.state.to_string()),
            Cell::text(format!("{} of {}", one.pairs, one.of)),
            Cell::text(&one.because),
        ]
    };
    let rows: Vec<_> = record.uses.iter().map(row).collect();
    let columns = vec!["use", "payload goes", "pairs", "because"];
    (!rows.is_empty()).then(|| Block::Table(Table::new("Uses of the devices", columns, rows)))
}

fn steps_table(record: &DoctorRecord) -> Option<Block> {
    let row = |step: &PlanStep| {
        vec![
            Cell::text(step.order.to_string()),
            Cell::text(&step.what),
            Cell::text(step.objects.join(", ")),
            step.weakens.as_ref().map_or_else(Cell::none, Cell::text),
            Cell::text(step.needs.to_string()),
        ]
    };
    let rows: Vec<_> = record.steps.iter().map(row).collect();
    let columns = vec!["step", "what", "on", "weakens", "in force"];
    (!rows.is_empty()).then(|| Block::Table(Table::new("Plan", columns, rows)))
}

/// The commands of each step, to be pasted.
fn commands(record: &DoctorRecord) -> impl Iterator<Item = Block> + '_ {
    let with_commands = record.steps.iter().filter(|step| !step.command.is_empty());
    with_commands.map(|step| {
        let lines = step.command.lines().map(command_line).collect();
        Block::Commands(format!("Step {}: {}", step.order, plain(&step.what)), lines)
    })
}

/// Plans: one in full, several as a table.
pub(super) fn plans(name: &str, record: &PlanRecord) -> (RecordVerdict, Section) {
    let only = record.only().and_then(|target| target.plan.as_ref());
    only.map_or_else(|| several(name, record), |only| plan(name, only))
}

fn planned(record: &PlanRecord) -> impl Iterator<Item = &Plan> {
    record.targets().filter_map(|target| target.plan.as_ref())
}

fn plan(name: &str, plan: &Plan) -> (RecordVerdict, Section) {
    let mut blocks = vec![Block::Facts(vec![("record", plain(name))])];
    blocks.extend(plan_blocks(plan));
    let heading = format!("plan: {} to {}", plain(&plan.asked.source), plain(&plan.asked.target));
    (plan_verdict(plan), Section { heading, blocks })
}

fn plan_verdict(plan: &Plan) -> RecordVerdict {
    let ends = format!("{} to {}", plain(&plan.asked.source), plain(&plan.asked.target));
    let (tone, text) = match (&plan.route, plan.refusals.first()) {
        (_, Some(refusal)) => {
            (Tone::Bad, format!("A copy from {ends} would not start: {}.", plain(&refusal.reason)))
        }
        (None, None) => (
            Tone::Bad,
            format!("The requested route from {ends} is not possible: {}.", plain(&plan.reason)),
        ),
        (Some(route), None) => (
            Tone::Limited,
            format!("A copy from {ends} would take the route {route}: {}.", plain(&plan.reason)),
        ),
    };
    RecordVerdict { tone, basis: "planned", text, more: vec!["Nothing was moved.".to_owned()] }
}

fn plan_blocks(plan: &Plan) -> Vec<Block> {
    let route = plan.route.map_or_else(|| "none".to_owned(), |route| route.to_string());
    let mut facts = vec![
        ("source", plain(&plan.source.path)),
        ("target", plain(&plan.target.path)),
        ("route", route),
        ("why", plain(&plan.reason)),
    ];
    facts.extend(plan.memory.as_ref().map(|memory| ("memory", plain(&memory.name))));
    if !plan.way.is_empty() {
        facts.push(("path", plain(&plan.way.join(", "))));
    }
    if !plan.unmeasured.is_empty() {
        facts.push(("unknown", format!("own rate of {}", plain(&plan.unmeasured.join(", ")))));
    }
    let mut blocks = vec![Block::Facts(facts)];
    // The verdict says that it falls back, and nothing was copied.
    let is_shown = |warning: &&Warning| !warning.is_fall_back();
    blocks.extend(warnings(plan.warnings.iter().filter(is_shown)));
    let rows: Vec<_> = plan
        .candidates
        .iter()
        .map(|candidate| {
            let refusals = candidate.refusals.join("; ");
            vec![
                Cell::text(&candidate.memory.name),
                Cell::text(candidate.source.turning_point()),
                Cell::text(candidate.target.turning_point()),
                candidate.distance.map_or_else(Cell::none, |hops| {
                    Cell::number(f64::from(hops), hops.to_string())
                }),
                Cell::text(if refusals.is_empty() { "can be used".to_owned() } else { refusals }),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let columns =
            vec!["memory", "source reaches it", "target reaches it", "distance", "verdict"];
        blocks.push(Block::Table(Table::new(
            "Memories that were considered, best first",
            columns,
            rows,
        )));
    }
    blocks.extend(limits(&plan.limits).map(Block::Table));
    let refusals: Vec<_> = plan
        .refusals
        .iter()
        .map(|refusal| {
            vec![
                Cell::text(&refusal.reason),
                refusal.hint.as_ref().map_or_else(Cell::none, Cell::text),
            ]
        })
        .collect();
    if !refusals.is_empty() {
        blocks.push(Block::Table(Table::new("Blocked by", vec!["what", "what to do"], refusals)));
    }
    blocks
}

fn limits(limits: &[Limit]) -> Option<Table> {
    let rows: Vec<_> = limits
        .iter()
        .map(|limit| {
            let rate = limit.bytes_per_second;
            vec![Cell::text(&limit.object), Cell::number(rate.0 as f64, rate.to_string())]
        })
        .collect();
    (!rows.is_empty()).then(|| Table::new("Ceilings on the path", vec!["object", "ceiling"], rows))
}

/// Plans of several targets or copies.
fn several(name: &str, record: &PlanRecord) -> (RecordVerdict, Section) {
    let (mut would, mut would_not) = (0, 0);
    let rows: Vec<_> = planned(record)
        .map(|plan| {
            let starts = plan.route.is_some() && plan.refusals.is_empty();
            if starts {
                would += 1;
            } else {
                would_not += 1;
            }
            let why = plan.refusals.first().map_or(&plan.reason, |refusal| &refusal.reason);
            vec![
                Cell::text(&plan.asked.source),
                Cell::text(&plan.asked.target),
                plan.route.map_or_else(Cell::none, |route| Cell::text(route.to_string())),
                Cell::text(if starts { "would start" } else { "would NOT start" }),
                Cell::text(why),
            ]
        })
        .collect();
    let table = Table::new("Each target", vec!["source", "target", "route", "copy", "why"], rows);
    let tone = if would_not == 0 { Tone::Limited } else { Tone::Bad };
    let text = format!("{} would start, {would_not} would not.", count(would, "target"));
    let more = match record.jobs.as_slice() {
        [_] => planned(record).take(1).map(|plan| plain(&plan.reason)).collect(),
        _ => vec!["Nothing was moved.".to_owned()],
    };
    let verdict = RecordVerdict { tone, basis: "planned", text, more };
    let blocks = vec![Block::Facts(vec![("record", plain(name))]), Block::Table(table)];
    (verdict, Section { heading: format!("plans: {}", plain(name)), blocks })
}
