//! The answers to a probe, next to the plan.

use peerlane_results::{Probe, ProbeAnswer};

use super::LabelSheet;

/// A line for each memory and end; nothing where there were none.
pub(crate) fn probes(probes: &[Probe]) -> String {
    let mut sheet = LabelSheet::default();
    if !probes.is_empty() {
        sheet.line("");
        sheet.line(if probes.iter().any(is_of_library) {
            "cuFile and CUDA, asked for each path; nothing was written:"
        } else {
            "the kernel, asked with one block each:"
        });
    }
    for Probe { memory, endpoint, predicted, answer, agrees } in probes {
        let answer = match answer {
            ProbeAnswer::Permitted => "permitted".to_owned(),
            ProbeAnswer::Registered { showed } => showed.clone(),
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

/// True for a path to a GPU, by the name that a plan gives it: `gpu:0 by pinned host memory`.
fn is_of_library(probe: &Probe) -> bool {
    probe.memory.starts_with("gpu:")
}
