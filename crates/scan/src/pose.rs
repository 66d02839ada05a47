//! A picture in another size and rotation.

use crate::Gray;

/// Samples a side of the square that a pixel is the mean of: enough for a quarter of the size.
const SAMPLES: usize = 4;

/// Size and rotation given to the picture before the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pose {
    /// Size over the picture's own.
    pub scale: f32,
    /// Rotation, in degrees, counter-clockwise.
    pub degrees: f32,
}

impl Default for Pose {
    fn default() -> Self {
        Self { scale: 1.0, degrees: 0.0 }
    }
}

impl Pose {
    /// Key that is the same for equal poses only; zero has two signs.
    pub(crate) fn key(self) -> [u32; 2] {
        [self.scale, self.degrees].map(|number| (number + 0.0).to_bits())
    }
}

/// The picture in a pose, and how much each pixel belongs to it; `None` where all belong in full.
pub(crate) fn posed(picture: &Gray, opacity: Option<&Gray>, pose: Pose) -> (Gray, Option<Gray>) {
    if pose == Pose::default() {
        return (picture.clone(), opacity.cloned());
    }
    let (sine, cosine) = pose.degrees.to_radians().sin_cos();
    let (wide, tall) = (picture.width() as f32 * pose.scale, picture.height() as f32 * pose.scale);
    let width = whole(wide * cosine.abs() + tall * sine.abs());
    let height = whole(wide * sine.abs() + tall * cosine.abs());
    let mut gray = Gray::filled(width, height, 0);
    let mut belongs = Gray::filled(width, height, 0);
    for y in 0..height {
        for x in 0..width {
            let (mut sum, mut part) = (0.0, 0.0);
            for sample in 0..SAMPLES * SAMPLES {
                let within = |index: usize| (index as f32 + 0.5) / SAMPLES as f32;
                let right = x as f32 + within(sample % SAMPLES) - width as f32 / 2.0;
                let down = y as f32 + within(sample / SAMPLES) - height as f32 / 2.0;
                // Back by the rotation: rows grow downwards, so counter-clockwise has this sign.
                let from_x =
                    (right * cosine - down * sine) / pose.scale + picture.width() as f32 / 2.0;
                let from_y =
                    (right * sine + down * cosine) / pose.scale + picture.height() as f32 / 2.0;
                if let Some((value, weight)) = between(picture, opacity, from_x, from_y) {
                    sum += value * weight;
                    part += weight;
                }
            }
            let at = y * width + x;
            gray.pixels_mut()[at] = byte(if part > 0.0 { sum / part } else { 0.0 });
            belongs.pixels_mut()[at] = byte(part * 255.0 / (SAMPLES * SAMPLES) as f32);
        }
    }
    let is_whole = belongs.pixels().iter().all(|part| *part == 255);
    (gray, (!is_whole).then_some(belongs))
}

/// Brightness and opacity at a point, linear between the centres of pixels; `None` outside.
fn between(picture: &Gray, opacity: Option<&Gray>, x: f32, y: f32) -> Option<(f32, f32)> {
    let inside = |at: f32, size: usize| (0.0..=size as f32).contains(&at);
    if !inside(x, picture.width()) || !inside(y, picture.height()) {
        return None;
    }
    let ((left, right, along), (top, bottom, down)) =
        (neighbours(x, picture.width()), neighbours(y, picture.height()));
    let mix = |image: &Gray| {
        let line =
            |row: &[u8]| f32::from(row[left]) * (1.0 - along) + f32::from(row[right]) * along;
        line(image.row(top)) * (1.0 - down) + line(image.row(bottom)) * down
    };
    Some((mix(picture), opacity.map_or(1.0, |opacity| mix(opacity) / 255.0)))
}

/// The pixels whose centres are on both sides of a point, and how far towards the second it is.
fn neighbours(at: f32, size: usize) -> (usize, usize, f32) {
    let from = (at - 0.5).max(0.0);
    let first = whole(from.floor()).min(size - 1);
    (first, (first + 1).min(size - 1), (from - from.floor()).clamp(0.0, 1.0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no picture is as large"
)]
pub(crate) fn whole(value: f32) -> usize {
    value.round().max(0.0) as usize
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn byte(value: f32) -> u8 {
    value.clamp(0.0, 255.0).round() as u8
}
