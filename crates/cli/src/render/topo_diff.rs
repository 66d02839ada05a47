//! Changes between two machines.

use peerlane_results::{Machine, TopoDiffRecord, TopoEffect};

use super::LabelSheet;

/// The verdict, then the changes by their effect, worst first, then what could not be compared.
pub(crate) fn topo_diff(record: &TopoDiffRecord) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(&record.verdict);
    sheet.row("before", machine(&record.before));
    sheet.row("after", machine(&record.after));
    for (effect, title) in [
        (TopoEffect::Worse, "worse:"),
        (TopoEffect::Neutral, "neither better nor worse by itself:"),
        (TopoEffect::Better, "better:"),
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
    if !record.uncompared.is_empty() {
        sheet.line("");
        sheet.line("could not be compared:");
        for fact in &record.uncompared {
            sheet.line(format_args!("  {}", fact.what));
        }
    }
    sheet.0
}

fn machine(machine: &Machine) -> String {
    match &machine.kernel {
        Some(kernel) => format!("{}, kernel {kernel}", machine.name),
        None => format!("{}, kernel not stated", machine.name),
    }
}
