//! Images at a fraction of their resolution: each pixel the mean of a square of pixels.

use crate::Gray;

/// An image of means, with fractions: a mean over 256 pixels has eight more bits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<f32>,
}

impl Plane {
    pub(crate) fn row(&self, y: usize) -> &[f32] {
        &self.values[y * self.width..(y + 1) * self.width]
    }
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PixelArea {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl PixelArea {
    pub(crate) fn all(image: &Gray) -> Self {
        Self { x: 0, y: 0, width: image.width(), height: image.height() }
    }
}

/// The level of the blocks of a JPEG: 8 pixels a side.
pub(crate) const MEANS_LEVEL: u32 = 3;

impl Plane {
    /// The same at the next coarser level.
    pub(crate) fn halved(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let mean = |index: usize| {
            let (x, y) = (index % width * 2, index / width * 2);
            let (above, below) = (self.row(y), self.row(y + 1));
            (above[x] + above[x + 1] + below[x] + below[x + 1]) / 4.0
        };
        Self { width, height, values: (0..width * height).map(mean).collect() }
    }
}

/// Means over squares of `2^level` pixels a side, inside `area`; leaves out the rest that does not
/// fill a square.
pub(crate) fn reduce(image: &Gray, area: PixelArea, level: u32) -> Plane {
    let side = 1_usize << level;
    let (width, height) = (area.width / side, area.height / side);
    let mut values = vec![0.0; width * height];
    let mut columns = vec![0_u16; width * side];
    // 2^-2level is a power of two: multiplying by it is exact.
    let scale = 1.0 / (1_u32 << (2 * level)) as f32;
    for (y, out) in values.chunks_exact_mut(width.max(1)).enumerate() {
        columns.fill(0);
        for line in 0..side {
            let begin = (area.y + y * side + line) * image.width() + area.x;
            let row = &image.pixels()[begin..begin + columns.len()];
            // At most 16 rows of 255 are added: 4080.
            for (sum, pixel) in columns.iter_mut().zip(row) {
                *sum += u16::from(*pixel);
            }
        }
        for (mean, square) in out.iter_mut().zip(columns.chunks_exact(side)) {
            *mean = square.iter().map(|sum| u32::from(*sum)).sum::<u32>() as f32 * scale;
        }
    }
    Plane { width, height, values }
}
