//! The picture that is looked for, made ready: at every level of resolution, without its mean.
//!
//! Leaves out reading it from a file. How coarse a search may begin is found from the picture
//! itself, by how much of its score is left when it lies between the coarse pixels.

use std::collections::HashSet;

use peerlane_results::{HIT_SCHEMA, HitRecord, ScanMethod};
use thiserror::Error;

use crate::Gray;
use crate::correlate::{PictureLayer, scores, single};
use crate::effort::Effort;
use crate::pose::{Pose, posed};
use crate::reduce::{PixelArea, Plane, reduce};

/// The coarsest level: squares of 16 pixels a side.
const COARSEST: u32 = 4;

/// A layer must have as many pixels a side, and in all, to tell places apart.
const LEAST_SIDE: usize = 6;
const LEAST_PIXELS: usize = 150;

/// The least score that a coarse level may leave a picture that lies between its pixels.
const LEAST_FLOOR: f32 = 0.75;

/// Pictures are at most as large, a side.
const MOST_SIDE: usize = 16_384;

/// Reasons why a picture cannot be looked for.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PictureError {
    /// It has too few pixels.
    #[error(
        "a picture of {width} x {height} pixels cannot be told from its surroundings: at least {least} x {least} are needed"
    )]
    Small {
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// The least side.
        least: usize,
    },
    /// It has too many.
    #[error("a picture of {width} x {height} pixels is more than {most} a side")]
    Large {
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// The longest side.
        most: usize,
    },
    /// All of it has one brightness.
    #[error("the picture has one brightness all over, and would be found everywhere or nowhere")]
    Flat,
    /// The threshold of Donard's search is above the score of any image.
    #[error(
        "no image scores more than {most:.2} for this picture, and hits have to score more than {threshold}"
    )]
    Unreachable {
        /// Score that a hit has to exceed.
        threshold: f32,
        /// The most.
        most: f32,
    },
}

/// A picture in one pose, ready to be looked for.
#[derive(Debug, Clone)]
pub struct Picture {
    pose: Pose,
    width: usize,
    height: usize,
    layers: Vec<PictureLayer>,
}

/// The picture in each of these poses, ready to be looked for; a pose that is given twice counts once.
///
/// # Errors
/// [`PictureError`] of the first pose that cannot be told from its surroundings.
pub fn pictures(
    gray: &Gray,
    opacity: Option<&Gray>,
    poses: impl Iterator<Item = Pose>,
) -> Result<Vec<Picture>, PictureError> {
    let mut known = HashSet::new();
    poses
        .filter(|pose| known.insert(pose.key()))
        .map(|pose| {
            let (gray, opacity) = posed(gray, opacity, pose);
            Picture::new(&gray, opacity.as_ref(), pose)
        })
        .collect()
}

impl Picture {
    /// A picture in a pose; `opacity` is as large as `gray`, 255 where a pixel counts in full.
    ///
    /// # Errors
    /// [`PictureError`] when it cannot be told from its surroundings.
    pub fn new(gray: &Gray, opacity: Option<&Gray>, pose: Pose) -> Result<Self, PictureError> {
        let (width, height) = (gray.width(), gray.height());
        if width.min(height) < LEAST_SIDE || width * height < LEAST_PIXELS {
            return Err(PictureError::Small { width, height, least: 16 });
        }
        if width.max(height) > MOST_SIDE {
            return Err(PictureError::Large { width, height, most: MOST_SIDE });
        }
        let opacity = opacity.filter(|opacity| opacity.pixels().iter().any(|value| *value < 255));
        let full = layer(gray, opacity, 0).ok_or(PictureError::Flat)?;
        let mut layers = vec![full];
        for level in 1..=COARSEST {
            match layer(gray, opacity, level) {
                Some(layer) if layer.floor >= LEAST_FLOOR => layers.push(layer),
                _ => break,
            }
        }
        Ok(Self { pose, width, height, layers })
    }

    /// Returns its size and rotation.
    pub fn pose(&self) -> Pose {
        self.pose
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The level at which a search begins: squares of 2 to the power of this a side.
    pub fn coarsest(&self) -> u32 {
        self.coarse().level
    }

    pub(crate) fn coarse(&self) -> &PictureLayer {
        &self.layers[self.layers.len() - 1]
    }

    pub(crate) fn layers(&self) -> &[PictureLayer] {
        &self.layers
    }

    pub(crate) fn layer(&self, level: u32) -> &PictureLayer {
        &self.layers[level as usize]
    }
}

/// A place where the picture is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Left edge of the picture, in pixels of the image.
    pub x: usize,
    /// Top edge.
    pub y: usize,
    /// Pixels in a row of the picture as it was found.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Size and rotation of the picture there.
    pub pose: Pose,
    /// Normalised cross-correlation in full resolution: at most 1. Of [`Donard`](crate::Donard), its own score.
    pub score: f32,
    /// Page of the file, from 1; `None` in a file with one image.
    pub page: Option<u32>,
}

impl Hit {
    /// The hit as a record, in an image of this name; by normalised cross-correlation.
    pub fn record(&self, image: &str) -> HitRecord {
        let Self { x, y, width, height, pose: Pose { scale, degrees }, score, page } = *self;
        HitRecord {
            schema: HIT_SCHEMA.to_owned(),
            image: image.to_owned(),
            page,
            x,
            y,
            width,
            height,
            scale,
            degrees,
            score,
            method: ScanMethod::Ncc,
        }
    }
}

/// Half a square of this level: a layer leaves out this much on each side. Squares up to half a
/// square off its own then still have nothing but picture in them.
pub(crate) fn margin(level: u32) -> usize {
    (1 << level) / 2
}

fn layer(gray: &Gray, opacity: Option<&Gray>, level: u32) -> Option<PictureLayer> {
    let at = |dx: usize, dy: usize| {
        let area = inside(gray, level, dx, dy)?;
        Some((reduce(gray, area, level), opacity.map(|opacity| reduce(opacity, area, level))))
    };
    let centre = margin(level);
    let (plane, weights) = at(centre, centre)?;
    let too_small =
        plane.width.min(plane.height) < LEAST_SIDE || plane.width * plane.height < LEAST_PIXELS;
    if level > 0 && too_small {
        return None;
    }
    let mut layer = centred(&plane, weights.as_ref(), level)?;
    let steps = [0, 1, 2, 3, 4].map(|quarter| 2 * margin(level) * quarter / 4);
    for (dx, dy) in steps.iter().flat_map(|dx| steps.map(|dy| (*dx, dy))) {
        let (shifted, _) = at(dx, dy)?;
        layer.floor = layer.floor.min(score(&layer, &shifted));
    }
    Some(layer)
}

/// The part of the picture whose squares begin at `dx`, `dy`; as large for every shift of up to a
/// square.
fn inside(gray: &Gray, level: u32, dx: usize, dy: usize) -> Option<PixelArea> {
    let side = 2 * margin(level);
    Some(PixelArea {
        x: dx,
        y: dy,
        width: gray.width().checked_sub(side)?,
        height: gray.height().checked_sub(side)?,
    })
}

fn centred(plane: &Plane, weights: Option<&Plane>, level: u32) -> Option<PictureLayer> {
    let weights =
        weights.map(|weights| weights.values.iter().map(|w| w / 255.0).collect::<Vec<f32>>());
    let of = |index: usize| weights.as_ref().map_or(1.0, |weights| f64::from(weights[index]));
    let pixels = || plane.values.iter().map(|value| f64::from(*value)).enumerate();
    let weight: f64 = pixels().map(|(index, _)| of(index)).sum();
    let mean = pixels().map(|(index, value)| of(index) * value).sum::<f64>() / weight;
    let energy: f64 = pixels().map(|(index, value)| of(index) * (value - mean).powi(2)).sum();
    // One grey level of standard deviation is the least that survives being stored in whole levels.
    if weight < 1.0 || energy < weight {
        return None;
    }
    Some(PictureLayer {
        level,
        width: plane.width,
        height: plane.height,
        centred: pixels().map(|(index, value)| single(of(index) * (value - mean))).collect(),
        weights,
        weight,
        norm: energy.sqrt(),
        floor: 1.0,
    })
}

fn score(layer: &PictureLayer, plane: &Plane) -> f32 {
    scores(plane, layer, &Effort::default()).values.first().copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haystack::Recipe;

    #[test]
    fn repeated_pose_is_one_picture() {
        let gray = Recipe::default().picture();
        let poses = |scales: &[f32], rotations: &[f32]| {
            let all = scales.iter().flat_map(|scale| {
                rotations.iter().map(|degrees| Pose { scale: *scale, degrees: *degrees })
            });
            let made = pictures(&gray, None, all).unwrap();
            made.iter().map(|one| (one.pose().scale, one.pose().degrees)).collect::<Vec<_>>()
        };
        assert_eq!(poses(&[1.0; 50], &[0.0, -0.0]), [(1.0, 0.0)]);
        let different = [(1.0, 0.0), (1.0, 90.0), (0.5, 0.0), (0.5, 90.0)];
        assert_eq!(poses(&[1.0, 0.5, 1.0], &[0.0, 90.0, 0.0]), different);
    }
}
