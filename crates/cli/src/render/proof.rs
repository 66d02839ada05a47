//! A proof between two GPUs in words.

use peerlane_results::{DirectionProof, PairProof, ProofMethod, ProofResult};

use super::LabelSheet;

/// Both directions, a line for each method.
pub(crate) fn proof(proof: &PairProof, [first, second]: [&str; 2]) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line("");
    sheet.line("proof: one stores a pattern, and the owner of the memory reads it back");
    add(&mut sheet, &proof.forward, [first, second]);
    add(&mut sheet, &proof.backward, [second, first]);
    sheet.0
}

/// One direction.
fn add(sheet: &mut LabelSheet, one: &DirectionProof, [from, to]: [&str; 2]) {
    for method in &one.methods {
        let by = match (method.method, one.result) {
            (ProofMethod::KernelStores, _) => "stores of a kernel",
            (ProofMethod::CopyEngine, ProofResult::Staged) => "the driver, through host memory",
            (ProofMethod::CopyEngine, _) => "its copy engine",
        };
        let arrived = match method.missing {
            0 => format!("all {} blocks of 4 KiB arrived", method.blocks),
            missing => format!("{missing} of {} blocks of 4 KiB did not arrive", method.blocks),
        };
        let rate = method.bytes_per_second;
        sheet.line(format_args!("  {from} -> {to} by {by}: {arrived}; {rate}"));
    }
}
