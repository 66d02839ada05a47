//! Zero-mean normalised cross-correlation of a layer with every place of a plane.
//!
//! Leaves out which places are asked. Products are summed in one order without fused operations, so
//! that every processor finds the same scores, whatever its vectors.
//!
//! The score is Lewis's (Fast Normalized Cross-Correlation, 1995): 1 for the picture itself under any
//! gain and offset of brightness, 0 for anything unrelated.

use pulp::{Arch, Simd, WithSimd};

use crate::effort::Effort;
use crate::reduce::Plane;

/// Places that are computed together: eight vectors of eight.
pub(crate) const LANES: usize = 64;

/// Rows whose products are added in single precision before their sum goes to double precision.
pub(crate) const ROWS: usize = 16;

/// Variance of one pixel, in grey levels squared, below which a window is flat: its correlation is
/// only rounding.
pub(crate) const FLAT: f64 = 0.05;

/// The picture at one level, without its mean.
#[derive(Debug, Clone)]
pub(crate) struct PictureLayer {
    pub(crate) level: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Weight times brightness over the weighted mean: its sum is zero.
    pub(crate) centred: Vec<f32>,
    /// Weight of each pixel, from 0 to 1; `None` where all count alike.
    pub(crate) weights: Option<Vec<f32>>,
    /// Sum of the weights.
    pub(crate) weight: f64,
    /// Square root of the weighted sum of squares of brightness over the mean.
    pub(crate) norm: f64,
    /// The least score of this picture itself, wherever it lies between the pixels of this level.
    pub(crate) floor: f32,
}

/// Scores of a layer at every place of a plane where it fits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scores {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<f32>,
}

/// Places of `layer` in `plane`, across and down; `None` where it does not fit.
pub(crate) fn places(plane: &Plane, layer: &PictureLayer) -> Option<(usize, usize)> {
    let along = |plane: usize, layer: usize| (plane + 1).checked_sub(layer).filter(|n| *n > 0);
    Some((along(plane.width, layer.width)?, along(plane.height, layer.height)?))
}

/// The score of `layer` at every place of `plane`; empty where it does not fit.
pub(crate) fn scores(plane: &Plane, layer: &PictureLayer, effort: &Effort) -> Scores {
    scores_in(plane, layer, None, effort)
}

/// The same in blocks of [`LANES`] places of a line, all or those that are wanted; zero in others, and from where it is
/// told to stop.
pub(crate) fn scores_in(
    plane: &Plane,
    layer: &PictureLayer,
    wanted: Option<&[bool]>,
    effort: &Effort,
) -> Scores {
    let Some((width, height)) = places(plane, layer) else {
        return Scores { width: 0, height: 0, values: Vec::new() };
    };
    let correlate = |plane: &Plane, taps: &[f32]| {
        let mut out = vec![0.0; width * height];
        let tap_width = layer.width;
        Arch::new().dispatch(LineProducts {
            plane,
            taps,
            tap_width,
            width,
            wanted,
            effort,
            out: &mut out,
        });
        out
    };
    let products = correlate(plane, &layer.centred);
    let values = match &layer.weights {
        None => {
            let sums = BoxSums::new(plane);
            normalise(&products, layer, width, |x, y| sums.sums(x, y, layer.width, layer.height))
        }
        Some(weights) => {
            let squares = Plane {
                values: plane.values.iter().map(|value| value * value).collect(),
                ..*plane
            };
            let (first, second) = (correlate(plane, weights), correlate(&squares, weights));
            normalise(&products, layer, width, |x, y| {
                (f64::from(first[y * width + x]), f64::from(second[y * width + x]))
            })
        }
    };
    Scores { width, height, values }
}

fn normalise(
    products: &[f32],
    layer: &PictureLayer,
    width: usize,
    sums: impl Fn(usize, usize) -> (f64, f64),
) -> Vec<f32> {
    let place = |(index, product): (usize, &f32)| {
        let (first, second) = sums(index % width, index / width);
        let energy = second - first * first / layer.weight;
        if energy < FLAT * layer.weight {
            return 0.0;
        }
        single(f64::from(*product) / (layer.norm * energy.sqrt()))
    };
    products.iter().enumerate().map(place).collect()
}

/// The nearest number of half the length; scores and grey levels are far from its ends.
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn single(value: f64) -> f32 {
    value as f32
}

/// The sum of products of `taps` with the plane, for all lines of places. A closure would become a
/// function of its own, which the compiler makes without the vectors of the processor.
struct LineProducts<'a> {
    plane: &'a Plane,
    taps: &'a [f32],
    tap_width: usize,
    width: usize,
    wanted: Option<&'a [bool]>,
    effort: &'a Effort,
    out: &'a mut [f32],
}

impl WithSimd for LineProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let blocks = self.width.div_ceil(LANES);
        for (y, line) in self.out.chunks_exact_mut(self.width).enumerate() {
            for (block, out) in line.chunks_mut(LANES).enumerate() {
                if self.wanted.is_some_and(|wanted| !wanted[y * blocks + block]) {
                    continue;
                }
                if self.effort.is_over() {
                    return;
                }
                correlate_block(self.plane, (block * LANES, y), self.taps, self.tap_width, out);
                self.effort.advance((self.taps.len() * out.len()) as u64);
            }
        }
    }
}

/// Correlates adjacent places, from `begin` on.
#[inline(always)]
fn correlate_block(
    plane: &Plane,
    (begin, y): (usize, usize),
    taps: &[f32],
    tap_width: usize,
    out: &mut [f32],
) {
    let mut sums = [0.0_f32; LANES];
    let mut totals = [0.0_f64; LANES];
    for (tap_y, tap_row) in taps.chunks_exact(tap_width).enumerate() {
        if tap_y > 0 && tap_y % ROWS == 0 {
            move_over(&mut sums, &mut totals);
        }
        let row = &plane.row(y + tap_y)[begin..begin + out.len() + tap_width - 1];
        if out.len() == LANES {
            add_products(tap_row, row, &mut sums);
        } else {
            for (x, tap) in tap_row.iter().enumerate() {
                for (sum, pixel) in sums.iter_mut().zip(&row[x..x + out.len()]) {
                    *sum += pixel * tap;
                }
            }
        }
    }
    move_over(&mut sums, &mut totals);
    for (out, total) in out.iter_mut().zip(&totals) {
        *out = single(*total);
    }
}

#[inline(always)]
fn move_over(sums: &mut [f32; LANES], totals: &mut [f64; LANES]) {
    for (sum, total) in sums.iter_mut().zip(totals) {
        *total += f64::from(std::mem::take(sum));
    }
}

#[inline(always)]
fn add_products(taps: &[f32], row: &[f32], sums: &mut [f32; LANES]) {
    let mut kept = *sums;
    for (x, tap) in taps.iter().enumerate() {
        if let Some(pixels) = row[x..].first_chunk::<LANES>() {
            for (sum, pixel) in kept.iter_mut().zip(pixels) {
                *sum += pixel * tap;
            }
        }
    }
    *sums = kept;
}

/// Sums over rectangles of a plane, of values and of their squares (Crow's summed-area tables, 1984).
pub(crate) struct BoxSums {
    stride: usize,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl BoxSums {
    pub(crate) fn new(plane: &Plane) -> Self {
        let stride = plane.width + 1;
        let mut first = vec![0.0; stride * (plane.height + 1)];
        let mut second = first.clone();
        for y in 0..plane.height {
            let (mut sum, mut squares) = (0.0, 0.0);
            for (x, value) in plane.row(y).iter().map(|value| f64::from(*value)).enumerate() {
                sum += value;
                squares += value * value;
                let at = (y + 1) * stride + x + 1;
                first[at] = first[at - stride] + sum;
                second[at] = second[at - stride] + squares;
            }
        }
        Self { stride, first, second }
    }

    pub(crate) fn sums(&self, x: usize, y: usize, width: usize, height: usize) -> (f64, f64) {
        let corner = |table: &[f64]| {
            let top = y * self.stride + x;
            let bottom = top + height * self.stride;
            table[bottom + width] - table[bottom] - table[top + width] + table[top]
        };
        (corner(&self.first), corner(&self.second))
    }
}
