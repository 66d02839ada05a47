//! Donard's own search, for comparison: linear correlation with the edges of a picture, by Fourier
//! transform (`imgrep` of libdonard, 2014).
//!
//! The score of a place is the sum of brightness (0 to 1) times the picture's edges: each pixel less the
//! mean of its eight neighbours, with black around the picture. The best place of an image is its hit where
//! it scores more than a threshold. An offset of brightness changes nothing inside the image; a gain changes
//! the score by as much, and so does the picture: no score means anything without the picture's own.
//!
//! Left out on purpose: scores that are made comparable, sizes, rotations, more than one hit. What
//! differs from `imgrep`: only places where the whole picture fits are asked (that gave an image up
//! whose best place was another), sizes of transforms lie closer together, and images larger than
//! its largest are searched in parts. Beyond the edge of an image that fills its transform lies the
//! opposite edge, there as here.

mod transform;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::effort::Effort;
use crate::picture::PictureError;
use crate::{Gray, Hit, Pose};
use transform::{Edges, ImagePart, Transforms};

/// Default threshold of `imgrep`, which a hit has to exceed: right for the mark of 943 x 369 pixels
/// that it was written to find.
pub const DONARD_THRESHOLD: f32 = 250.0;

/// A picture is at most as large, a side: half the largest transform.
const MOST_SIDE: usize = transform::MOST_SIDE / 2;

/// Looks for the edges of a picture.
pub struct Donard {
    transforms: Transforms,
    width: usize,
    height: usize,
    threshold: f32,
    own: f32,
    most: f32,
}

impl Donard {
    /// A search for this picture, flattened on black, that reports scores above `threshold`.
    ///
    /// # Errors
    /// [`PictureError`] when no image could have such a score, and for a picture without pixels or with too many.
    pub fn new(
        gray: &Gray,
        opacity: Option<&Gray>,
        threshold: f32,
    ) -> Result<Arc<Self>, PictureError> {
        let (width, height) = (gray.width(), gray.height());
        if width.min(height) == 0 {
            return Err(PictureError::Small { width, height, least: 1 });
        }
        if width.max(height) > MOST_SIDE {
            return Err(PictureError::Large { width, height, most: MOST_SIDE });
        }
        let picture = on_black(gray, opacity);
        let edges = edges(&picture, width, height);
        let own = edges.times(&picture);
        let most = edges.positive();
        if most <= threshold {
            return Err(PictureError::Unreachable { threshold, most });
        }
        let transforms = Transforms::new(edges);
        Ok(Arc::new(Self { transforms, width, height, threshold, own, most }))
    }

    /// Returns the score of the picture itself, with black around it.
    pub fn own_score(&self) -> f32 {
        self.own
    }

    /// Returns the highest score that an image can have.
    pub fn most(&self) -> f32 {
        self.most
    }

    /// The best place of an image where it is good enough.
    pub fn search(&self, image: &Gray) -> Option<Hit> {
        self.search_until(image, &Effort::default())
    }

    /// The same; nothing after it was told to stop, which it hears between its parts.
    pub(crate) fn search_until(&self, image: &Gray, effort: &Effort) -> Option<Hit> {
        let across = parts(image.width(), self.width)?;
        let down = parts(image.height(), self.height)?;
        let mut best = (f32::NEG_INFINITY, 0, 0);
        effort.foresee((across.len() * down.len()) as u64);
        for (rows, top) in &down {
            for (columns, left) in &across {
                if effort.is_over() {
                    return None;
                }
                let part = ImagePart {
                    image,
                    columns: columns.clone(),
                    rows: rows.clone(),
                    left: left.clone(),
                    top: top.clone(),
                };
                let here = self.transforms.best(&part);
                effort.advance(1);
                if here.0 > best.0 {
                    best = here;
                }
            }
        }
        let (score, x, y) = best;
        let (width, height, pose) = (self.width, self.height, Pose::default());
        (score > self.threshold).then_some(Hit { x, y, width, height, pose, score, page: None })
    }
}

impl fmt::Debug for Donard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Donard")
            .field("width", &self.width)
            .field("height", &self.height)
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}

/// Brightness from 0 to 1, less where the picture is transparent.
fn on_black(gray: &Gray, opacity: Option<&Gray>) -> Vec<f32> {
    let opaque = |at: usize| opacity.map_or(1.0, |opacity| f32::from(opacity.pixels()[at]) / 255.0);
    let pixels = gray.pixels().iter().enumerate();
    pixels.map(|(at, pixel)| f32::from(*pixel) / 255.0 * opaque(at)).collect()
}

/// Each pixel less the mean of its eight neighbours, for the picture and one pixel around it.
fn edges(picture: &[f32], width: usize, height: usize) -> Edges {
    let (wide, tall) = (width + 2, height + 2);
    let mut values = vec![0.0; wide * tall];
    for y in 0..height {
        for x in 0..width {
            let pixel = picture[y * width + x];
            for (row, column) in (0..3).flat_map(|row| (0..3).map(move |column| (row, column))) {
                let is_centre = row == 1 && column == 1;
                let weight = if is_centre { 1.0 } else { -1.0 / 8.0 };
                values[(y + row) * wide + x + column] += weight * pixel;
            }
        }
    }
    Edges { width: wide, values }
}

/// Cuts a side of an image into parts that a transform takes. Returns the pixels of each part and
/// the places in it to score. Every place is in one part. `None` where the picture does not fit.
fn parts(side: usize, picture: usize) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let places = (side + 1).checked_sub(picture).filter(|places| *places > 0)?;
    if side <= transform::MOST_SIDE {
        return Some(vec![(0..side, 0..places)]);
    }
    // One less than the transform, so that black lies between what would wrap around.
    let most = transform::MOST_SIDE - 1;
    let mut parts = Vec::new();
    let mut next = 0;
    while next < places {
        // The edges reach one pixel beyond the picture on each side.
        let begin = next.saturating_sub(1);
        let end = (begin + most).min(side);
        let last = if end == side { places } else { end - picture };
        parts.push((begin..end, next..last));
        next = last;
    }
    Some(parts)
}

#[cfg(test)]
mod tests;
