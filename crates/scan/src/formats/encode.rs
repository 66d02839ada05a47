//! Encodes grey images as files.

use std::io::Cursor;

use image::codecs::bmp::BmpEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageFormat};
use peerlane_units::Named;

use crate::Gray;

/// About the default quality of cameras and photo programs.
const JPEG_QUALITY: u8 = 85;

/// Forms that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Netpbm, binary, 8 bit.
    Pgm,
    /// Windows bitmap with a grey palette.
    Bmp,
    /// One strip, uncompressed.
    Tiff,
    /// Grey, quality 85.
    Jpeg,
    /// Grey.
    Png,
    /// Lossless.
    Webp,
}

impl Named for Encoding {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("pgm", Self::Pgm),
        ("bmp", Self::Bmp),
        ("tiff", Self::Tiff),
        ("jpeg", Self::Jpeg),
        ("png", Self::Png),
        ("webp", Self::Webp),
    ];
}

impl Encoding {
    /// Extension of the names of such files.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            other => other.name(),
        }
    }
}

/// The bytes of a file with this image.
///
/// # Errors
/// When the format cannot hold an image of this size.
pub fn encode(image: &Gray, encoding: Encoding) -> Result<Vec<u8>, ImageError> {
    let (width, height) = (side(image.width())?, side(image.height())?);
    let grey = ExtendedColorType::L8;
    let mut out = Vec::new();
    match encoding {
        Encoding::Pgm => {
            out.extend_from_slice(format!("P5\n{width} {height}\n255\n").as_bytes());
            out.extend_from_slice(image.pixels());
        }
        Encoding::Bmp => BmpEncoder::new(&mut out).encode(image.pixels(), width, height, grey)?,
        Encoding::Tiff => return Ok(tiff(image, width, height)),
        Encoding::Jpeg => JpegEncoder::new_with_quality(&mut out, JPEG_QUALITY).write_image(
            image.pixels(),
            width,
            height,
            grey,
        )?,
        Encoding::Png => write(&mut out, image, width, height, ImageFormat::Png)?,
        Encoding::Webp => write(&mut out, image, width, height, ImageFormat::WebP)?,
    }
    Ok(out)
}

fn write(
    out: &mut Vec<u8>,
    image: &Gray,
    width: u32,
    height: u32,
    format: ImageFormat,
) -> Result<(), ImageError> {
    let grey = ExtendedColorType::L8;
    image::write_buffer_with_format(
        &mut Cursor::new(out),
        image.pixels(),
        width,
        height,
        grey,
        format,
    )
}

fn side(pixels: usize) -> Result<u32, ImageError> {
    u32::try_from(pixels).map_err(|_| {
        let kind = image::error::ParameterErrorKind::DimensionMismatch;
        ImageError::Parameter(image::error::ParameterError::from_kind(kind))
    })
}

/// TIFF 6.0 section 4 (baseline grey): the directory after the header, one strip after it.
fn tiff(image: &Gray, width: u32, height: u32) -> Vec<u8> {
    const SHORT: u16 = 3;
    const LONG: u16 = 4;
    let begin = 8 + 2 + 9 * 12 + 4;
    let entries: [(u16, u16, u32); 9] = [
        (256, LONG, width),
        (257, LONG, height),
        (258, SHORT, 8),
        (259, SHORT, 1),
        (262, SHORT, 1),
        (273, LONG, begin),
        (277, SHORT, 1),
        (278, LONG, height),
        (279, LONG, width * height),
    ];
    let mut out = b"II\x2a\x00\x08\x00\x00\x00\x09\x00".to_vec();
    for (tag, kind, value) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(image.pixels());
    out
}
