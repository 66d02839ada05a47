//! Rates by block size, held out: a table through a few sizes, compared at all others.

use schemars::JsonSchema;
use serde::Serialize;

use super::StudyError;
use super::shape::CurveShape;
use crate::devices::table::SizeTable;

/// A curve, and the errors of tables through a few of its sizes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CurveReport {
    /// Its name.
    pub curve: String,
    /// The measurement.
    pub says: String,
    /// Its publication.
    pub source: String,
    /// Reason for the error that remains.
    pub reason: String,
    /// One for each set of sizes that a table was made of.
    pub held: Vec<Held>,
    /// Mean error of each inner point from a table through all others.
    pub leave_one_out: f64,
}

/// Errors of a table through some sizes at the others.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Held {
    /// Sizes that the table is made of, in KiB.
    pub calibrated: Vec<f64>,
    /// Number of the others.
    pub predicted: usize,
    /// Mean of the errors, without their sign.
    pub mean: f64,
    /// The largest.
    pub worst: f64,
    /// Mean error of a line through the first and the last size: `t0 + n / B`.
    pub line: f64,
}

pub(super) fn curve_report(curve: &CurveShape) -> Result<CurveReport, StudyError> {
    let fail = |problem| StudyError::new(&curve.id, problem);
    // Bytes and seconds.
    let timed =
        |&(kib, rate): &(f64, f64)| (kib * 1024.0, kib * 1024.0 / (rate * curve.unit.scale()));
    let points: Vec<(f64, f64)> = curve.points.iter().map(timed).collect();
    let [first, inner @ .., last] = &points[..] else {
        return Err(fail("a curve has two points at least"));
    };
    // Errors of a table through some points at others.
    let errors = |known: Vec<(f64, f64)>, others: &[(f64, f64)]| -> Result<Vec<f64>, StudyError> {
        let table =
            SizeTable::measured(known).map_err(|_| fail("sizes and times are above zero"))?;
        Ok(others.iter().map(|&point| curve.error(&table, point)).collect())
    };
    let held = |sizes: &Vec<f64>| {
        let is_known = |&(size, _): &(f64, f64)| sizes.iter().any(|kib| kib * 1024.0 == size);
        let (known, others): (Vec<_>, Vec<_>) = points.iter().copied().partition(is_known);
        if known.len() != sizes.len() || others.is_empty() {
            return Err(fail("a table is made of some of the points"));
        }
        let found = errors(known, &others)?;
        Ok(Held {
            calibrated: sizes.clone(),
            predicted: found.len(),
            mean: mean(&found),
            worst: found.iter().copied().fold(0.0, f64::max),
            line: mean(&errors(vec![*first, *last], &others)?),
        })
    };
    let left_out = |point: &(f64, f64)| {
        let others = points.iter().copied().filter(|other| other != point).collect();
        Ok(mean(&errors(others, &[*point])?))
    };
    let left_out = inner.iter().map(left_out).collect::<Result<Vec<f64>, StudyError>>()?;
    Ok(CurveReport {
        curve: curve.id.clone(),
        says: curve.says.clone(),
        source: curve.source.clone(),
        reason: curve.reason.clone(),
        held: curve.calibrated.iter().map(held).collect::<Result<_, _>>()?,
        leave_one_out: mean(&left_out),
    })
}

impl CurveShape {
    /// Error of the rate of a table, without sign; zero within the printed digits.
    fn error(&self, table: &SizeTable, (size, time): (f64, f64)) -> f64 {
        let rate = size / time;
        let error = (table.rate(size) / rate - 1.0).abs();
        let printed = self.precision * self.unit.scale() / rate;
        if error <= printed { 0.0 } else { error }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few points")]
fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}
