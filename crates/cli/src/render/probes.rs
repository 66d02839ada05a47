//! The kernel's answers to a probe, beside what the plan says.

use peerlane_results::{Probe, ProbeAnswer};

use super::LabelSheet;

/// A line for each memory and end; nothing where there were none.
pub(crate) fn probes(probes: &[Probe]) -> String {
    let mut sheet = LabelSheet::default();
    if !probes.is_empty() {
        sheet.line("");
        sheet.line("the kernel, asked with one block each:");
    }
    for Probe { memory, endpoint, predicted, answer, agrees } in probes {
        let answer = match answer {
            ProbeAnswer::Permitted => "permitted".to_owned(),
            ProbeAnswer::Refused { reason } => format!("refused: {reason}"),
            ProbeAnswer::NotAsked { reason } => format!("no answer: {reason}"),
        };
        sheet.line(format_args!("  {endpoint} and {memory}: {answer}"));
        if *agrees == Some(false) {
            sheet.line(format_args!(
                "    but the plan says: {predicted}; the kernel keeps its answer until the driver of \
                 {memory}'s device is bound again"
            ));
        }
    }
    sheet.0
}
