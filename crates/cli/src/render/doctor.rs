//! The findings of the doctor in words, the most costly first.

use peerlane_results::{Cost, DoctorRecord, Finding, Fix, Needs};

use super::Sheet;

/// The verdict, then each finding with its evidence and its fix, then what could not be known.
pub(crate) fn doctor(record: &DoctorRecord) -> String {
    let mut sheet = Sheet::default();
    sheet.line(format_args!("{}: {}", record.machine.name, record.verdict));
    // What a machine needs before anything is possible comes in full; the rest would matter afterwards.
    let is_impossible = record.findings.first().is_some_and(|worst| worst.cost == Cost::Everything);
    let (now, later): (Vec<&Finding>, Vec<&Finding>) =
        record.findings.iter().partition(|found| !is_impossible || found.cost == Cost::Everything);
    for (index, found) in now.into_iter().enumerate() {
        sheet.line("");
        finding(&mut sheet, index + 1, found);
    }
    if !later.is_empty() {
        sheet.line("");
        sheet.line("after that is fixed, these remain (details: --json):");
        for found in later {
            sheet.line(format_args!("  {}: {}: {}", found.cost, found.object, found.what));
        }
    }
    if !record.unknown.is_empty() {
        sheet.line("");
        sheet.line("not to be seen from here:");
        for unknown in &record.unknown {
            sheet.line(format_args!("  {}", unknown.what));
            sheet.line(format_args!("    it takes {}", unknown.needs));
        }
    }
    sheet.0
}

fn finding(sheet: &mut Sheet, number: usize, finding: &Finding) {
    sheet.line(format_args!("{number}. {}: {}", finding.cost, finding.object));
    sheet.line(format_args!("   {}", finding.what));
    for evidence in &finding.evidence {
        sheet.line(format_args!("   seen: {}: {}", evidence.looked_at, evidence.showed));
    }
    match &finding.fix {
        Some(known) => fix(sheet, known),
        None => sheet.line("   nothing that is known helps"),
    }
}

fn fix(sheet: &mut Sheet, fix: &Fix) {
    let needs = match fix.needs {
        Needs::Nothing => String::new(),
        needs => format!(" ({needs})"),
    };
    sheet.line(format_args!("   fix{needs}: {}", fix.what));
    for command in &fix.commands {
        sheet.line(format_args!("     {command}"));
    }
    if let Some(weakens) = &fix.weakens {
        sheet.line(format_args!("   what that costs: {weakens}"));
    }
}
