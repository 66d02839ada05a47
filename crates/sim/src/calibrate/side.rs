//! One direction of a drive out of its rows.

use super::rows::{Rates, Row, Rows, large_deep, rows, small_deep};
use super::{CalibrateError, Kind, Measured, Op};
use crate::devices::drive::{Side, split_throughput};
use crate::devices::table::Table;

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

/// Every direction of every drive.
pub(super) fn sides(measured: &Measured) -> Result<Vec<SideCalibration>, CalibrateError> {
    let none = Rates::new();
    let of = |drive: &str, op, is_random| {
        let kind = Kind::Drive { drive: drive.to_owned(), op, is_random };
        measured.get(&kind).unwrap_or(&none)
    };
    let mut ends: Vec<(&str, Op)> = Vec::new();
    for kind in measured.keys() {
        let Kind::Drive { drive, op, .. } = kind else { continue };
        if !ends.contains(&(drive, *op)) {
            ends.push((drive, *op));
        }
    }
    let each = |(drive, op)| side(drive, op, of(drive, op, false), of(drive, op, true));
    ends.into_iter().map(each).collect()
}

/// That direction of a drive, if it was measured.
pub(super) fn find<'a>(
    sides: &'a [SideCalibration],
    drive: &str,
    op: Op,
) -> Option<&'a SideCalibration> {
    sides.iter().find(|side| side.drive == drive && side.op == op)
}

impl SideCalibration {
    /// Bytes a second of a block at a depth by the parameters.
    pub(super) fn predict(&self, block: f64, depth: f64) -> f64 {
        throughput(&self.side, block, depth)
    }
}

fn throughput(side: &Side, block: f64, depth: f64) -> f64 {
    split_throughput(side, block, depth, side.latency.end())
}

fn side(
    drive: &str,
    op: Op,
    sequential: &Rates,
    in_random_order: &Rates,
) -> Result<SideCalibration, CalibrateError> {
    let fail = |problem| CalibrateError::Rows {
        of: drive.to_owned(),
        what: op.name().to_owned(),
        problem,
    };
    let rows = rows(sequential);
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
    let random = random(in_random_order, &side).map_err(fail)?;
    let rows = Rows::of(&rows, &chosen.all(), |row| throughput(&side, row.block, row.depth));
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
    let rows = Rows::of(&rows, &[chosen], |row| throughput(&side, row.block, row.depth));
    Ok(Some(RandomCalibration { commands, rows }))
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
    let by_size = |a: &usize, b: &usize| rows[*a].block.total_cmp(&rows[*b].block);
    let alone = || (0..rows.len()).filter(|&index| rows[index].depth == 1.0);
    let unsplit = |index: &usize| rows[*index].block <= 1_048_576.0;
    let chosen = Chosen {
        small_alone: alone().min_by(by_size)?,
        large_alone: alone().filter(unsplit).max_by(by_size)?,
        small_deep: small_deep(rows)?,
        large_deep: large_deep(rows)?,
    };
    let mut all = chosen.all();
    all.sort_unstable();
    let are_different = all.windows(2).all(|pair| pair[0] != pair[1]);
    (are_different && rows.len() > all.len()).then_some(chosen)
}
