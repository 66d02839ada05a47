//! Rows of a calibration: measured and predicted rates by block size and depth.

use std::collections::BTreeMap;

use super::LARGE_ERROR;
use crate::parameters::percentile;

/// Bytes a second of repeats, by block size and depth.
pub(super) type Rates = BTreeMap<(u64, u32), Vec<f64>>;

/// Rows by their use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Rows that determine parameters.
    pub fitted: Vec<RateRow>,
    /// Rows that test them.
    pub held_out: Vec<RateRow>,
}

/// Rates of one block size at one depth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateRow {
    /// Bytes of a block.
    pub block: f64,
    /// Blocks in flight.
    pub depth: f64,
    /// Bytes a second: median of the repeats.
    pub measured: f64,
    /// Bytes a second of the slowest repeat.
    pub least: f64,
    /// Bytes a second of the fastest repeat.
    pub most: f64,
    /// Bytes a second by the parameters.
    pub predicted: f64,
}

impl RateRow {
    /// Relative error of the prediction.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

impl Rows {
    /// Splits rows into fitted ones, by position, and held-out ones, with the rate that is predicted for each.
    pub(super) fn split(
        rows: &[RateRow],
        fitted: &[usize],
        predict: impl Fn(&RateRow) -> f64,
    ) -> Self {
        let mut split = Self::default();
        for (position, row) in rows.iter().enumerate() {
            let is_fitted = fitted.contains(&position);
            let list = if is_fitted { &mut split.fitted } else { &mut split.held_out };
            list.push(RateRow { predicted: predict(row), ..*row });
        }
        split
    }

    /// Mean absolute error of the held-out rows.
    pub fn mean_error(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let count = self.held_out.len().max(1) as f64;
        self.held_out.iter().map(|row| row.error().abs()).sum::<f64>() / count
    }

    /// Largest absolute error of the held-out rows.
    pub fn worst_error(&self) -> f64 {
        self.held_out.iter().map(|row| row.error().abs()).fold(0.0, f64::max)
    }

    /// Held-out rows that the model does not fit, by [`LARGE_ERROR`].
    pub fn misfits(&self) -> impl Iterator<Item = &RateRow> {
        self.held_out.iter().filter(|row| row.error().abs() >= LARGE_ERROR)
    }
}

/// Median and range of the repeats, by block size, then depth.
pub(super) fn rows(rates: &Rates) -> Vec<RateRow> {
    let row = |(&(block, depth), rates): (&(u64, u32), &Vec<f64>)| {
        let mut rates = rates.clone();
        rates.sort_by(f64::total_cmp);
        let at = |share| percentile(&rates, share).unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a block size")]
        let block = block as f64;
        let (least, measured, most) = (at(0.0), at(0.5), at(1.0));
        RateRow { block, depth: f64::from(depth), measured, least, most, predicted: 0.0 }
    };
    rates.iter().map(row).collect()
}
