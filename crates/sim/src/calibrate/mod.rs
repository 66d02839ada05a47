//! Calibration: parameters of drives from measured rates, with their error.
//!
//! The input is the record of a workload of kind `calibrate`: the rates of a drive by block size and queue depth. Four
//! rows of each direction determine its parameters. The other rows are held out, so that their error is that of
//! predictions. Sizes and depths alone decide which rows these are.

mod file;
mod fit;
mod rows;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use peerlane_results::{
    Basis, BenchRecord, CaseRecord, DevicePackets, Flow, Order, Path, WorkloadKind,
};
use peerlane_units::Bytes;

pub use fit::{RandomCalibration, SideCalibration};
use rows::Rates;
pub use rows::{RateRow, Rows};

/// Block sizes in sequential order: fixed cost, knee, rate.
pub const BLOCKS: [Bytes; 5] =
    [Bytes::kib(4), Bytes::kib(32), Bytes::kib(256), Bytes::mib(1), Bytes::mib(128)];
/// Queue depths in sequential order.
pub const DEPTHS: [u32; 3] = [1, 8, 32];
/// Block sizes in random order, typical of databases and file systems.
pub const RANDOM_BLOCKS: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(32)];
/// Queue depths in random order.
pub const RANDOM_DEPTHS: [u32; 2] = [1, 32];
/// Error, as a share, from which the model does not fit a held-out row, or in the mean a drive.
pub const LARGE_ERROR: f64 = 0.2;
/// Most cases of a calibration.
const MAX_CASES: usize = 10_000;

/// Reasons why a record cannot be used for calibration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalibrateError {
    /// Another kind of workload.
    #[error("a workload of kind {0} lacks the sizes and depths of a calibration")]
    Kind(WorkloadKind),
    /// A record of predictions.
    #[error("cannot calibrate the model with its own predictions")]
    Predicted,
    /// More cases than a calibration has.
    #[error("the record has {0} cases; a calibration has at most {MAX_CASES}")]
    TooMany(usize),
    /// No transfer between a drive and host memory.
    #[error("no case reads or writes a single drive")]
    NoDrive,
    /// Rows of one direction of a drive that do not determine its parameters.
    #[error("{drive}, {}: {problem}", .op.name())]
    Rows {
        /// The drive, as typed.
        drive: String,
        /// The direction.
        op: DriveOp,
        /// The missing rows.
        problem: &'static str,
    },
}

/// Parameters of the drives of a machine, with their errors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// The machine's name.
    pub machine: String,
    /// True for an emulated machine, whose speed means nothing.
    pub is_emulated: bool,
    /// Each direction of each drive, by name.
    pub sides: Vec<SideCalibration>,
    /// Packet sizes and tags from configuration space.
    pub packets: Vec<DevicePackets>,
}

/// Direction of a transfer, as the drive carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveOp {
    /// The drive is read.
    Read,
    /// The drive is written.
    Write,
}

impl DriveOp {
    /// The printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Fits the parameters of every drive in a record.
///
/// # Errors
/// When the record is not a measured calibration, or lacks sizes or depths of a drive.
pub fn calibrate(record: &BenchRecord) -> Result<Calibration, CalibrateError> {
    if record.asked.kind != WorkloadKind::Calibrate {
        return Err(CalibrateError::Kind(record.asked.kind));
    }
    if record.basis == Basis::Predicted {
        return Err(CalibrateError::Predicted);
    }
    if record.cases.len() > MAX_CASES {
        return Err(CalibrateError::TooMany(record.cases.len()));
    }
    let mut measured: BTreeMap<(String, DriveOp), [Rates; 2]> = BTreeMap::new();
    for case in &record.cases {
        let Some((flow, drive, op, rate)) = measurement(case) else { continue };
        let [sequential, random] = measured.entry((drive.to_owned(), op)).or_default();
        let rates = if flow.order == Order::Random { random } else { sequential };
        rates.entry((flow.block.0, flow.depth)).or_default().push(rate);
    }
    if measured.is_empty() {
        return Err(CalibrateError::NoDrive);
    }
    let sides = measured.into_iter().map(|((drive, op), [sequential, random])| {
        fit::fit(&drive, op, &sequential, &random).map_err(|problem| CalibrateError::Rows {
            drive,
            op,
            problem,
        })
    });
    Ok(Calibration {
        machine: record.machine.name.clone(),
        is_emulated: record.basis == Basis::Emulated,
        sides: sides.collect::<Result<_, _>>()?,
        packets: record.packets.clone(),
    })
}

/// The only flow of a case, its drive, direction and bytes a second; `None` unless it joins one drive and host memory
/// by direct I/O.
fn measurement(case: &CaseRecord) -> Option<(&Flow, &str, DriveOp, f64)> {
    let [flow] = case.asked.flows.as_slice() else { return None };
    if matches!(flow.path, Path::HostPageCache | Path::HostMapped) {
        return None;
    }
    let is_host = |name: &str| matches!(name, "host" | "null");
    let (drive, op) = match (is_host(&flow.source), is_host(&flow.target)) {
        (false, true) => (flow.source.as_str(), DriveOp::Read),
        (true, false) => (flow.target.as_str(), DriveOp::Write),
        _ => return None,
    };
    if flow.block.0 == 0 || flow.depth == 0 || flow.stage.is_some() {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let rate = case.rate().filter(|rate| rate.0 > 0)?.0 as f64;
    Some((flow, drive, op, rate))
}
