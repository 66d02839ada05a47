//! A hit of `peerlane scan`: an image, and the place of the picture in it.

use peerlane_units::Named;
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
    /// Page of the image, from 1; absent where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
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
    /// By `ncc`, normalised cross-correlation in full resolution: 1 is the picture itself. By `donard`, what
    /// Donard's program prints, which only means something next to the score of the picture itself.
    pub score: f32,
    /// Method of the search.
    pub method: ScanMethod,
}

/// Ways to look for a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanMethod {
    /// Normalised cross-correlation, coarse to fine.
    #[default]
    Ncc,
    /// Linear correlation with the edges of the picture by Fourier transform, as in Donard's program.
    Donard,
}

impl Named for ScanMethod {
    const NAMES: &'static [(&'static str, Self)] = &[("ncc", Self::Ncc), ("donard", Self::Donard)];
}
