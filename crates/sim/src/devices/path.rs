//! Legs of a transfer put together: one after the other, or overlapping.
//!
//! Leaves out what a leg is. The one thing to know: with one buffer times add, with two the slower leg
//! decides, and more buffers than two only smooth what varies.

/// One leg: a fixed time for each block, and a rate (Hockney, The communication challenge for MPP, Parallel Computing 20,
/// 1994).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leg {
    /// Seconds for each block however small.
    pub start: f64,
    /// Bytes a second.
    pub rate: f64,
}

impl Leg {
    /// Seconds for a block.
    pub fn time(self, size: f64) -> f64 {
        self.start + size / self.rate
    }
}

/// Bytes a second with one buffer: `n / sum of (start + n / X)`, since each leg waits for the other (arithmetic on
/// [`Leg`]).
pub fn serial(legs: &[Leg], size: f64) -> f64 {
    size / legs.iter().map(|leg| leg.time(size)).sum::<f64>()
}

/// Bytes a second with buffers enough: `efficiency * min over legs of n / (start + n / X)`, the slowest stage of a
/// pipeline (the utilisation law; Lazowska and others, 1984, chapter 3). Copies staged in
/// host memory reached 0.65 to 0.84 of the slower leg in public reports of GPU transfers.
pub fn pipelined(legs: &[Leg], size: f64, efficiency: f64) -> f64 {
    efficiency * legs.iter().map(|leg| size / leg.time(size)).fold(f64::INFINITY, f64::min)
}

/// How much faster one leg is than two in series, by arithmetic on [`serial`]: `1 + t_host / t_p2p`; for large blocks `1 + X1 / X2`.
pub fn gain_over_serial(direct: Leg, staged: &[Leg], size: f64) -> f64 {
    staged.iter().map(|leg| leg.time(size)).sum::<f64>() / direct.time(size)
}

/// Seconds for `blocks` blocks through stages with `buffers` buffers between neighbours, each stage taking
/// `times[s]`: `start(i, s) = max(end(i, s - 1), end(i - 1, s), end(i - k, s + 1))`, the recurrence of a tandem
/// queue with blocking.
pub fn makespan(times: &[f64], buffers: usize, blocks: usize) -> f64 {
    let buffers = buffers.max(1);
    let mut ends: Vec<Vec<f64>> = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let mut row = vec![0.0; times.len()];
        for stage in 0..times.len() {
            let earlier = if stage > 0 { row[stage - 1] } else { 0.0 };
            let before = if block > 0 { ends[block - 1][stage] } else { 0.0 };
            let drained = match (block.checked_sub(buffers), stage + 1 < times.len()) {
                (Some(first), true) => ends[first][stage + 1],
                _ => 0.0,
            };
            row[stage] = f64::max(earlier, before).max(drained) + times[stage];
        }
        ends.push(row);
    }
    ends.last().and_then(|row| row.last()).copied().unwrap_or(0.0)
}

/// Bytes a second of stages that overlap in part: `(sum of X^-p)^(-1/p)`. An infinite exponent is the
/// slowest stage alone; a low one has stages wait for one another. Empirical: no derivation, so that
/// its exponent is always fitted.
pub fn soft_minimum(rates: &[f64], exponent: f64) -> f64 {
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if !exponent.is_finite() || !lowest.is_finite() {
        return lowest;
    }
    // Ratios to the lowest keep powers in range.
    let sum: f64 = rates.iter().map(|rate| (lowest / rate).powf(exponent)).sum();
    lowest * sum.powf(-1.0 / exponent)
}
