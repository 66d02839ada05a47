//! An examination in words: the headline, uses, findings, and the plan.

use peerlane_results::{
    AssumedSetting, DoctorRecord, Evidence, Finding, LibrarySetting, NcclSetting, Needs, PlanStep,
    Setting, Unknown, Use, UseAnswer,
};

use crate::sheet::{LabelSheet, without_marks};

/// Lines of evidence of one finding.
const MAX_EVIDENCE: usize = 3;

/// The plan as a file, with all that leads to it.
pub fn plan_file(record: &DoctorRecord) -> String {
    without_marks(&text(record, ""))
}

/// The headline, assumed settings, findings, fixes, uses, and unknown facts; `proof` follows the notes.
pub fn text(record: &DoctorRecord, proof: &str) -> String {
    let mut sheet = LabelSheet::default();
    match record.pair {
        Some(_) => sheet.line(&record.verdict),
        None => headline(&mut sheet, record),
    }
    for note in &record.notes {
        sheet.line(format_args!("note: {note}"));
    }
    sheet.0.push_str(proof);
    section(&mut sheet, "assumed:", &record.assumed, assumed);
    section(&mut sheet, "findings:", &record.findings, |sheet, one| finding(sheet, one, record));
    plan(&mut sheet, &record.steps);
    section(&mut sheet, "uses:", &record.uses, of_use);
    // A whole machine has them in --json.
    if record.pair.is_some() {
        section(&mut sheet, "settings of cuFile (/etc/cufile.json):", &record.settings, setting);
    }
    section(&mut sheet, "NCCL:", &record.nccl, nccl);
    section(&mut sheet, "unknown:", &record.unknown, unknown);
    sheet.0
}

/// The worst finding in a line, then the working uses.
fn headline(sheet: &mut LabelSheet, record: &DoctorRecord) {
    let (first, rest) = record.verdict.split_once(". ").unwrap_or((&record.verdict, ""));
    sheet.line(format_args!("{}: {first}", record.machine.name));
    if !rest.is_empty() {
        sheet.line(rest);
    }
}

fn section<T>(
    sheet: &mut LabelSheet,
    heading: &str,
    all: &[T],
    line: impl Fn(&mut LabelSheet, &T),
) {
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

fn of_use(sheet: &mut LabelSheet, one: &UseAnswer) {
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

fn finding(sheet: &mut LabelSheet, finding: &Finding, record: &DoctorRecord) {
    let what =
        if record.is_of_copy(finding) { "refused".to_owned() } else { finding.cost.to_string() };
    sheet.line(format_args!("  {what}: {}", finding.object));
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
    let boot = BootParameters::new(steps);
    let mut last = None;
    for one in steps {
        if last != Some(one.needs) {
            sheet.line("");
            sheet.line(format_args!("{}:", group(one.needs, last.is_some())));
            last = Some(one.needs);
        }
        step(sheet, one, &boot);
    }
}

/// Parameters of the kernel, which one command sets for all steps.
struct BootParameters<'a> {
    /// By the order of their steps.
    all: Vec<(u32, &'a str)>,
}

impl<'a> BootParameters<'a> {
    fn new(steps: &'a [PlanStep]) -> Self {
        let all = steps.iter().filter_map(|step| Some((step.order, parameter(step)?)));
        Self { all: all.collect() }
    }

    /// The lines of a step's commands: those for all parameters with the last of their steps.
    fn commands(&self, step: &PlanStep) -> Vec<String> {
        let (Some(own), Some(&(last, _))) = (parameter(step), self.all.last()) else {
            return step.command.lines().map(str::to_owned).collect();
        };
        if step.order != last {
            return vec![format!("# {own}: with step {last}")];
        }
        let all: Vec<&str> = self.all.iter().map(|&(_, parameter)| parameter).collect();
        step.command.lines().map(|line| line.replace(own, &all.join(" "))).collect()
    }
}

/// The only setting of a step, if that is a parameter of the kernel.
fn parameter(step: &PlanStep) -> Option<&str> {
    match step.settings.as_slice() {
        [Setting::KernelParameter(parameter)] if !step.command.is_empty() => Some(parameter),
        _ => None,
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

fn step(sheet: &mut LabelSheet, step: &PlanStep, boot: &BootParameters<'_>) {
    sheet.line(format_args!("  {}. {}", step.order, step.what));
    sheet.line(format_args!("     on: {}", objects(&step.objects)));
    if step.pairs > 0 {
        let uses: Vec<String> = step.uses.iter().map(Use::to_string).collect();
        sheet.line(format_args!("     for: {} ({})", uses.join(", "), pairs(step.pairs)));
    }
    for command in boot.commands(step) {
        sheet.command("     ", &command);
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

fn nccl(sheet: &mut LabelSheet, one: &NcclSetting) {
    match &one.value {
        Some(value) => sheet.command("  ", &format!("{}={value}", one.name)),
        None => sheet.line(format_args!("  {}: leave it unset", one.name)),
    }
    sheet.line(format_args!("    {}", one.because));
}

fn unknown(sheet: &mut LabelSheet, unknown: &Unknown) {
    sheet.line(format_args!("  {}", unknown.what));
    sheet.line(format_args!("    to find out: {}", unknown.needs));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_parameter(order: u32, parameter: &str) -> PlanStep {
        PlanStep {
            order,
            reboot: true,
            needs: Needs::Reboot,
            what: parameter.to_owned(),
            objects: Vec::new(),
            command: format!("set '{parameter}'   # loader"),
            uses: Vec::new(),
            pairs: 0,
            weakens: None,
            settings: vec![Setting::KernelParameter(parameter.to_owned())],
        }
    }

    #[test]
    fn parameters_share_one_command() {
        let steps = [with_parameter(1, "iommu=pt"), with_parameter(2, "pci=x")];
        let boot = BootParameters::new(&steps);
        assert_eq!(boot.commands(&steps[0]), ["# iommu=pt: with step 2"]);
        assert_eq!(boot.commands(&steps[1]), ["set 'iommu=pt pci=x'   # loader"]);
        let boot = BootParameters::new(&steps[..1]);
        assert_eq!(boot.commands(&steps[0]), ["set 'iommu=pt'   # loader"]);
    }
}
