//! Calibration: from rates measured on a machine to parameters of its drives, with their error.
//!
//! Leaves out the measuring, which a workload of kind `calibrate` does. The one thing to know: a quarter
//! of the rows makes the parameters and the rest only tests them, so that the error in the file is that
//! of predictions.

mod write;

use std::collections::BTreeMap;

use peerlane_results::{Basis, BenchRecord, CaseRecord, Order, WorkloadKind};
use peerlane_units::Bytes;

use crate::devices::drive::{Side, split_throughput};
use crate::devices::table::Table;
use crate::parameters::percentile;

/// Block sizes that a calibration runs: fixed cost, knee, rate.
pub const BLOCKS: [Bytes; 5] =
    [Bytes::kib(4), Bytes::kib(32), Bytes::kib(256), Bytes::mib(1), Bytes::mib(128)];
/// Queue depths that it runs.
pub const DEPTHS: [u32; 3] = [1, 8, 32];
/// Block sizes that it runs in random order: what databases and file systems ask for.
pub const RANDOM_BLOCKS: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(32)];
/// Queue depths that it runs of those.
pub const RANDOM_DEPTHS: [u32; 2] = [1, 32];
/// Mean error of rows held out from which on it is large, as a share: what the model does not have of the drive then
/// weighs more than most differences that it is asked about.
pub const LARGE_ERROR: f64 = 0.2;
/// Cases that are read; a record of more is none of a calibration.
const MOST_CASES: usize = 10_000;

/// Bytes a second of repeats, by block size and depth.
type Rates = BTreeMap<(u64, u32), Vec<f64>>;

/// The same of one direction of a drive, by the order of blocks.
#[derive(Default)]
struct Orders {
    sequential: Rates,
    random: Rates,
}

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
    /// Too little of one direction of a drive.
    #[error("{drive}, {op}: {problem}")]
    Rows {
        /// The drive, as typed.
        drive: String,
        /// `read` or `write`.
        op: &'static str,
        /// What is missing.
        problem: &'static str,
    },
}

/// What was learnt of the drives of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The machine's name.
    pub machine: String,
    /// Whether it was an emulated one, which has semantics and no speed.
    pub is_emulated: bool,
    /// One for each direction of each drive, by name.
    pub sides: Vec<SideCalibration>,
}

/// One direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct SideCalibration {
    /// The drive, as typed in the workload.
    pub drive: String,
    /// Whether it was read or written.
    pub op: Op,
    /// The parameters.
    pub side: Side,
    /// What was measured of blocks one after the other.
    pub rows: Rows,
    /// What was learnt of blocks in random order; `None` where none were measured.
    pub random: Option<RandomCalibration>,
}

/// Blocks in random order, for one direction of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomCalibration {
    /// Commands a second at any depth; predictions take no more than the commands of [`Side`].
    pub commands: f64,
    /// What was measured of them.
    pub rows: Rows,
}

/// What was measured, by what it was used for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// The rows that made parameters.
    pub fitted: Vec<Row>,
    /// The rows that test them.
    pub held_out: Vec<Row>,
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

/// A size and depth, measured and said by the parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Bytes of a block.
    pub block: f64,
    /// Blocks in flight.
    pub depth: f64,
    /// Bytes a second: median of the repeats.
    pub measured: f64,
    /// The slowest repeat.
    pub least: f64,
    /// The fastest repeat.
    pub most: f64,
    /// Bytes a second by the parameters.
    pub predicted: f64,
}

impl Row {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

impl Rows {
    /// Rows with what a drive of these parameters would do; `chosen` made them.
    fn of(rows: &[Row], side: &Side, chosen: &[usize]) -> Self {
        let mut sorted = Self::default();
        for (index, row) in rows.iter().enumerate() {
            let predicted = split_throughput(side, row.block, row.depth, side.latency.end());
            let row = Row { predicted, ..*row };
            let list =
                if chosen.contains(&index) { &mut sorted.fitted } else { &mut sorted.held_out };
            list.push(row);
        }
        sorted
    }

    /// Mean error of the rows that were held out, without sign.
    pub fn mean_error(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let count = self.held_out.len().max(1) as f64;
        self.held_out.iter().map(|row| row.error().abs()).sum::<f64>() / count
    }

    /// Largest of them.
    pub fn worst_error(&self) -> f64 {
        self.held_out.iter().map(|row| row.error().abs()).fold(0.0, f64::max)
    }
}

/// Learns the parameters of each drive that a record read or wrote.
///
/// # Errors
/// When the record is no calibration, is a prediction, or has too few sizes and depths of a drive.
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
    let mut rates: BTreeMap<(String, Op), Orders> = BTreeMap::new();
    for case in &record.cases {
        let Some((drive, op, rate)) = measured(case) else { continue };
        let flow = &case.asked.flows[0];
        let orders = rates.entry((drive, op)).or_default();
        let rates = match flow.order {
            Order::Sequential => &mut orders.sequential,
            Order::Random => &mut orders.random,
        };
        rates.entry((flow.block.0, flow.depth)).or_default().push(rate);
    }
    if rates.is_empty() {
        return Err(CalibrateError::NoDrive);
    }
    let sides = rates
        .into_iter()
        .map(|((drive, op), rates)| side(&drive, op, &rates))
        .collect::<Result<_, _>>()?;
    Ok(Calibration {
        machine: record.machine.name.clone(),
        is_emulated: record.basis == Basis::Emulated,
        sides,
    })
}

/// Drive, direction and rate of a case with one flow between a drive and host memory, or nothing.
fn measured(case: &CaseRecord) -> Option<(String, Op, f64)> {
    let [flow] = case.asked.flows.as_slice() else { return None };
    let is_drive = |name: &str| !matches!(name, "host" | "null");
    let (drive, op) = match (is_drive(&flow.source), is_drive(&flow.target)) {
        (true, false) => (&flow.source, Op::Read),
        (false, true) => (&flow.target, Op::Write),
        _ => return None,
    };
    if flow.block.0 == 0 || flow.depth == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let rate = case.rate().filter(|rate| rate.0 > 0)?.0 as f64;
    Some((drive.clone(), op, rate))
}

fn side(drive: &str, op: Op, orders: &Orders) -> Result<SideCalibration, CalibrateError> {
    let fail = |problem| CalibrateError::Rows { drive: drive.to_owned(), op: op.name(), problem };
    let rows = rows(&orders.sequential);
    let chosen = choose(&rows).ok_or_else(|| {
        fail("needs depth 1 and a larger one at two block sizes at least, and other rows to test with")
    })?;
    let at = |index: usize| rows[index];
    let alone = [at(chosen.small_alone), at(chosen.large_alone)];
    let latency = Table::measured(alone.map(|row| (row.block, row.block / row.measured)))
        .map_err(|_| fail("the times of a block are no numbers"))?;
    let small = at(chosen.small_deep);
    let side = Side {
        latency,
        rate: at(chosen.large_deep).measured,
        commands: small.measured / small.block,
    };
    let random = random(&orders.random, &side).map_err(fail)?;
    let rows = Rows::of(&rows, &side, &chosen.all());
    Ok(SideCalibration { drive: drive.to_owned(), op, side, rows, random })
}

/// Commands a second in random order: those of the smallest block at the greatest depth.
fn random(rates: &Rates, side: &Side) -> Result<Option<RandomCalibration>, &'static str> {
    let rows = rows(rates);
    if rows.is_empty() {
        return Ok(None);
    }
    let Some(chosen) = small_deep(&rows).filter(|_| rows.len() > 1) else {
        return Err("needs a second row in random order to test with");
    };
    let commands = rows[chosen].measured / rows[chosen].block;
    let side = Side { commands: commands.min(side.commands), ..side.clone() };
    Ok(Some(RandomCalibration { commands, rows: Rows::of(&rows, &side, &[chosen]) }))
}

fn rows(rates: &Rates) -> Vec<Row> {
    rates.iter().map(|(&place, rates)| row(place, rates)).collect()
}

fn row((block, depth): (u64, u32), rates: &[f64]) -> Row {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    let at = |share| percentile(&rates, share).unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "a block size")]
    let block = block as f64;
    let (least, measured, most) = (at(0.0), at(0.5), at(1.0));
    Row { block, depth: f64::from(depth), measured, least, most, predicted: 0.0 }
}

/// The rows that make the parameters: four of fifteen for each direction.
struct Chosen {
    small_alone: usize,
    large_alone: usize,
    small_deep: usize,
    large_deep: usize,
}

impl Chosen {
    fn all(&self) -> [usize; 4] {
        [self.small_alone, self.large_alone, self.small_deep, self.large_deep]
    }
}

/// By size and depth only, never by what was measured: the ends of both, and of depth 1 the largest block that
/// one command of a drive still carries (1 MiB), since larger ones are split and overlap.
fn choose(rows: &[Row]) -> Option<Chosen> {
    let deepest = deepest(rows);
    let by_size = |a: &usize, b: &usize| rows[*a].block.total_cmp(&rows[*b].block);
    let of_depth = |depth: f64| (0..rows.len()).filter(move |&index| rows[index].depth == depth);
    let unsplit = |index: &usize| rows[*index].block <= 1_048_576.0;
    let chosen = Chosen {
        small_alone: of_depth(1.0).min_by(by_size)?,
        large_alone: of_depth(1.0).filter(unsplit).max_by(by_size)?,
        small_deep: small_deep(rows)?,
        large_deep: of_depth(deepest).max_by(by_size)?,
    };
    let mut all = chosen.all();
    all.sort_unstable();
    let are_different = all.windows(2).all(|pair| pair[0] != pair[1]);
    (are_different && rows.len() > all.len()).then_some(chosen)
}

fn deepest(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.depth).fold(0.0, f64::max)
}

/// The smallest block at the greatest depth.
fn small_deep(rows: &[Row]) -> Option<usize> {
    let deepest = deepest(rows);
    let of_depth = (0..rows.len()).filter(|&index| rows[index].depth == deepest);
    of_depth.min_by(|&a, &b| rows[a].block.total_cmp(&rows[b].block))
}

#[cfg(test)]
mod tests;
