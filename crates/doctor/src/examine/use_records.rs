//! Uses and their states as records.

use peerlane_fabric::Fabric;
use peerlane_reach::{JudgedPairs, answers};
use peerlane_results::UseRecord;

/// Reasons in a record, of those that mechanisms have.
const MAX_REASONS: usize = 4;

/// The state of each use, the best first.
pub(super) fn use_records(fabric: &Fabric, judged: &[JudgedPairs]) -> Vec<UseRecord> {
    let all = answers(judged).into_iter();
    all.map(|answer| UseRecord {
        of_use: answer.of_use,
        state: answer.state,
        pairs: answer.pairs as u64,
        of: answer.of as u64,
        because: answer.because[..answer.because.len().min(MAX_REASONS)].join("; "),
        example: [answer.example.1, answer.example.0].map(|id| fabric.device_word(id)),
    })
    .collect()
}
