//! Formats that a library decodes: JPEG, PNG, TIFF, BMP, WebP, and PGM of other depths.

use std::io::Cursor;

use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
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
    let (gray, orientation) = match if is_jpeg { brightness(bytes)? } else { None } {
        Some(gray) => (gray, super::jpeg::orientation(bytes)),
        None => {
            let (image, orientation) = read(bytes)?;
            (gray(image)?, orientation)
        }
    };
    super::gray_turned(gray, orientation)
}

/// Tests whether a PNG or WebP says that it has several frames.
pub(super) fn is_animation(bytes: &[u8]) -> bool {
    let png = || PngDecoder::new(Cursor::new(bytes)).and_then(|decoder| decoder.is_apng());
    let webp = || WebPDecoder::new(Cursor::new(bytes)).map(|decoder| decoder.has_animation());
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => png().unwrap_or(false),
        Ok(ImageFormat::WebP) => webp().unwrap_or(false),
        _ => false,
    }
}

/// The brightness of a JPEG that stores it apart from colours, which are not decoded then; `None` for
/// other colours.
fn brightness(bytes: &[u8]) -> Result<Option<Gray>, FormatError> {
    // Stray bytes and data that end early: libjpeg-turbo warns of both, and decodes the rest.
    brightness_by(bytes, Strictness::Strict)
        .or_else(|strict| brightness_by(bytes, Strictness::Lenient).map_err(|_| strict))
}

/// Tests whether the data of a JPEG end before its pixels do.
pub(super) fn ends_early(bytes: &[u8]) -> bool {
    let options = options(Strictness::Strict);
    let decode = || JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode();
    !super::jpeg::has_end(bytes) && decode().is_err()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Strict,
    Lenient,
}

fn options(strictness: Strictness) -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(strictness == Strictness::Strict)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
}

fn brightness_by(bytes: &[u8], strictness: Strictness) -> Result<Option<Gray>, FormatError> {
    let options = options(strictness).jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers()?;
    let Some((width, height)) = decoder.dimensions() else { return Ok(None) };
    checked_size(width as u64, height as u64)?;
    if !matches!(decoder.input_colorspace(), Some(ColorSpace::Luma | ColorSpace::YCbCr)) {
        return Ok(None);
    }
    Ok(Some(Gray::new(width, height, decoder.decode()?)?))
}

/// The opacity of an image that has one.
pub(super) fn opacity(bytes: &[u8]) -> Result<Option<Gray>, FormatError> {
    // What cannot be read here has its error where it is decoded.
    let Ok((image, orientation)) = read(bytes) else { return Ok(None) };
    if !image.color().has_alpha() {
        return Ok(None);
    }
    let (width, height) = (image.width() as usize, image.height() as usize);
    let alpha = image.to_luma_alpha8().pixels().map(|pixel| pixel.0[1]).collect();
    super::gray_turned(Gray::new(width, height, alpha)?, orientation).map(Some)
}

/// Tests whether the first bytes are those of a format that is read here; others are known, too.
pub(crate) fn is_read(bytes: &[u8]) -> bool {
    image::guess_format(bytes).is_ok_and(|format| format.reading_enabled())
}

fn read(bytes: &[u8]) -> Result<(DynamicImage, u64), FormatError> {
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
    let mut decoder = open()?.into_decoder()?;
    // A TIFF has the tag itself, where Exif data have it in a block of their own, with or without their mark.
    let orientation = match decoder.exif_metadata() {
        Ok(Some(exif)) => {
            let block = exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif);
            super::tiff::first_number(block, 274).unwrap_or(1)
        }
        _ => decoder.orientation().map_or(1, |orientation| orientation.to_exif().into()),
    };
    Ok((DynamicImage::from_decoder(decoder)?, orientation))
}

/// Brightness as JPEG has it (ITU-R BT.601), which makes a picture look the same in every format.
pub(super) fn bright(rgb: [u8; 3]) -> u8 {
    let [red, green, blue] = rgb.map(u32::from);
    ((19_595 * red + 38_470 * green + 7_471 * blue + (1 << 15)) >> 16).to_be_bytes()[3]
}

fn gray(image: DynamicImage) -> Result<Gray, FormatError> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let pixels = if image.color().has_color() {
        image.into_rgb8().pixels().map(|pixel| bright(pixel.0)).collect()
    } else {
        image.into_luma8().into_raw()
    };
    Ok(Gray::new(width, height, pixels)?)
}
