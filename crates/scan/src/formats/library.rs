//! Formats that a library decodes: JPEG, PNG, TIFF, BMP, WebP, and PGM of other depths.

use std::io::Cursor;

use image::{DynamicImage, ImageReader, Limits};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::{FormatError, MOST_PIXELS, checked_size};
use crate::Gray;

/// Bytes that a decoder may allocate: four channels of two bytes each.
const MOST_BYTES: u64 = MOST_PIXELS * 8;

pub(super) fn decode(bytes: &[u8]) -> Result<Gray, FormatError> {
    let is_jpeg = bytes.starts_with(&[0xff, 0xd8]);
    match if is_jpeg { brightness(bytes)? } else { None } {
        Some(gray) => Ok(gray),
        None => gray(read(bytes)?),
    }
}

/// The brightness of a JPEG that stores it apart from colours, which are not decoded then; `None` for
/// other colours. Data that ends early is an error, where the decoder would make up the rest.
fn brightness(bytes: &[u8]) -> Result<Option<Gray>, FormatError> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers()?;
    let Some((width, height)) = decoder.dimensions() else { return Ok(None) };
    checked_size(width as u64, height as u64)?;
    if !matches!(decoder.input_colorspace(), Some(ColorSpace::Luma | ColorSpace::YCbCr)) {
        return Ok(None);
    }
    Ok(Some(Gray::new(width, height, decoder.decode()?)?))
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

/// Whether the first bytes are those of a format that is read here; others are known, too.
pub(crate) fn is_read(bytes: &[u8]) -> bool {
    image::guess_format(bytes).is_ok_and(|format| format.reading_enabled())
}

fn read(bytes: &[u8]) -> Result<DynamicImage, FormatError> {
    let open = || -> Result<ImageReader<Cursor<&[u8]>>, FormatError> {
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(|_| FormatError::Unknown)?;
        if !is_read(bytes) {
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

/// Brightness as JPEG has it (ITU-R BT.601), so that a picture looks the same out of every format.
fn gray(image: DynamicImage) -> Result<Gray, FormatError> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let pixels = if image.color().has_color() {
        let bright = |rgb: [u8; 3]| {
            let [red, green, blue] = rgb.map(u32::from);
            ((19_595 * red + 38_470 * green + 7_471 * blue + (1 << 15)) >> 16).to_be_bytes()[3]
        };
        image.into_rgb8().pixels().map(|pixel| bright(pixel.0)).collect()
    } else {
        image.into_luma8().into_raw()
    };
    Ok(Gray::new(width, height, pixels)?)
}
