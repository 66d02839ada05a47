//! Makes a haystack: images of many kinds by seed, a picture hidden in some, and the answers.
//!
//! Every image depends on the seed and its number alone, so that any of them can be made again
//! without the others.

mod chance;
mod paste;
mod store;
mod texture;

pub(crate) use chance::Chance;
pub use store::{HaystackError, store};

use serde::{Deserialize, Serialize};

use crate::Gray;

/// Recipe of a haystack: all that decides its images.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Decides all of it.
    pub seed: u64,
    /// Images.
    pub images: u32,
    /// Mean pixels a side; each image has between three quarters and five quarters of it.
    pub side: usize,
    /// Of a thousand images, as many have the picture; one at least, unless this is none.
    pub planted_per_mille: u32,
    /// Sizes at which the picture is planted, over its own.
    pub scales: Vec<f32>,
    /// Rotations at which it is planted, in degrees counter-clockwise.
    pub rotations: Vec<f32>,
}

impl Default for Recipe {
    /// Donard's shares: one image in ten has the picture.
    fn default() -> Self {
        Self {
            seed: 1,
            images: 100,
            side: 2048,
            planted_per_mille: 100,
            scales: vec![1.0],
            rotations: vec![0.0],
        }
    }
}

/// The correct answer for one image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HaystackAnswer {
    /// File name.
    pub image: String,
    /// True when the picture is in it.
    pub planted: bool,
    /// Left edge of the picture, in pixels.
    pub x: Option<usize>,
    /// Top edge.
    pub y: Option<usize>,
    /// Size over the picture's own.
    pub scale: Option<f32>,
    /// Rotation in degrees, counter-clockwise.
    pub degrees: Option<f32>,
    /// Brightness is multiplied by this.
    pub gain: Option<f32>,
    /// Then moved by this many grey levels.
    pub offset: Option<f32>,
    /// Standard deviation of the noise over it, in grey levels.
    pub noise: Option<f32>,
}

impl Recipe {
    /// The picture of this haystack: strokes and discs on a plate, as a company's mark has.
    pub fn picture(&self) -> Gray {
        texture::mark(&mut Chance::new(self.seed, u64::MAX))
    }

    /// Image number `index` and its answer, which calls it `name`.
    pub fn image(&self, picture: &Gray, index: u32, name: String) -> (Gray, HaystackAnswer) {
        let mut chance = Chance::new(self.seed, u64::from(index));
        let side = |chance: &mut Chance| self.side * 3 / 4 + chance.below(self.side / 2 + 1);
        let (width, height) = (side(&mut chance), side(&mut chance));
        let mut image = texture::image(&mut chance, width, height);
        let planted = if self.is_planted(index) {
            paste::plant(&mut image, picture, self, &mut chance)
        } else {
            None
        };
        let answer = HaystackAnswer {
            image: name,
            planted: planted.is_some(),
            x: planted.as_ref().map(|at| at.x),
            y: planted.as_ref().map(|at| at.y),
            scale: planted.as_ref().map(|at| at.scale),
            degrees: planted.as_ref().map(|at| at.degrees),
            gain: planted.as_ref().map(|at| at.gain),
            offset: planted.as_ref().map(|at| at.offset),
            noise: planted.as_ref().map(|at| at.noise),
        };
        (image, answer)
    }

    /// Tests whether an image gets the picture. Such images are spread over the numbers. Every
    /// haystack has the share that was asked for, and at least one image unless that share is none.
    fn is_planted(&self, index: u32) -> bool {
        let share = u64::from(self.planted_per_mille);
        let up_to = |images: u32| u64::from(images) * share / 1000;
        let is_last = index.saturating_add(1) == self.images;
        up_to(index.saturating_add(1)) > up_to(index)
            || (is_last && share > 0 && up_to(self.images) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(images: u32, planted_per_mille: u32) -> usize {
        let recipe = Recipe { images, planted_per_mille, ..Recipe::default() };
        (0..images).filter(|index| recipe.is_planted(*index)).count()
    }

    #[test]
    fn planted_share_is_kept_with_minimum_one() {
        for (images, per_mille, expected) in [
            (1, 1, 1),
            (6, 100, 1),
            (9, 100, 1),
            (10, 100, 1),
            (19, 100, 1),
            (100, 100, 10),
            (999, 1, 1),
            (6, 1000, 6),
            (6, 0, 0),
        ] {
            assert_eq!(planted(images, per_mille), expected, "{images} images, {per_mille}");
        }
    }
}
