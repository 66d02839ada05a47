//! The processor out of its rows: what one core copies and maps, and how well that says what goes by the page cache.

use peerlane_results::{BenchRecord, Path};

use super::rows::{Rates, Row, Rows, large_deep, rows};
use super::{CalibrateError, Kind, Measured, Op, SideCalibration, side};
use crate::devices::host::{copies_of_one, fault_cost};
use crate::parameters::percentile;

/// Pages are mapped whole.
const PAGE: f64 = 4096.0;

/// What was learnt of the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostCalibration {
    /// Copies by one core; `None` where none were measured.
    pub copy: Option<CopyCalibration>,
    /// Page faults of maps; `None` where none were measured, or nobody counted them.
    pub fault: Option<FaultCalibration>,
    /// Drives read by way of the page cache: all rows are held out.
    pub cached: Vec<CachedCalibration>,
}

/// Copies from memory to memory.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyCalibration {
    /// Bytes a second that one core copies.
    pub rate: f64,
    /// What was measured.
    pub rows: Rows,
}

/// Page faults of a mapped file that is in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultCalibration {
    /// Bytes that one fault maps.
    pub window: f64,
    /// Seconds of a fault, without the trap into the kernel.
    pub fault: f64,
    /// What was measured.
    pub rows: Rows,
}

/// A drive read by way of the page cache, predicted by its own parameters and the host's.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedCalibration {
    /// The drive, as typed.
    pub drive: String,
    /// `host-page-cache` or `host-mapped`.
    pub path: Path,
    /// What was measured.
    pub rows: Rows,
}

pub(super) fn host(
    record: &BenchRecord,
    measured: &Measured,
    sides: &[SideCalibration],
) -> Result<HostCalibration, CalibrateError> {
    let copy = measured.get(&Kind::Copy).map(copy).transpose()?;
    let fault = measured.get(&Kind::Map).map(|rates| fault(rates, record)).transpose()?.flatten();
    let mut host = HostCalibration { copy, fault, cached: Vec::new() };
    for (kind, rates) in measured {
        let Kind::Cached { drive, path } = kind else { continue };
        let Some(side) = side::find(sides, drive, Op::Read) else { continue };
        let Some(byte) = host.seconds_a_byte(*path) else { continue };
        // One block at a time: the drive waits while the processor works.
        let predict = |row: &Row| 1.0 / (1.0 / side.predict(row.block, 1.0) + byte);
        let rows = Rows::of(&rows(rates), &[], predict);
        host.cached.push(CachedCalibration { drive: drive.clone(), path: *path, rows });
    }
    Ok(host)
}

impl HostCalibration {
    /// What the processor takes for a byte that is read on a path; `None` where that was not measured.
    fn seconds_a_byte(&self, path: Path) -> Option<f64> {
        if path == Path::HostMapped {
            self.fault.as_ref().map(|found| fault_cost(found.window, found.fault))
        } else {
            self.copy.as_ref().map(|found| copies_of_one(path) / found.rate)
        }
    }
}

fn missing(what: &'static str) -> CalibrateError {
    let problem = "needs a second block size to test with";
    CalibrateError::Rows { of: "host".to_owned(), what: what.to_owned(), problem }
}

/// The largest block, which no cache of one core holds, makes the parameter.
fn copy(rates: &Rates) -> Result<CopyCalibration, CalibrateError> {
    let rows = rows(rates);
    let chosen = large_deep(&rows).filter(|_| rows.len() > 1).ok_or_else(|| missing("copies"))?;
    let rate = rows[chosen].measured;
    Ok(CopyCalibration { rate, rows: Rows::of(&rows, &[chosen], |_| rate) })
}

/// The same for maps; the faults of the same row say what one of them maps.
fn fault(rates: &Rates, record: &BenchRecord) -> Result<Option<FaultCalibration>, CalibrateError> {
    let rows = rows(rates);
    let chosen = large_deep(&rows).filter(|_| rows.len() > 1).ok_or_else(|| missing("maps"))?;
    let Some(window) = window(record, rows[chosen].block) else { return Ok(None) };
    let fault = window / rows[chosen].measured;
    let rows = Rows::of(&rows, &[chosen], |_| window / fault);
    Ok(Some(FaultCalibration { window, fault, rows }))
}

/// Bytes that a fault maps, in whole pages: the median of the runs of a block size; `None` where faults were not counted.
fn window(record: &BenchRecord, block: f64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts and sizes below 2^53")]
    let number = |count: u64| count as f64;
    let mut windows: Vec<f64> = record
        .cases
        .iter()
        .filter(|case| {
            let [flow] = case.asked.flows.as_slice() else { return false };
            Kind::of(flow) == Some(Kind::Map) && (number(flow.block.0) - block).abs() < 0.5
        })
        .filter_map(|case| {
            let faults = case.page_faults?;
            let count = number(faults.minor.saturating_add(faults.major));
            (count > 0.0).then(|| number(case.bytes.0) / count)
        })
        .collect();
    windows.sort_by(f64::total_cmp);
    let window = percentile(&windows, 0.5)?;
    Some((window / PAGE).round().max(1.0) * PAGE)
}
