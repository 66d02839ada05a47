//! Rates by block size that were held out: a table through a few sizes, compared at all others.

use schemars::JsonSchema;
use serde::Serialize;

use super::StudyError;
use super::shape::CurveShape;
use crate::devices::table::Table;

/// A curve and how well a table through a few of its sizes says the rest.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CurveReport {
    /// Its name.
    pub curve: String,
    /// What was measured.
    pub says: String,
    /// Where it was published.
    pub source: String,
    /// Why a table says it no better.
    pub reason: String,
    /// One for each set of sizes that a table was made of.
    pub held: Vec<Held>,
    /// Mean error of each inner point from a table through all others; `None` for fewer than four points.
    pub leave_one_out: Option<f64>,
}

/// What a table through some sizes says of the others.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Held {
    /// Sizes that the table is made of, in KiB.
    pub calibrated: Vec<f64>,
    /// How many sizes were predicted.
    pub predicted: usize,
    /// Mean of the errors, without their sign.
    pub mean: f64,
    /// The largest.
    pub worst: f64,
    /// The same for a line through the first and the last size: `t0 + n / B`.
    pub line: f64,
}

pub(super) fn curve_report(curve: &CurveShape) -> Result<CurveReport, StudyError> {
    let points: Vec<(f64, f64)> = curve.points.iter().map(|&point| curve.timed(point)).collect();
    let fail = |problem| StudyError::Figure { name: curve.id.clone(), problem };
    let mut held = Vec::new();
    for sizes in &curve.calibrated {
        let is_one = |size: f64| sizes.iter().any(|kib| kib * 1024.0 == size);
        let (known, others): (Vec<_>, Vec<_>) =
            points.iter().copied().partition(|&(size, _)| is_one(size));
        if known.len() != sizes.len() || others.is_empty() {
            return Err(fail("a table is made of some of the points"));
        }
        let table =
            Table::measured(known).map_err(|_| fail("sizes and times are numbers above zero"))?;
        let ends = [points[0], points[points.len() - 1]];
        let line =
            Table::measured(ends).map_err(|_| fail("sizes and times are numbers above zero"))?;
        let errors = |table: &Table| -> Vec<f64> {
            others.iter().map(|&point| curve.error(table, point)).collect()
        };
        let found = errors(&table);
        held.push(Held {
            calibrated: sizes.clone(),
            predicted: found.len(),
            mean: mean(&found),
            worst: found.iter().copied().fold(0.0, f64::max),
            line: mean(&errors(&line)),
        });
    }
    Ok(CurveReport {
        curve: curve.id.clone(),
        says: curve.says.clone(),
        source: curve.source.clone(),
        reason: curve.reason.clone(),
        held,
        leave_one_out: leave_one_out(curve, &points),
    })
}

impl CurveShape {
    /// Bytes and seconds of a point.
    fn timed(&self, (kib, rate): (f64, f64)) -> (f64, f64) {
        (kib * 1024.0, kib * 1024.0 / (rate * self.unit.scale()))
    }

    /// By how much the rate of a table is off, without sign; zero within what is printed.
    fn error(&self, table: &Table, (size, time): (f64, f64)) -> f64 {
        let rate = size / time;
        let error = (table.rate(size) / rate - 1.0).abs();
        let printed = self.precision * self.unit.scale() / rate;
        if error <= printed { 0.0 } else { error }
    }
}

fn leave_one_out(curve: &CurveShape, points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 4 {
        return None;
    }
    let errors: Option<Vec<f64>> = (1..points.len() - 1)
        .map(|out| {
            let others = points.iter().enumerate().filter(|&(index, _)| index != out);
            let table = Table::measured(others.map(|(_, &point)| point)).ok()?;
            Some(curve.error(&table, points[out]))
        })
        .collect();
    errors.map(|errors| mean(&errors))
}

#[expect(clippy::cast_precision_loss, reason = "a few points")]
fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}
