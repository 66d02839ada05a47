//! Correlation of large layers by Fourier transform, in double precision.
//!
//! Leaves out scores. Results differ from sums of products by rounding alone, far below what single
//! precision loses, so that they tell where sums of products have to be made.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::effort::Effort;

/// Pixels a side of a transform at most: 134 MB of spectrum.
const MOST_SIDE: usize = 4096;

/// Pixels a side of the part of a layer that one transform takes: the other half of it are places.
const MOST_TAPS: usize = MOST_SIDE / 2;

/// Columns that are transformed together: as many as share lines of the cache.
const COLUMNS: usize = 4;

/// A rectangle of numbers, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: &'a [f32],
}

impl Numbers<'_> {
    fn row(&self, y: usize, columns: std::ops::Range<usize>) -> &[f32] {
        &self.values[y * self.width..(y + 1) * self.width][columns]
    }
}

/// Points of all transforms that [`correlate`] makes.
pub(crate) fn points(plane: Numbers<'_>, taps: Numbers<'_>) -> u64 {
    let (across, down) = (cut(plane.width, taps.width), cut(plane.height, taps.height));
    let parts = taps.width.div_ceil(MOST_TAPS) * taps.height.div_ceil(MOST_TAPS);
    let tiles = across.tiles * down.tiles;
    ((2 * tiles + 1) * parts * across.side * down.side) as u64
}

/// A side of a plane as transforms take it.
struct Cut {
    /// Length of a transform.
    side: usize,
    /// Places of a tile.
    step: usize,
    tiles: usize,
}

fn cut(plane: usize, taps: usize) -> Cut {
    let side = smooth(plane.min(MOST_SIDE));
    let places = plane + 1 - taps;
    let step = (side + 1 - taps.min(MOST_TAPS)).min(places);
    Cut { side, step, tiles: places.div_ceil(step) }
}

/// The next even length that transforms fast: it has no factor but 2, 3 and 5.
fn smooth(least: usize) -> usize {
    let rest = |number: usize| {
        [2, 3, 5].into_iter().fold(number, |mut number, factor| {
            while number % factor == 0 {
                number /= factor;
            }
            number
        })
    };
    let even = least.max(2).next_multiple_of(2);
    (even..).step_by(2).find(|number| rest(*number) == 1).unwrap_or(even)
}

/// The sum of products of `taps` with the plane at every place that they fit in; meaningless after
/// an order to stop.
pub(crate) fn correlate(plane: Numbers<'_>, taps: Numbers<'_>, effort: &Effort) -> Vec<f64> {
    let (across, down) = (cut(plane.width, taps.width), cut(plane.height, taps.height));
    let (width, height) = (plane.width + 1 - taps.width, plane.height + 1 - taps.height);
    let mut out = vec![0.0; width * height];
    let mut transform = DoubleTransform::new(across.side, down.side);
    let parts =
        |side: usize| (0..side).step_by(MOST_TAPS).map(move |at| at..(at + MOST_TAPS).min(side));
    for (rows, columns) in
        parts(taps.height).flat_map(|rows| parts(taps.width).map(move |part| (rows.clone(), part)))
    {
        transform.load(taps, rows.clone(), columns.clone(), effort);
        let spectrum = transform.take_spectrum(effort);
        for top in (0..height).step_by(down.step) {
            for left in (0..width).step_by(across.step) {
                let (tall, wide) = (down.step.min(height - top), across.step.min(width - left));
                let (from_y, from_x) = (top + rows.start, left + columns.start);
                let (to_y, to_x) =
                    (from_y + tall + rows.len() - 1, from_x + wide + columns.len() - 1);
                transform.load(plane, from_y..to_y, from_x..to_x, effort);
                transform.multiply(&spectrum, to_y - from_y, tall, effort);
                transform.add_to(&mut out[top * width + left..], width, (wide, tall), effort);
            }
        }
    }
    out
}

/// Transforms of one size, and room for one spectrum.
struct DoubleTransform {
    width: usize,
    height: usize,
    to_spectrum: Arc<dyn RealToComplex<f64>>,
    from_spectrum: Arc<dyn ComplexToReal<f64>>,
    down: Arc<dyn Fft<f64>>,
    up: Arc<dyn Fft<f64>>,
    spectrum: Vec<Complex<f64>>,
    row: Vec<f64>,
    columns: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl DoubleTransform {
    fn new(width: usize, height: usize) -> Self {
        let (mut real, mut complex) = (RealFftPlanner::new(), FftPlanner::new());
        let (to_spectrum, from_spectrum) =
            (real.plan_fft_forward(width), real.plan_fft_inverse(width));
        let (down, up) = (complex.plan_fft_forward(height), complex.plan_fft_inverse(height));
        let scratch = [
            to_spectrum.get_scratch_len(),
            from_spectrum.get_scratch_len(),
            down.get_inplace_scratch_len(),
            up.get_inplace_scratch_len(),
        ];
        let zero = Complex::default();
        Self {
            width,
            height,
            spectrum: vec![zero; (width / 2 + 1) * height],
            row: vec![0.0; width],
            columns: vec![zero; COLUMNS * height],
            scratch: vec![zero; scratch.into_iter().max().unwrap_or(0)],
            to_spectrum,
            from_spectrum,
            down,
            up,
        }
    }

    fn stride(&self) -> usize {
        self.width / 2 + 1
    }

    /// Transforms a part of some numbers row by row.
    fn load(
        &mut self,
        from: Numbers<'_>,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
        effort: &Effort,
    ) {
        let stride = self.stride();
        let (count, length) = (rows.len(), columns.len());
        for (y, out) in rows.zip(self.spectrum.chunks_exact_mut(stride)) {
            if effort.is_over() {
                return;
            }
            let (values, beyond) = self.row.split_at_mut(length);
            values
                .iter_mut()
                .zip(from.row(y, columns.clone()))
                .for_each(|(to, value)| *to = f64::from(*value));
            beyond.fill(0.0);
            let scratch = &mut self.scratch[..self.to_spectrum.get_scratch_len()];
            // It refuses lengths that are not its own, and nothing else.
            let done = self.to_spectrum.process_with_scratch(&mut self.row, out, scratch);
            debug_assert!(done.is_ok(), "{done:?}");
        }
        self.spectrum[count * stride..].fill(Complex::default());
    }

    /// The spectrum of the loaded numbers, conjugated and scaled, column by column.
    fn take_spectrum(&mut self, effort: &Effort) -> Vec<Complex<f64>> {
        let (stride, height) = (self.stride(), self.height);
        let mut spectrum = vec![Complex::default(); stride * height];
        // No transform divides by its size.
        let scale = 1.0 / (self.width * height) as f64;
        for (x, column) in spectrum.chunks_exact_mut(height).enumerate() {
            if effort.is_over() {
                break;
            }
            for (y, value) in column.iter_mut().enumerate() {
                *value = self.spectrum[y * stride + x];
            }
            self.down.process_with_scratch(column, &mut self.scratch);
            column.iter_mut().for_each(|value| *value = value.conj() * scale);
        }
        effort.advance((self.width * height) as u64);
        spectrum
    }

    /// Transforms the columns, multiplies them by the spectrum of the taps and transforms them
    /// back. The first `rows` rows hold numbers, and the first `asked` rows are put back.
    fn multiply(&mut self, taps: &[Complex<f64>], rows: usize, asked: usize, effort: &Effort) {
        let (stride, height) = (self.stride(), self.height);
        for begin in (0..stride).step_by(COLUMNS) {
            if effort.is_over() {
                return;
            }
            let count = COLUMNS.min(stride - begin);
            let columns = &mut self.columns[..count * height];
            for y in 0..rows {
                let row = &self.spectrum[y * stride + begin..][..count];
                columns
                    .chunks_exact_mut(height)
                    .zip(row)
                    .for_each(|(column, value)| column[y] = *value);
            }
            columns
                .chunks_exact_mut(height)
                .for_each(|column| column[rows..].fill(Complex::default()));
            self.down.process_with_scratch(columns, &mut self.scratch);
            let taps = &taps[begin * height..][..columns.len()];
            columns.iter_mut().zip(taps).for_each(|(value, tap)| *value *= tap);
            self.up.process_with_scratch(columns, &mut self.scratch);
            for y in 0..asked {
                let row = &mut self.spectrum[y * stride + begin..][..count];
                columns
                    .chunks_exact(height)
                    .zip(row)
                    .for_each(|(column, value)| *value = column[y]);
            }
        }
        effort.advance((self.width * height) as u64);
    }

    /// Transforms rows back and adds them to the output.
    fn add_to(
        &mut self,
        out: &mut [f64],
        out_stride: usize,
        (wide, tall): (usize, usize),
        effort: &Effort,
    ) {
        let stride = self.stride();
        for y in 0..tall {
            if effort.is_over() {
                return;
            }
            let row = &mut self.spectrum[y * stride..][..stride];
            // What belongs to real numbers has no imaginary part there but for rounding.
            (row[0].im, row[stride - 1].im) = (0.0, 0.0);
            let scratch = &mut self.scratch[..self.from_spectrum.get_scratch_len()];
            let done = self.from_spectrum.process_with_scratch(row, &mut self.row, scratch);
            debug_assert!(done.is_ok(), "{done:?}");
            let out = &mut out[y * out_stride..][..wide];
            out.iter_mut().zip(&self.row).for_each(|(sum, value)| *sum += value);
        }
        effort.advance((self.width * self.height) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haystack::Chance;

    /// Sums in double precision, place by place.
    fn by_products(plane: Numbers<'_>, taps: Numbers<'_>) -> Vec<f64> {
        let (width, height) = (plane.width + 1 - taps.width, plane.height + 1 - taps.height);
        let place = |index: usize| {
            let (x, y) = (index % width, index / width);
            (0..taps.height)
                .flat_map(|row| {
                    let pixels = plane.row(y + row, x..x + taps.width);
                    pixels.iter().zip(taps.row(row, 0..taps.width))
                })
                .map(|(pixel, tap)| f64::from(*pixel) * f64::from(*tap))
                .sum()
        };
        (0..width * height).map(place).collect()
    }

    #[test]
    fn transforms_agree_with_products() {
        let mut chance = Chance::new(3, 0);
        // One part, several tiles, and a layer of several parts.
        for (plane, taps) in [
            ((90, 70), (31, 22)),
            ((4500, 12), (40, 9)),
            ((4300, 8), (2100, 8)),
            ((17, 17), (17, 17)),
        ] {
            let mut numbers = |count: usize| -> Vec<f32> {
                (0..count).map(|_| f32::from(chance.bits().to_be_bytes()[0]) - 90.0).collect()
            };
            let (pixels, layer) = (numbers(plane.0 * plane.1), numbers(taps.0 * taps.1));
            let plane = Numbers { width: plane.0, height: plane.1, values: &pixels };
            let taps = Numbers { width: taps.0, height: taps.1, values: &layer };
            let found = correlate(plane, taps, &Effort::default());
            let expected = by_products(plane, taps);
            assert_eq!(found.len(), expected.len());
            let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-4, "{worst}");
        }
    }
}
