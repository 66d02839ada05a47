//! Hides the picture in an image: at any place, in a pose, brighter or darker, under noise.

use super::Recipe;
use super::chance::Chance;
use super::texture::level;
use crate::pose::posed;
use crate::{Gray, Pose};

/// Position, pose, brightness and noise of a planted picture.
pub(super) struct Planted {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) scale: f32,
    pub(super) degrees: f32,
    pub(super) gain: f32,
    pub(super) offset: f32,
    pub(super) noise: f32,
}

/// `None` where the picture is larger than the image.
pub(super) fn plant(
    image: &mut Gray,
    picture: &Gray,
    recipe: &Recipe,
    chance: &mut Chance,
) -> Option<Planted> {
    let scale = *recipe.scales.get(chance.below(recipe.scales.len())).unwrap_or(&1.0);
    let degrees = *recipe.rotations.get(chance.below(recipe.rotations.len())).unwrap_or(&0.0);
    let (gray, opacity) = posed(picture, None, Pose { scale, degrees });
    let x = chance.below(image.width().checked_sub(gray.width())? + 1);
    let y = chance.below(image.height().checked_sub(gray.height())? + 1);
    let gain = chance.between(0.5, 1.0);
    let offset = chance.between(0.0, 255.0 * (1.0 - gain));
    let noise = chance.between(0.0, 12.0);
    let stride = image.width();
    for row in 0..gray.height() {
        let begin = (y + row) * stride + x;
        let opacity = opacity.as_ref().map(|opacity| opacity.row(row));
        let target = &mut image.pixels_mut()[begin..begin + gray.width()];
        for (column, (pixel, shade)) in target.iter_mut().zip(gray.row(row)).enumerate() {
            let over = f32::from(*shade) * gain + offset + chance.normal() * noise;
            let part = opacity.map_or(1.0, |opacity| f32::from(opacity[column]) / 255.0);
            *pixel = level(f32::from(*pixel) * (1.0 - part) + over * part);
        }
    }
    Some(Planted { x, y, scale, degrees, gain, offset, noise })
}
