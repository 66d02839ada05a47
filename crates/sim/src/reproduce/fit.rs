//! Fits: parameters that make figures come out, found anew on every run.
//!
//! Leaves out robust fits and priors: there are never more than a few rows. The one thing to know: with as
//! many rows as parameters a fit always succeeds and proves nothing, and is labelled so.

/// What is minimised: for each row, the logarithm of predicted over stated.
pub(super) type Residuals<'a> = dyn Fn(&[f64]) -> Option<Vec<f64>> + 'a;

/// Rounds of Gauss and Newton; five suffice for a power law, which all of these are nearly.
const ROUNDS: usize = 60;
/// Sixteenths of powers of two around the start: closer together than most errors before a fit.
const SCAN: std::ops::RangeInclusive<i32> = -192..=192;
/// Step of the numerical derivative, in logarithms.
const STEP: f64 = 1e-5;

/// Where a fit begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Far from the solution.
    Wide,
    /// At the solution of a neighbour.
    Near,
}

/// Parameters that minimise the sum of squares of `residuals`, from `start` on; all of them are above zero, and
/// steps are taken in logarithms. `None` where a residual is no number at the start.
pub(super) fn least_squares(
    start: &[f64],
    residuals: &Residuals,
    search: Search,
) -> Option<Vec<f64>> {
    let mut best = match search {
        Search::Wide => near(start, residuals)?,
        Search::Near => start.to_vec(),
    };
    let mut found = residuals(&best)?;
    let mut damping = 1e-6;
    for _ in 0..ROUNDS {
        let Some(jacobian) = jacobian(&best, &found, residuals) else { break };
        let Some(step) = step(&jacobian, &found, damping) else { break };
        let next: Vec<f64> = best
            .iter()
            .zip(&step)
            .map(|(value, step)| value * step.clamp(-2.0, 2.0).exp())
            .collect();
        match residuals(&next).filter(|next| sum(next) <= sum(&found)) {
            Some(lower) => {
                let gain = sum(&found) - sum(&lower);
                (best, found, damping) = (next, lower, (damping / 10.0).max(1e-12));
                if gain <= 1e-18 {
                    break;
                }
            }
            None => damping = f64::max(damping, 1e-6) * 10.0,
        }
    }
    Some(best)
}

/// The best of a coarse scan, one parameter after the other: a ceiling that nothing reaches has no derivative
/// to follow.
fn near(start: &[f64], residuals: &Residuals) -> Option<Vec<f64>> {
    let mut best = start.to_vec();
    let mut lowest = sum(&residuals(&best)?);
    for index in 0..start.len() {
        for power in SCAN {
            let mut moved = best.clone();
            moved[index] = start[index] * f64::powf(2.0, f64::from(power) / 16.0);
            let found = residuals(&moved).map(|found| sum(&found));
            if let Some(found) = found.filter(|&found| found < lowest) {
                (best, lowest) = (moved, found);
            }
        }
    }
    Some(best)
}

/// Standard errors of the logarithms of the parameters; `None` without a degree of freedom.
pub(super) fn standard_errors(values: &[f64], residuals: &Residuals) -> Option<Vec<f64>> {
    let found = residuals(values)?;
    let free = found.len().checked_sub(values.len()).filter(|&free| free > 0)?;
    let jacobian = jacobian(values, &found, residuals)?;
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let variance = sum(&found) / free as f64;
    let count = values.len();
    (0..count)
        .map(|index| {
            let mut unit = vec![0.0; count];
            unit[index] = 1.0;
            let column = solve(normal(&jacobian, 0.0), unit)?;
            Some((column[index] * variance).sqrt())
        })
        .collect()
}

fn sum(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

/// Row by row, the derivative of each residual by each logarithm.
fn jacobian(values: &[f64], at: &[f64], residuals: &Residuals) -> Option<Vec<Vec<f64>>> {
    let mut rows = vec![vec![0.0; values.len()]; at.len()];
    for index in 0..values.len() {
        let mut moved = values.to_vec();
        moved[index] *= STEP.exp();
        let moved = residuals(&moved)?;
        for (row, (after, before)) in rows.iter_mut().zip(moved.iter().zip(at)) {
            row[index] = (after - before) / STEP;
        }
    }
    Some(rows)
}

fn normal(jacobian: &[Vec<f64>], damping: f64) -> Vec<Vec<f64>> {
    let count = jacobian.first().map_or(0, Vec::len);
    let entry = |i: usize, j: usize| {
        let sum: f64 = jacobian.iter().map(|row| row[i] * row[j]).sum();
        if i == j { sum * (1.0 + damping) } else { sum }
    };
    (0..count).map(|i| (0..count).map(|j| entry(i, j)).collect()).collect()
}

fn step(jacobian: &[Vec<f64>], residuals: &[f64], damping: f64) -> Option<Vec<f64>> {
    let count = jacobian.first().map_or(0, Vec::len);
    let right = (0..count)
        .map(|i| {
            -jacobian.iter().zip(residuals).map(|(row, residual)| row[i] * residual).sum::<f64>()
        })
        .collect();
    solve(normal(jacobian, damping), right)
}

/// Elimination with the largest pivot; `None` for a matrix that has none.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let count = right.len();
    for column in 0..count {
        let pivot = (column..count)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-300 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..count {
            let factor = matrix[row][column] / matrix[column][column];
            let (upper, lower) = matrix.split_at_mut(row);
            for (below, above) in lower[0].iter_mut().zip(&upper[column]).skip(column) {
                *below -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right.iter().all(|value| value.is_finite()).then_some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_found_again() {
        let points = [(1.0_f64, 3.0), (2.0, 3.0 * 2.0_f64.powf(0.5)), (9.0, 9.0)];
        let law = |values: &[f64]| -> Option<Vec<f64>> {
            let log = |x: f64, y: f64| (values[0] * x.powf(values[1]) / y).ln();
            Some(points.iter().map(|&(x, y)| log(x, y)).collect())
        };
        let found = least_squares(&[1.0, 1.0], &law, Search::Wide).expect("a fit");
        assert!((found[0] - 3.0).abs() < 1e-6 && (found[1] - 0.5).abs() < 1e-6, "{found:?}");
        let errors = standard_errors(&found, &law).expect("one degree of freedom");
        assert!(errors.iter().all(|&error| error < 1e-6));
    }

    #[test]
    fn as_many_parameters_as_rows_leave_no_error() {
        let law = |values: &[f64]| -> Option<Vec<f64>> { Some(vec![(values[0] / 7.0).ln()]) };
        let found = least_squares(&[1.0], &law, Search::Wide).expect("a fit");
        assert!((found[0] - 7.0).abs() < 1e-9);
        assert_eq!(standard_errors(&found, &law), None);
    }

    #[test]
    fn a_ceiling_that_nothing_reaches_is_lowered_until_it_holds() {
        let law =
            |values: &[f64]| -> Option<Vec<f64>> { Some(vec![(values[0].min(26.0) / 16.3).ln()]) };
        let found = least_squares(&[51.2], &law, Search::Wide).expect("a fit");
        assert!((found[0] - 16.3).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_parameter_without_effect_stays_where_it_was() {
        let law = |_: &[f64]| -> Option<Vec<f64>> { Some(vec![1.0]) };
        assert_eq!(least_squares(&[5.0], &law, Search::Wide), Some(vec![5.0]));
    }
}
