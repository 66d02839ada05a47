//! Uses and their states as records.

use peerlane_fabric::Fabric;
use peerlane_reach::{JudgedPairs, Use, answers};
use peerlane_results::{self as results, UseRecord};

use crate::verdict::state_record;

/// Reasons in a record, of those that mechanisms have.
const MAX_REASONS: usize = 4;

/// The state of each use, the best first.
pub(super) fn use_records(fabric: &Fabric, judged: &[JudgedPairs]) -> Vec<UseRecord> {
    let all = answers(judged).into_iter();
    all.map(|answer| UseRecord {
        of_use: use_record(answer.of_use),
        state: state_record(answer.state),
        pairs: answer.pairs as u64,
        of: answer.of as u64,
        because: answer.because[..answer.because.len().min(MAX_REASONS)].join("; "),
        example: [answer.example.1, answer.example.0].map(|id| fabric.device_word(id)),
    })
    .collect()
}

/// The word for a use in records.
pub fn use_record(of_use: Use) -> results::Use {
    match of_use {
        Use::StorageToGpu => results::Use::StorageGpu,
        Use::NetworkToGpu => results::Use::NetworkGpu,
        Use::GpuToGpu => results::Use::GpuGpu,
        Use::DriveToDrive => results::Use::DriveDrive,
        Use::NetworkToDrive => results::Use::NetworkDrive,
        Use::StorageToFpga => results::Use::StorageFpga,
    }
}
