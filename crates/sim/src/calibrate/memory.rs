//! Memory of a device out of what a drive moved to it and from it.
//!
//! Leaves out what several drives would reach together. The one thing to know: where the drive itself was the limit,
//! nothing is known of the memory but that it is no slower, and there is no parameter.

use super::rows::{Row, Rows, large_deep, rows};
use super::side::find;
use super::{CalibrateError, Kind, Measured, Op, SideCalibration};

/// From which share of the drive's own rate on the drive counts as the limit: less than what runs of one thing differ
/// by on a quiet machine.
const AS_FAST: f64 = 0.95;

/// One direction of the memory of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryCalibration {
    /// The memory, as typed.
    pub memory: String,
    /// The drive that was at the other end, as typed.
    pub drive: String,
    /// What the drive did: `Read` writes the memory.
    pub op: Op,
    /// Bytes a second that the memory is written or read at; `None` where the drive was the limit.
    pub rate: Option<f64>,
    /// What was measured.
    pub rows: Rows,
}

impl MemoryCalibration {
    /// What is done to the memory.
    pub fn done(&self) -> &'static str {
        match self.op {
            Op::Read => "write",
            Op::Write => "read",
        }
    }

    /// The way, in words.
    pub fn way(&self) -> String {
        way(self.op, &self.memory)
    }
}

/// What a drive does to a memory, in words.
pub(super) fn way(op: Op, memory: &str) -> String {
    match op {
        Op::Read => format!("read to {memory}"),
        Op::Write => format!("write from {memory}"),
    }
}

pub(super) fn memories(
    measured: &Measured,
    sides: &[SideCalibration],
) -> Result<Vec<MemoryCalibration>, CalibrateError> {
    let mut found: Vec<MemoryCalibration> = Vec::new();
    for (kind, rates) in measured {
        let Kind::Memory { memory, drive, op } = kind else { continue };
        let mut of = MemoryCalibration {
            memory: memory.clone(),
            drive: drive.clone(),
            op: *op,
            rate: None,
            rows: Rows::default(),
        };
        let fail = |of: &MemoryCalibration, problem| CalibrateError::Rows {
            of: of.drive.clone(),
            what: of.way(),
            problem,
        };
        let Some(side) = find(sides, drive, *op) else {
            return Err(fail(&of, "needs the same drive against host memory"));
        };
        let rows = rows(rates);
        let Some(chosen) = large_deep(&rows).filter(|_| rows.len() > 1) else {
            return Err(fail(&of, "needs a second row to test with"));
        };
        let Row { block, depth, measured, most, .. } = rows[chosen];
        let is_drives = most >= AS_FAST * least_by_host(side, block, depth);
        of.rate = (!is_drives).then_some(measured);
        let bound = of.rate.unwrap_or(f64::INFINITY);
        of.rows = Rows::of(&rows, &[chosen], |row| side.predict(row.block, row.depth).min(bound));
        found.push(of);
    }
    keep_fastest(&mut found);
    Ok(found)
}

/// The slowest run of the same block and depth by host memory; by the parameters where there is none.
fn least_by_host(side: &SideCalibration, block: f64, depth: f64) -> f64 {
    let all = side.rows.fitted.iter().chain(&side.rows.held_out);
    let is_it = |row: &&Row| (row.block - block).abs() < 0.5 && (row.depth - depth).abs() < 0.5;
    all.clone().find(is_it).map_or_else(|| side.predict(block, depth), |row| row.least)
}

/// Of several drives the fastest says most of a memory.
fn keep_fastest(found: &mut [MemoryCalibration]) {
    for index in 0..found.len() {
        let MemoryCalibration { memory, op, rate, .. } = &found[index];
        let is_faster = |(other, one): (usize, &MemoryCalibration)| {
            (&one.memory, one.op) == (memory, *op) && (one.rate, other) > (*rate, index)
        };
        if found.iter().enumerate().any(is_faster) {
            found[index].rate = None;
        }
    }
}
