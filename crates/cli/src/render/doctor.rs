//! An examination in words: the headline, uses, findings, and the plan.

use peerlane_results::{
    AssumedSetting, DoctorRecord, Evidence, Finding, LibrarySetting, Needs, PlanStep, Unknown, Use,
    UseRecord,
};

use super::LabelSheet;

/// Lines of evidence of one finding.
const MAX_EVIDENCE: usize = 3;

/// The headline, assumed settings, findings, fixes, uses, and unknown facts.
pub(crate) fn doctor(record: &DoctorRecord) -> String {
    let mut sheet = LabelSheet::default();
    match record.pair {
        Some(_) => sheet.line(&record.verdict),
        None => headline(&mut sheet, record),
    }
    section(&mut sheet, "assumed:", &record.assumed, assumed);
    section(&mut sheet, "findings:", &record.findings, finding);
    plan(&mut sheet, &record.steps);
    section(&mut sheet, "uses:", &record.uses, of_use);
    section(&mut sheet, "between them:", &record.notes, note);
    // A whole machine has them in --json.
    if record.pair.is_some() {
        section(&mut sheet, "settings of cuFile (/etc/cufile.json):", &record.settings, setting);
    }
    section(&mut sheet, "unknown:", &record.unknown, unknown);
    sheet.0
}

/// The worst finding in a line, then what works.
fn headline(sheet: &mut LabelSheet, record: &DoctorRecord) {
    let (first, rest) = record.verdict.split_once(". ").unwrap_or((&record.verdict, ""));
    sheet.line(format_args!("{}: {first}", record.machine.name));
    if !rest.is_empty() {
        sheet.line(rest);
    }
}

fn section<T>(sheet: &mut LabelSheet, heading: &str, all: &[T], line: fn(&mut LabelSheet, &T)) {
    if all.is_empty() {
        return;
    }
    sheet.line("");
    sheet.line(heading);
    for one in all {
        line(sheet, one);
    }
}

fn assumed(sheet: &mut LabelSheet, one: &AssumedSetting) {
    sheet.line(format_args!("  {}: {}", one.setting, one.effect));
}

fn of_use(sheet: &mut LabelSheet, one: &UseRecord) {
    let [initiator, provider] = &one.example;
    let example = format!("{initiator} -> {provider}");
    let pairs = match (one.pairs, one.of) {
        (1, 1) => example,
        (pairs, of) if pairs == of => format!("{of} pairs, e.g. {example}"),
        (pairs, of) => format!("{pairs} of {of} pairs, e.g. {example}"),
    };
    let (name, state) = (one.of_use.to_string(), one.state.to_string());
    sheet.line(format_args!("  {name:<16} {state:<21} {pairs}"));
    for reason in one.because.split("; ") {
        sheet.line(format_args!("    {reason}"));
    }
}

fn note(sheet: &mut LabelSheet, one: &String) {
    sheet.line(format_args!("  {one}"));
}

fn finding(sheet: &mut LabelSheet, finding: &Finding) {
    sheet.line(format_args!("  {}: {}", finding.cost, finding.object));
    sheet.line(format_args!("    {}", finding.what));
    let shown = finding.evidence.iter().take(MAX_EVIDENCE);
    for Evidence { looked_at, showed } in shown {
        sheet.line(format_args!("    seen: {looked_at}: {showed}"));
    }
    if let Some(more) = finding.evidence.len().checked_sub(MAX_EVIDENCE).filter(|&more| more > 0) {
        sheet.line(format_args!("    seen: {more} more (all: --json)"));
    }
    if finding.fix.is_none() {
        sheet.line("    no known fix");
    }
}

/// The steps, in groups that take effect together.
fn plan(sheet: &mut LabelSheet, steps: &[PlanStep]) {
    let mut last = None;
    for one in steps {
        if last != Some(one.needs) {
            sheet.line("");
            sheet.line(format_args!("{}:", group(one.needs, last.is_some())));
            last = Some(one.needs);
        }
        step(sheet, one);
    }
}

fn group(needs: Needs, follows: bool) -> String {
    let words = match needs {
        Needs::Nothing => "in force at once",
        Needs::Rebind => "while the device is not in use",
        Needs::Reboot => "one reboot",
        Needs::Hardware => "other hardware, firmware or another slot",
    };
    format!("{} ({words})", if follows { "then" } else { "fixes" })
}

fn step(sheet: &mut LabelSheet, step: &PlanStep) {
    sheet.line(format_args!("  {}. {}", step.order, step.what));
    sheet.line(format_args!("     on: {}", objects(&step.objects)));
    if step.pairs > 0 {
        let uses: Vec<String> = step.uses.iter().map(Use::to_string).collect();
        sheet.line(format_args!("     for: {} ({})", uses.join(", "), pairs(step.pairs)));
    }
    for command in step.command.lines() {
        sheet.command("     ", command);
    }
    if step.command.is_empty() {
        sheet.line(format_args!("     no command: {}", without_command(step)));
    }
    if let Some(weakens) = &step.weakens {
        sheet.line(format_args!("     side effect: {weakens}"));
    }
}

/// The reason why a step has no command.
fn without_command(step: &PlanStep) -> &'static str {
    match step.needs {
        _ if !step.settings.is_empty() => "`peerlane doctor --write-fix DIR` writes the setting",
        Needs::Hardware => "a change of hardware, firmware or slot",
        Needs::Nothing | Needs::Rebind | Needs::Reboot => {
            "it depends on your data and distribution"
        }
    }
}

/// Objects named in a step before it only counts.
const MAX_OBJECTS: usize = 4;

fn objects(all: &[String]) -> String {
    match all.len().checked_sub(MAX_OBJECTS).filter(|&more| more > 0) {
        None => all.join(", "),
        Some(more) => format!("{} and {more} more", all[..MAX_OBJECTS].join(", ")),
    }
}

fn pairs(count: u64) -> String {
    if count == 1 { "1 pair".to_owned() } else { format!("{count} pairs") }
}

fn setting(sheet: &mut LabelSheet, one: &LibrarySetting) {
    sheet.line(format_args!("  {}: {} (since {})", one.key, one.value, one.since));
    sheet.line(format_args!("    {}; {}", one.consequence, one.advice));
}

fn unknown(sheet: &mut LabelSheet, unknown: &Unknown) {
    sheet.line(format_args!("  {}", unknown.what));
    sheet.line(format_args!("    to find out: {}", unknown.needs));
}
