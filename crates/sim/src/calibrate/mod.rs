//! Calibration: from rates measured on a machine to parameters of its drives, its processor and the memories of its
//! devices, with their error.
//!
//! Leaves out the measuring, which a workload of kind `calibrate` does. The one thing to know: a quarter
//! of the rows makes the parameters and the rest only tests them, so that the error in the file is that
//! of predictions.

mod host;
mod memory;
mod rows;
mod side;
mod traffic;
mod write;

use std::collections::BTreeMap;

use peerlane_results::{
    Basis, BenchRecord, CaseRecord, DevicePackets, Flow, Order, Path, Warning, WorkloadKind,
};
use peerlane_units::Bytes;

use crate::predict::memory_of;
pub use host::{CachedCalibration, CopyCalibration, FaultCalibration, HostCalibration};
pub use memory::MemoryCalibration;
use rows::Rates;
pub use rows::{Row, Rows};
pub use side::{RandomCalibration, SideCalibration};
pub use traffic::{TrafficCalibration, TrafficRow};

/// Block sizes that a calibration runs: fixed cost, knee, rate.
pub const BLOCKS: [Bytes; 5] =
    [Bytes::kib(4), Bytes::kib(32), Bytes::kib(256), Bytes::mib(1), Bytes::mib(128)];
/// Queue depths that it runs.
pub const DEPTHS: [u32; 3] = [1, 8, 32];
/// Block sizes that it runs in random order: what databases and file systems ask for.
pub const RANDOM_BLOCKS: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(32)];
/// Queue depths that it runs of those.
pub const RANDOM_DEPTHS: [u32; 2] = [1, 32];
/// Block sizes of copies and maps by one core: below its caches, beyond those of a core, beyond those of most processors.
pub const HOST_BLOCKS: [Bytes; 3] = [Bytes::kib(64), Bytes::mib(1), Bytes::mib(16)];
/// Bytes that are copied or mapped in turn: with as many where they go, more than the caches of processors hold.
pub const HOST_RANGE: Bytes = Bytes::mib(256);
/// Block sizes that are read by way of the page cache.
pub const CACHED_BLOCKS: [Bytes; 2] = [Bytes::kib(256), Bytes::mib(1)];
/// Block sizes between the drive and memory of a device.
pub const MEMORY_BLOCKS: [Bytes; 3] = [Bytes::kib(4), Bytes::kib(256), Bytes::mib(1)];
/// Queue depths of those.
pub const MEMORY_DEPTHS: [u32; 2] = [1, 32];
/// Mean error of rows held out from which on it is large, as a share: what the model does not have of the drive then
/// weighs more than most differences that it is asked about.
pub const LARGE_ERROR: f64 = 0.2;
/// Cases that are read; a record of more is none of a calibration.
const MOST_CASES: usize = 10_000;

/// Why a record makes no calibration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalibrateError {
    /// Another kind of workload.
    #[error(
        "cannot calibrate with a workload of kind {0}: it lacks the sizes and depths that are needed"
    )]
    Kind(WorkloadKind),
    /// What the model said cannot teach it.
    #[error("cannot calibrate the model with predictions of the model")]
    Predicted,
    /// More cases than a calibration has.
    #[error("cannot use {0} cases: a calibration has at most {MOST_CASES}")]
    TooMany(usize),
    /// No drive against host memory or nothing.
    #[error("no case reads or writes a single drive")]
    NoDrive,
    /// Too little of one direction of a drive, of the host, or of a memory.
    #[error("{of}, {what}: {problem}")]
    Rows {
        /// The drive or the memory, as typed, or `host`.
        of: String,
        /// What was done.
        what: String,
        /// What is missing.
        problem: &'static str,
    },
}

/// What was learnt of a machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// The machine's name.
    pub machine: String,
    /// Whether it was an emulated one, which has semantics and no speed.
    pub is_emulated: bool,
    /// One for each direction of each drive, by name.
    pub sides: Vec<SideCalibration>,
    /// The processor, and what goes by the page cache.
    pub host: HostCalibration,
    /// One for each direction of each memory of a device, by name.
    pub memories: Vec<MemoryCalibration>,
    /// What configuration spaces say.
    pub packets: Vec<DevicePackets>,
    /// Host-memory traffic beside what the model says of it.
    pub traffic: TrafficCalibration,
}

/// What a drive did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// It was read.
    Read,
    /// It was written.
    Write,
}

impl Op {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a case measures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A drive against host memory or nothing.
    Drive { drive: String, op: Op, is_random: bool },
    /// Copies by one core.
    Copy,
    /// Maps of a file in memory.
    Map,
    /// A drive read by way of the page cache, or out of a map.
    Cached { drive: String, path: Path },
    /// A drive against memory of a device.
    Memory { memory: String, drive: String, op: Op },
}

impl Kind {
    /// What a flow measures; `None` where it is nothing that makes a parameter or tests one.
    fn of(flow: &Flow) -> Option<Self> {
        let is_host = |name: &str| matches!(name, "host" | "null");
        let is_memory = |name: &str| memory_of(name).is_some();
        let (source, target) = (flow.source.as_str(), flow.target.as_str());
        let is_random = flow.order == Order::Random;
        Some(match (is_host(source), is_host(target), flow.path) {
            (true, true, Path::HostPipelined) => Self::Copy,
            (true, true, Path::HostMapped) => Self::Map,
            (true, true, _) => return None,
            (false, true, path @ (Path::HostPageCache | Path::HostMapped)) => {
                Self::Cached { drive: source.to_owned(), path }
            }
            (false, true, _) => Self::Drive { drive: source.to_owned(), op: Op::Read, is_random },
            (true, false, _) => Self::Drive { drive: target.to_owned(), op: Op::Write, is_random },
            (false, false, Path::P2p) => match (is_memory(source), is_memory(target)) {
                (false, true) => Self::memory(target, source, Op::Read),
                (true, false) => Self::memory(source, target, Op::Write),
                _ => return None,
            },
            (false, false, _) => return None,
        })
    }

    fn memory(memory: &str, drive: &str, op: Op) -> Self {
        Self::Memory { memory: memory.to_owned(), drive: drive.to_owned(), op }
    }
}

/// Everything that was measured, by what it measures.
type Measured = BTreeMap<Kind, Rates>;

/// Learns the parameters of what a record measured.
///
/// # Errors
/// When the record is no calibration, is a prediction, or has too few sizes and depths of something.
pub fn calibrate(record: &BenchRecord) -> Result<Calibration, CalibrateError> {
    if record.asked.kind != WorkloadKind::Calibrate {
        return Err(CalibrateError::Kind(record.asked.kind));
    }
    if record.basis == Basis::Predicted {
        return Err(CalibrateError::Predicted);
    }
    if record.cases.len() > MOST_CASES {
        return Err(CalibrateError::TooMany(record.cases.len()));
    }
    let mut measured = Measured::new();
    for case in &record.cases {
        let Some((kind, place, rate)) = row_of(case) else { continue };
        measured.entry(kind).or_default().entry(place).or_default().push(rate);
    }
    let sides = side::sides(&measured)?;
    if sides.is_empty() {
        return Err(CalibrateError::NoDrive);
    }
    Ok(Calibration {
        machine: record.machine.name.clone(),
        is_emulated: record.basis == Basis::Emulated,
        host: host::host(record, &measured, &sides)?,
        memories: memory::memories(&measured, &sides)?,
        packets: record.packets.clone(),
        traffic: traffic::traffic(record),
        sides,
    })
}

/// What a case of one flow measures, its block size and depth, and its rate.
fn row_of(case: &CaseRecord) -> Option<(Kind, (u64, u32), f64)> {
    let [flow] = case.asked.flows.as_slice() else { return None };
    let kind = Kind::of(flow)?;
    if flow.block.0 == 0 || flow.depth == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let rate = case.rate().filter(|rate| rate.0 > 0)?.0 as f64;
    Some((kind, (flow.block.0, depth_of(case, flow)), rate))
}

/// Blocks that were in flight: fewer than were asked for where a memory has no room for them.
fn depth_of(case: &CaseRecord, flow: &Flow) -> u32 {
    let reduced = case.warnings.iter().find_map(|warning| match *warning {
        Warning::DepthReduced { asked, slots } if asked > 0 => Some((asked, slots)),
        _ => None,
    });
    let Some((asked, slots)) = reduced else { return flow.depth };
    // A block may be several requests.
    let depth = u64::from(flow.depth) * u64::from(slots) / u64::from(asked);
    u32::try_from(depth).unwrap_or(flow.depth).max(1)
}

#[cfg(test)]
mod other_tests;
#[cfg(test)]
mod tests;
