//! Formats that a library decodes: JPEG, PNG, TIFF, BMP, WebP, and PGM of other depths.

use std::io::Cursor;

use image::{DynamicImage, ImageReader, Limits};

use super::{FormatError, MOST_PIXELS, checked_size};
use crate::Gray;

/// Bytes that a decoder may allocate: four channels of two bytes each.
const MOST_BYTES: u64 = MOST_PIXELS * 8;

pub(super) fn decode(bytes: &[u8]) -> Result<Gray, FormatError> {
    gray(read(bytes)?)
}

pub(super) fn decode_with_opacity(bytes: &[u8]) -> Result<(Gray, Option<Gray>), FormatError> {
    let image = read(bytes)?;
    let opacity = image.color().has_alpha().then(|| {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let alpha = image.to_luma_alpha8().pixels().map(|pixel| pixel.0[1]).collect();
        Gray::new(width, height, alpha)
    });
    Ok((gray(image)?, opacity.transpose()?))
}

fn read(bytes: &[u8]) -> Result<DynamicImage, FormatError> {
    let open = || -> Result<ImageReader<Cursor<&[u8]>>, FormatError> {
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(|_| FormatError::Unknown)?;
        if reader.format().is_none() {
            return Err(FormatError::Unknown);
        }
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_BYTES);
        reader.limits(limits);
        Ok(reader)
    };
    // Asked first, so that a file of a few bytes that claims to be huge costs nothing.
    let (width, height) = open()?.into_dimensions()?;
    checked_size(width.into(), height.into())?;
    Ok(open()?.decode()?)
}

fn gray(image: DynamicImage) -> Result<Gray, FormatError> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(Gray::new(width, height, image.into_luma8().into_raw())?)
}
