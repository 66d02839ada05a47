//! A place where a picture is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of a hit.
pub const HIT_SCHEMA: &str = "peerlane.hit/1";

/// One place where a picture is; `peerlane scan --json` prints one a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HitRecord {
    /// [`HIT_SCHEMA`].
    pub schema: String,
    /// Path of the image, or `ARCHIVE:MEMBER`.
    pub image: String,
    /// Left edge of the picture, in pixels of the image.
    pub x: usize,
    /// Top edge, in pixels.
    pub y: usize,
    /// Pixels in a row of the picture as it was found.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Size over the picture's own.
    pub scale: f32,
    /// Rotation in degrees, counter-clockwise.
    pub degrees: f32,
    /// Normalised cross-correlation in full resolution: 1 is the picture itself.
    pub score: f32,
}
