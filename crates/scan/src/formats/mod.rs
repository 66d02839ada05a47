//! Images out of the bytes of a file: grey, in full or at a coarse level.
//!
//! Leaves out where the bytes come from. The one thing to know: a file is taken for what its first
//! bytes say, whatever its name is, and what is too large or broken is an error of that image alone.

mod library;
mod plain;

use std::borrow::Cow;

use thiserror::Error;

use crate::{Gray, GrayError};

/// Pixels of one image at most: 2^28, as much as a sheet of A0 at 500 dots an inch.
pub const MOST_PIXELS: u64 = 1 << 28;

/// Why a file gives no image.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The first bytes belong to no format that is read here.
    #[error("not an image that is read here (JPEG, PNG, TIFF, BMP, PGM and WebP are)")]
    Unknown,
    /// The header says something that cannot be.
    #[error("{format} header: {what}")]
    Header {
        /// Which format.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// More pixels than are taken.
    #[error("{width} x {height} pixels are more than the {most} that one image may have")]
    Large {
        /// Pixels in a row.
        width: u64,
        /// Rows.
        height: u64,
        /// The most.
        most: u64,
    },
    /// The file ends before its pixels do.
    #[error("{format}: the file ends after {bytes} bytes, and its pixels at {needed}")]
    Short {
        /// Which format.
        format: &'static str,
        /// Bytes there are.
        bytes: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The decoder gave up.
    #[error("cannot decode")]
    Decode(#[from] image::ImageError),
    /// The decoder gave other pixels than it said.
    #[error("the decoder gave an incomplete image")]
    Incomplete(#[from] GrayError),
}

/// The image in a file's bytes.
///
/// # Errors
/// [`FormatError`] for what is no image, or is broken, or too large.
pub fn decode(bytes: &[u8]) -> Result<Gray, FormatError> {
    match plain::find(bytes)? {
        Some(pixels) => Ok(pixels.gray()?),
        None => library::decode(bytes),
    }
}

/// The image and its opacity, where it has one.
///
/// # Errors
/// As [`decode`].
pub fn decode_with_opacity(bytes: &[u8]) -> Result<(Gray, Option<Gray>), FormatError> {
    match plain::find(bytes)? {
        Some(pixels) => Ok((pixels.gray()?, None)),
        None => library::decode_with_opacity(bytes),
    }
}

/// Grey bytes that lie in a file as they are, row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainPixels<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) stride: usize,
    pub(crate) is_bottom_up: bool,
    pub(crate) bytes: &'a [u8],
}

impl PlainPixels<'_> {
    fn gray(&self) -> Result<Gray, GrayError> {
        let rows = self.bytes.chunks(self.stride).take(self.height);
        let cut = |row: &'_ [u8]| row[..self.width.min(row.len())].to_vec();
        let pixels: Cow<'_, [u8]> = if self.stride == self.width && !self.is_bottom_up {
            Cow::Borrowed(&self.bytes[..self.width * self.height])
        } else if self.is_bottom_up {
            Cow::Owned(rows.rev().flat_map(cut).collect())
        } else {
            Cow::Owned(rows.flat_map(cut).collect())
        };
        Gray::new(self.width, self.height, pixels.into_owned())
    }
}

/// The size, where it is one that is taken.
pub(crate) fn checked_size(width: u64, height: u64) -> Result<(usize, usize), FormatError> {
    let large = FormatError::Large { width, height, most: MOST_PIXELS };
    match (usize::try_from(width), usize::try_from(height)) {
        (Ok(w), Ok(h)) if width.checked_mul(height).is_some_and(|n| n <= MOST_PIXELS) => Ok((w, h)),
        _ => Err(large),
    }
}
