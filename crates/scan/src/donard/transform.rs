//! Correlation of parts of images with the edges of a picture, by Fourier transform.
//!
//! Leaves out the meaning of a score. Columns are transformed, multiplied and transformed back a few at
//! a time while the cache holds them, and unwanted rows are not transformed back.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::Gray;

/// Transforms have at least and at most as many pixels a side, as those of `imgrep`.
const LEAST_SIDE: usize = 128;
pub(super) const MOST_SIDE: usize = 4096;

/// Columns that are transformed together: as many as share lines of the cache.
const COLUMNS: usize = 8;

/// Bytes of spectra that are kept for images to come.
const MOST_KEPT: usize = 512 << 20;

/// The edges of a picture: one pixel more than it on each side.
#[derive(Debug, Clone)]
pub(super) struct Edges {
    pub(super) width: usize,
    pub(super) values: Vec<f32>,
}

impl Edges {
    /// Their sum of products with the picture, which has no such pixel around it.
    pub(super) fn times(&self, picture: &[f32]) -> f32 {
        let inner = self.values.chunks_exact(self.width).skip(1);
        let rows = picture.chunks_exact(self.width - 2).zip(inner);
        let products = rows.flat_map(|(picture, edges)| picture.iter().zip(&edges[1..]));
        crate::correlate::single(products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum())
    }

    /// Their sum where they are above zero: the score of an image that is white there and black elsewhere.
    pub(super) fn positive(&self) -> f32 {
        let above = self.values.iter().filter(|value| **value > 0.0);
        crate::correlate::single(above.map(|value| f64::from(*value)).sum())
    }
}

/// A part of an image, and the places in it that are asked; all in pixels of the image.
#[derive(Debug)]
pub(super) struct ImagePart<'a> {
    pub(super) image: &'a Gray,
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) left: Range<usize>,
    pub(super) top: Range<usize>,
}

/// Transforms of every size that was needed, with the spectrum of the edges in each.
pub(super) struct Transforms {
    edges: Edges,
    kept: Mutex<VecDeque<Arc<Transform>>>,
    /// Room that is not in use.
    spare: Mutex<Vec<Room>>,
}

/// Working memory of one search, without its image.
#[derive(Default)]
struct Room {
    spectrum: Vec<Complex<f32>>,
    columns: Vec<Complex<f32>>,
    row: Vec<f32>,
    scratch: Vec<Complex<f32>>,
}

impl Transforms {
    pub(super) fn new(edges: Edges) -> Self {
        Self { edges, kept: Mutex::default(), spare: Mutex::default() }
    }

    /// The highest score among the places of a part, and the first place that has it.
    pub(super) fn best(&self, part: &ImagePart<'_>) -> (f32, usize, usize) {
        let size = (padded(part.columns.len()), padded(part.rows.len()));
        let transform = self.get(size);
        let mut room = lock(&self.spare).pop().unwrap_or_default();
        let best = transform.best(part, &mut room);
        lock(&self.spare).push(room);
        best
    }

    /// The transform of a size, kept or made. Two threads may make the same at a time, once.
    fn get(&self, size: (usize, usize)) -> Arc<Transform> {
        let is_it = |one: &Arc<Transform>| (one.width, one.height) == size;
        let mut kept = lock(&self.kept);
        let index = kept.iter().position(is_it);
        if let Some(found) = index.and_then(|index| kept.remove(index)) {
            kept.push_back(Arc::clone(&found));
            return found;
        }
        drop(kept);
        let made = Arc::new(Transform::new(size, &self.edges));
        let mut kept = lock(&self.kept);
        if !kept.iter().any(is_it) {
            kept.push_back(Arc::clone(&made));
        }
        // What was not needed for longest goes first.
        while kept.len() > 1 && kept.iter().map(|one| one.bytes()).sum::<usize>() > MOST_KEPT {
            kept.pop_front();
        }
        made
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The side of a transform for so many pixels: 4, 5 or 6 times a power of two, which transform fast and waste
/// less than powers of two alone.
pub(super) fn padded(side: usize) -> usize {
    let least = side.max(LEAST_SIDE);
    let octave = least.next_power_of_two();
    [octave / 8 * 5, octave / 4 * 3].into_iter().find(|size| *size >= least).unwrap_or(octave)
}

/// Transforms of one size.
struct Transform {
    width: usize,
    height: usize,
    to_spectrum: Arc<dyn RealToComplex<f32>>,
    from_spectrum: Arc<dyn ComplexToReal<f32>>,
    down: Arc<dyn Fft<f32>>,
    up: Arc<dyn Fft<f32>>,
    /// Of the edges, conjugated and scaled, column by column.
    edges: Vec<Complex<f32>>,
}

impl Transform {
    fn new((width, height): (usize, usize), edges: &Edges) -> Self {
        let (mut real, mut complex) = (RealFftPlanner::new(), FftPlanner::new());
        let mut transform = Self {
            width,
            height,
            to_spectrum: real.plan_fft_forward(width),
            from_spectrum: real.plan_fft_inverse(width),
            down: complex.plan_fft_forward(height),
            up: complex.plan_fft_inverse(height),
            edges: Vec::new(),
        };
        transform.edges = transform.spectrum_of(edges);
        transform
    }

    fn bytes(&self) -> usize {
        size_of_val(self.edges.as_slice())
    }

    /// Numbers in a row of a spectrum.
    fn stride(&self) -> usize {
        self.width / 2 + 1
    }

    /// The spectrum of the edges, whose first pixel lies above and to the left of the first place, and so at
    /// the other end of the transform.
    fn spectrum_of(&self, edges: &Edges) -> Vec<Complex<f32>> {
        let mut padded = vec![0.0; self.width * self.height];
        for (y, row) in edges.values.chunks_exact(edges.width).enumerate() {
            let to_y = (y + self.height - 1) % self.height;
            for (x, value) in row.iter().enumerate() {
                padded[to_y * self.width + (x + self.width - 1) % self.width] += value;
            }
        }
        let mut room = Room::default();
        room.fit(self, self.height);
        let rows =
            padded.chunks_exact(self.width).zip(room.spectrum.chunks_exact_mut(self.stride()));
        for (row, out) in rows {
            room.row.copy_from_slice(row);
            forward(&*self.to_spectrum, &mut room.row, out, &mut room.scratch);
        }
        let mut spectrum = vec![Complex::default(); self.stride() * self.height];
        // Pixels are bytes here and from 0 to 1 in scores, and no transform divides by its size.
        let scale = crate::correlate::single(1.0 / (255.0 * (self.width * self.height) as f64));
        for (x, column) in spectrum.chunks_exact_mut(self.height).enumerate() {
            for (y, value) in column.iter_mut().enumerate() {
                *value = room.spectrum[y * self.stride() + x];
            }
            self.down.process_with_scratch(column, &mut room.scratch);
            column.iter_mut().for_each(|value| *value = value.conj() * scale);
        }
        spectrum
    }

    fn best(&self, part: &ImagePart<'_>, room: &mut Room) -> (f32, usize, usize) {
        room.fit(self, part.rows.len());
        let stride = self.stride();
        for (y, out) in part.rows.clone().zip(room.spectrum.chunks_exact_mut(stride)) {
            let pixels = &part.image.row(y)[part.columns.clone()];
            let (from, beyond) = room.row.split_at_mut(pixels.len());
            from.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = f32::from(*pixel));
            beyond.fill(0.0);
            forward(&*self.to_spectrum, &mut room.row, out, &mut room.scratch);
        }
        let asked = part.top.start - part.rows.start..part.top.end - part.rows.start;
        self.columns(part.rows.len(), &asked, room);
        let mut best = (f32::NEG_INFINITY, 0, 0);
        for y in asked {
            let row = &mut room.spectrum[y * stride..(y + 1) * stride];
            backward(&*self.from_spectrum, row, &mut room.row, &mut room.scratch);
            let left = part.left.start - part.columns.start;
            let scores = &room.row[left..left + part.left.len()];
            // Without a comparison at each step this is done by vectors.
            let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if highest > best.0 {
                let x = scores.iter().position(|score| *score == highest);
                best = x.map_or(best, |x| (highest, part.left.start + x, part.rows.start + y));
            }
        }
        best
    }

    /// Down, times the edges, and up again, for each column; `rows` of them hold something, and those that are
    /// asked are put back.
    fn columns(&self, rows: usize, asked: &Range<usize>, room: &mut Room) {
        let (stride, height) = (self.stride(), self.height);
        for begin in (0..stride).step_by(COLUMNS) {
            let count = COLUMNS.min(stride - begin);
            let columns = &mut room.columns[..count * height];
            for y in 0..rows {
                let row = &room.spectrum[y * stride + begin..][..count];
                for (column, value) in columns.chunks_exact_mut(height).zip(row) {
                    column[y] = *value;
                }
            }
            columns
                .chunks_exact_mut(height)
                .for_each(|column| column[rows..].fill(Complex::default()));
            self.down.process_with_scratch(columns, &mut room.scratch);
            let edges = &self.edges[begin * height..][..columns.len()];
            columns.iter_mut().zip(edges).for_each(|(value, edge)| *value *= edge);
            self.up.process_with_scratch(columns, &mut room.scratch);
            for y in asked.clone() {
                let row = &mut room.spectrum[y * stride + begin..][..count];
                for (column, value) in columns.chunks_exact(height).zip(row) {
                    *value = column[y];
                }
            }
        }
    }
}

impl Room {
    /// Makes everything as large as a transform of so many rows needs it.
    fn fit(&mut self, transform: &Transform, rows: usize) {
        let Transform { to_spectrum, from_spectrum, down, up, .. } = transform;
        self.spectrum.resize(transform.stride() * rows, Complex::default());
        self.columns.resize(COLUMNS * transform.height, Complex::default());
        self.row.resize(transform.width, 0.0);
        let scratch = [
            to_spectrum.get_scratch_len(),
            from_spectrum.get_scratch_len(),
            down.get_inplace_scratch_len(),
            up.get_inplace_scratch_len(),
        ];
        self.scratch.resize(scratch.into_iter().max().unwrap_or(0), Complex::default());
    }
}

fn forward(
    transform: &dyn RealToComplex<f32>,
    row: &mut [f32],
    out: &mut [Complex<f32>],
    scratch: &mut [Complex<f32>],
) {
    let scratch = &mut scratch[..transform.get_scratch_len()];
    // It refuses lengths that are not its own, and nothing else.
    let done = transform.process_with_scratch(row, out, scratch);
    debug_assert!(done.is_ok(), "{done:?}");
}

fn backward(
    transform: &dyn ComplexToReal<f32>,
    row: &mut [Complex<f32>],
    out: &mut [f32],
    scratch: &mut [Complex<f32>],
) {
    // What belongs to real numbers has no imaginary part there but for rounding.
    if let [first, .., last] = row {
        (first.im, last.im) = (0.0, 0.0);
    }
    let scratch = &mut scratch[..transform.get_scratch_len()];
    let done = transform.process_with_scratch(row, out, scratch);
    debug_assert!(done.is_ok(), "{done:?}");
}
