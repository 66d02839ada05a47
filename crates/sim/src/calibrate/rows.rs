//! Rows of a calibration: what was measured of a size at a depth, and what the parameters say of it.

use std::collections::BTreeMap;

use crate::parameters::percentile;

/// Bytes a second of repeats, by block size and depth.
pub(super) type Rates = BTreeMap<(u64, u32), Vec<f64>>;

/// What was measured, by what it was used for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// The rows that made parameters.
    pub fitted: Vec<Row>,
    /// The rows that test them.
    pub held_out: Vec<Row>,
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
    /// Rows with what is predicted of each; `chosen` made the parameters.
    pub(super) fn of(rows: &[Row], chosen: &[usize], predict: impl Fn(&Row) -> f64) -> Self {
        let mut sorted = Self::default();
        for (index, row) in rows.iter().enumerate() {
            let row = Row { predicted: predict(row), ..*row };
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

/// What was measured, without predictions.
pub(super) fn rows(rates: &Rates) -> Vec<Row> {
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

fn deepest(rows: &[Row]) -> impl Iterator<Item = usize> {
    let deepest = rows.iter().map(|row| row.depth).fold(0.0, f64::max);
    (0..rows.len()).filter(move |&index| rows[index].depth == deepest)
}

/// The smallest block at the greatest depth.
pub(super) fn small_deep(rows: &[Row]) -> Option<usize> {
    deepest(rows).min_by(|&a, &b| rows[a].block.total_cmp(&rows[b].block))
}

/// The largest block at the greatest depth.
pub(super) fn large_deep(rows: &[Row]) -> Option<usize> {
    deepest(rows).max_by(|&a, &b| rows[a].block.total_cmp(&rows[b].block))
}
