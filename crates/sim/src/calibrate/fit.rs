//! Fit of one direction of a drive: a table of latencies, a rate, and commands a second.

use super::DriveOp;
use super::rows::{RateRow, Rates, Rows, rows};
use crate::devices::drive::{DriveSide, split_throughput};
use crate::devices::table::SizeTable;

/// Largest block that a drive takes as one command. Larger ones are split and overlap.
const MAX_UNSPLIT: f64 = 1_048_576.0;

/// One direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct SideCalibration {
    /// The drive, as typed in the workload.
    pub drive: String,
    /// The direction.
    pub op: DriveOp,
    /// The parameters.
    pub side: DriveSide,
    /// Rows in sequential order.
    pub rows: Rows,
    /// Blocks in random order; `None` where none were measured.
    pub random: Option<RandomCalibration>,
}

/// Blocks in random order, for one direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomCalibration {
    /// Commands a second at any depth; predictions take no more than the commands of `DriveSide`.
    pub commands: f64,
    /// Rows in random order.
    pub rows: Rows,
}

/// Fits one direction: start-up cost and slope from depth 1, rate and commands from the greatest depth.
///
/// # Errors
/// When rows are missing.
pub(super) fn fit(
    drive: &str,
    op: DriveOp,
    sequential: &Rates,
    random: &Rates,
) -> Result<SideCalibration, &'static str> {
    let measured = rows(sequential);
    let chosen = choose(&measured).ok_or(
        "needs depth 1 and a larger one at two block sizes at least, and other rows to test with",
    )?;
    let [small_alone, large_alone, small_deep, large_deep] = chosen.map(|at| measured[at]);
    let time = |row: RateRow| (row.block, row.block / row.measured);
    let latency = SizeTable::measured([time(small_alone), time(large_alone)])
        .map_err(|_| "has times that are not numbers")?;
    let (rate, commands) = (large_deep.measured, small_deep.measured / small_deep.block);
    let side = DriveSide { latency, rate, commands };
    let random = fit_random(random, &side)?;
    let rows = Rows::split(&measured, &chosen, |row| throughput(&side, row));
    Ok(SideCalibration { drive: drive.to_owned(), op, side, rows, random })
}

/// Commands a second in random order: those of the smallest block at the greatest depth.
fn fit_random(rates: &Rates, side: &DriveSide) -> Result<Option<RandomCalibration>, &'static str> {
    let measured = rows(rates);
    let Some(&chosen) = deepest(&measured).first() else { return Ok(None) };
    if measured.len() == 1 {
        return Err("needs a second row in random order to test with");
    }
    let commands = measured[chosen].measured / measured[chosen].block;
    let side = DriveSide { commands: commands.min(side.commands), ..side.clone() };
    let rows = Rows::split(&measured, &[chosen], |row| throughput(&side, row));
    Ok(Some(RandomCalibration { commands, rows }))
}

fn throughput(side: &DriveSide, row: &RateRow) -> f64 {
    split_throughput(side, row.block, row.depth, side.latency.end())
}

/// Positions of the fitted rows: the smallest and the largest unsplit block at depth 1, the smallest and the largest
/// block at the greatest depth; `None` where they coincide or leave no row to test with.
fn choose(rows: &[RateRow]) -> Option<[usize; 4]> {
    let alone: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].depth == 1.0).collect();
    let unsplit = alone.iter().rev().find(|&&at| rows[at].block <= MAX_UNSPLIT);
    let deep = deepest(rows);
    let chosen = [*alone.first()?, *unsplit?, *deep.first()?, *deep.last()?];
    let are_different = (1..4).all(|at| !chosen[..at].contains(&chosen[at]));
    (are_different && rows.len() > chosen.len()).then_some(chosen)
}

/// Positions of the rows at the greatest depth, by block size.
fn deepest(rows: &[RateRow]) -> Vec<usize> {
    let depth = rows.iter().map(|row| row.depth).fold(0.0, f64::max);
    (0..rows.len()).filter(|&at| rows[at].depth == depth).collect()
}
