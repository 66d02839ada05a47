//! Images that have something to mistake for a picture: clouds, gradients, shapes, noise.

use super::chance::Chance;
use crate::Gray;

/// An image of one of several kinds.
pub(super) fn image(chance: &mut Chance, width: usize, height: usize) -> Gray {
    match chance.below(4) {
        0 => clouds(chance, width, height),
        1 => gradient(chance, width, height),
        2 => collage(chance, width, height),
        _ => grain(chance, width, height),
    }
}

/// A mark: a plate with bars, discs and a frame, of strong contrast.
pub(super) fn mark(chance: &mut Chance) -> Gray {
    let (width, height) = (300 + chance.below(120), 110 + chance.below(50));
    let mut mark = Gray::filled(width, height, 235);
    for _ in 0..14 {
        let dark = level(chance.between(10.0, 130.0));
        if chance.below(2) == 0 {
            let (w, h) = (8 + chance.below(width / 5), 8 + chance.below(height / 2));
            let (x, y) = (chance.below(width - w), chance.below(height - h));
            fill(&mut mark, x, y, w, h, dark);
        } else {
            let radius = 6 + chance.below(height / 3);
            let (x, y) = (chance.below(width), chance.below(height));
            disc(&mut mark, x, y, radius, dark);
        }
    }
    for edge in 0..4 {
        fill(&mut mark, 0, edge, width, 1, 30);
        fill(&mut mark, 0, height - 1 - edge, width, 1, 30);
        fill(&mut mark, edge, 0, 1, height, 30);
        fill(&mut mark, width - 1 - edge, 0, 1, height, 30);
    }
    mark
}

/// Noise of several sizes, each half as strong as the next larger one.
fn clouds(chance: &mut Chance, width: usize, height: usize) -> Gray {
    let mut sum = vec![0.0_f32; width * height];
    let mut strength = 80.0;
    for cell in [512, 128, 32, 8] {
        add_octave(chance, &mut sum, width, cell, strength);
        strength *= chance.between(0.35, 0.65);
    }
    let pixels = sum.iter().map(|value| level(value + 128.0)).collect();
    Gray::new(width, height, pixels).unwrap_or_else(|_| Gray::filled(width, height, 128))
}

/// Adds numbers between minus and plus `strength`, on a grid of `cell` pixels, linear between.
fn add_octave(chance: &mut Chance, sum: &mut [f32], width: usize, cell: usize, strength: f32) {
    let columns = width / cell + 2;
    let draw = |chance: &mut Chance| -> Vec<f32> {
        (0..columns).map(|_| chance.between(-strength, strength)).collect()
    };
    let (mut above, mut below) = (draw(chance), draw(chance));
    for (y, row) in sum.chunks_exact_mut(width).enumerate() {
        if y > 0 && y % cell == 0 {
            above = std::mem::replace(&mut below, draw(chance));
        }
        let down = (y % cell) as f32 / cell as f32;
        let grid: Vec<f32> = above.iter().zip(&below).map(|(a, b)| a + (b - a) * down).collect();
        for (part, ends) in row.chunks_mut(cell).zip(grid.windows(2)) {
            for (x, value) in part.iter_mut().enumerate() {
                *value += ends[0] + (ends[1] - ends[0]) * (x as f32 / cell as f32);
            }
        }
    }
}

fn gradient(chance: &mut Chance, width: usize, height: usize) -> Gray {
    let mut image = Gray::filled(width, height, 0);
    let (right, down) = (chance.between(-0.1, 0.1), chance.between(-0.1, 0.1));
    let (wave, depth) = (chance.between(0.005, 0.2), chance.between(0.0, 40.0));
    let begin = chance.between(60.0, 190.0);
    let ripple: Vec<f32> = (0..width).map(|x| (x as f32 * wave).sin() * depth).collect();
    for (y, row) in image.pixels_mut().chunks_exact_mut(width).enumerate() {
        let first = begin + y as f32 * down;
        for (x, (pixel, ripple)) in row.iter_mut().zip(&ripple).enumerate() {
            *pixel = level(first + x as f32 * right + ripple);
        }
    }
    speckle(chance, &mut image, 3.0);
    image
}

/// Many shapes over one another, as clip art has.
fn collage(chance: &mut Chance, width: usize, height: usize) -> Gray {
    let mut image = Gray::filled(width, height, level(chance.between(120.0, 255.0)));
    let most = (width.min(height) / 4).max(2);
    for _ in 0..width * height / 12_000 {
        let shade = level(chance.between(0.0, 255.0));
        let size = 3 + chance.below(most);
        let (x, y) = (chance.below(width), chance.below(height));
        if chance.below(2) == 0 {
            let tall = 3 + chance.below(most);
            fill(&mut image, x, y, size, tall, shade);
        } else {
            disc(&mut image, x, y, size / 2 + 1, shade);
        }
    }
    image
}

fn grain(chance: &mut Chance, width: usize, height: usize) -> Gray {
    let mut image = Gray::filled(width, height, level(chance.between(80.0, 180.0)));
    let strength = chance.between(10.0, 50.0);
    speckle(chance, &mut image, strength);
    image
}

/// Adds noise of `deviation` grey levels to all of an image.
fn speckle(chance: &mut Chance, image: &mut Gray, deviation: f32) {
    for pixel in image.pixels_mut() {
        *pixel = level(f32::from(*pixel) + chance.normal() * deviation);
    }
}

fn fill(image: &mut Gray, x: usize, y: usize, width: usize, height: usize, shade: u8) {
    let right = (x + width).min(image.width());
    let stride = image.width();
    for row in y..(y + height).min(image.height()) {
        image.pixels_mut()[row * stride + x..row * stride + right].fill(shade);
    }
}

fn disc(image: &mut Gray, x: usize, y: usize, radius: usize, shade: u8) {
    let stride = image.width();
    for row in y.saturating_sub(radius)..(y + radius + 1).min(image.height()) {
        let half = (radius * radius - y.abs_diff(row).pow(2)).isqrt();
        let right = (x + half + 1).min(stride);
        image.pixels_mut()[row * stride + x.saturating_sub(half)..row * stride + right].fill(shade);
    }
}

/// The nearest grey level.
pub(super) fn level(value: f32) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    let level = value.clamp(0.0, 255.0).round() as u8;
    level
}
