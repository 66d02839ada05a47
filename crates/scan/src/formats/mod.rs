//! Decodes the bytes of a file into grey images, in full or at a coarse level.
//!
//! Leaves out where the bytes come from. A file is taken for what its first bytes say, whatever its
//! name is, and what is too large or broken is an error of that image alone.

mod encode;
mod jpeg;
mod known;
mod library;
mod orientation;
mod plain;
mod tiff;

use thiserror::Error;

pub use encode::{Encoding, encode};
pub(crate) use jpeg::means;
use orientation::turned;
pub(crate) use plain::{FileExcerpts, find};

use crate::{Gray, GrayError};

/// Pixels of one image at most: 2^28, as much as a sheet of A0 at 500 dots an inch.
pub(crate) const MOST_PIXELS: u64 = 1 << 28;

/// Reasons why a file gives no image.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The first bytes belong to no format that is read here.
    #[error("not an image that is read here (JPEG, PNG, TIFF, BMP, PGM and WebP are)")]
    Unknown,
    /// They belong to another kind of image.
    #[error("{format} is not read here (JPEG, PNG, TIFF, BMP, PGM and WebP are)")]
    Unread {
        /// Name of the kind.
        format: &'static str,
    },
    /// An animation has more frames than the one that is searched.
    #[error("frames after the first one of an animation are not searched")]
    Frames,
    /// The header says something that cannot be.
    #[error("{format} header: {what}")]
    Header {
        /// Name of the format.
        format: &'static str,
        /// The impossible property.
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
        /// Name of the format.
        format: &'static str,
        /// Bytes there are.
        bytes: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The data of a JPEG end before its pixels do.
    #[error("the JPEG ends early; its missing pixels were searched as grey")]
    Truncated,
    /// The decoder gave up.
    #[error("cannot decode")]
    Decode(#[from] image::ImageError),
    /// The decoder of JPEG gave up.
    #[error("cannot decode JPEG")]
    Jpeg(#[from] zune_jpeg::errors::DecodeErrors),
    /// The decoder gave other pixels than it said.
    #[error("the decoder gave an incomplete image")]
    Incomplete(#[from] GrayError),
}

/// One image of a file.
pub(crate) struct FilePage<'a> {
    /// From 1; `None` where there is one image.
    pub(crate) number: Option<u32>,
    /// The bytes of a JPEG, whose means may be enough.
    pub(crate) jpeg: Option<&'a [u8]>,
    pub(crate) decode: Box<dyn FnOnce() -> Result<Gray, FormatError> + 'a>,
}

/// Hands on every image of a file, in order.
///
/// # Errors
/// [`FormatError`] if the file is not an image, or does not say how many it has.
pub(crate) fn each_page(
    bytes: Vec<u8>,
    take: &mut dyn FnMut(FilePage<'_>),
) -> Result<(), FormatError> {
    if let Some(pixels) = plain::find(bytes.as_slice())? {
        let decode = Box::new(move || Ok(pixels.gray(bytes)?));
        take(FilePage { number: None, jpeg: None, decode });
        return Ok(());
    }
    check_known(&bytes)?;
    if tiff::is_tiff(&bytes) {
        let mut pages = tiff::TiffPages::read(&bytes)?;
        let broken = pages.take_broken();
        let is_one = pages.count() == 1 && broken.is_none();
        let number = |index: usize| (!is_one).then(|| u32::try_from(index + 1).unwrap_or(u32::MAX));
        for index in 0..pages.count() {
            let decode = || tiff_page(&pages, index);
            take(FilePage { number: number(index), jpeg: None, decode: Box::new(decode) });
        }
        if let Some(error) = broken {
            let number = number(pages.count());
            take(FilePage { number, jpeg: None, decode: Box::new(|| Err(error)) });
        }
        return Ok(());
    }
    if bytes.starts_with(&[0xff, 0xd8]) {
        let further = jpeg::further_images(&bytes);
        let is_one = further.is_empty();
        for (number, image) in (1..).zip(std::iter::once(bytes.as_slice()).chain(further)) {
            let decode = Box::new(move || library::decode(image));
            let number = (!is_one).then_some(number);
            take(FilePage { number, jpeg: Some(image), decode });
            if library::ends_early(image) {
                let decode = Box::new(|| Err(FormatError::Truncated));
                take(FilePage { number, jpeg: None, decode });
            }
        }
        return Ok(());
    }
    let is_animation = library::is_animation(&bytes);
    let number = is_animation.then_some(1);
    take(FilePage { number, jpeg: None, decode: Box::new(|| library::decode(&bytes)) });
    if is_animation {
        take(FilePage {
            number: Some(2),
            jpeg: None,
            decode: Box::new(|| Err(FormatError::Frames)),
        });
    }
    Ok(())
}

/// Tests whether a file is of a kind that is read.
///
/// # Errors
/// [`FormatError::Unread`] for other kinds of images, [`FormatError::Unknown`] for all else.
pub(crate) fn check_known(bytes: &[u8]) -> Result<(), FormatError> {
    if tiff::is_tiff(bytes) || library::is_read(bytes) { Ok(()) } else { Err(known::error(bytes)) }
}

fn tiff_page(pages: &tiff::TiffPages<'_>, index: usize) -> Result<Gray, FormatError> {
    let (gray, orientation) = pages.decode(index)?;
    gray_turned(gray, orientation)
}

fn gray_turned(gray: Gray, orientation: u64) -> Result<Gray, FormatError> {
    if !(2..=8).contains(&orientation) {
        return Ok(gray);
    }
    let size = (gray.width(), gray.height());
    let (pixels, (width, height)) = turned(gray.pixels().to_vec(), size, orientation);
    Ok(Gray::new(width, height, pixels)?)
}

/// The image in a file's bytes, the first one of several.
///
/// # Errors
/// [`FormatError`] if the file is not an image, is broken or is too large.
pub fn decode(bytes: Vec<u8>) -> Result<Gray, FormatError> {
    let mut first = None;
    each_page(bytes, &mut |page| {
        if first.is_none() {
            first = Some((page.decode)());
        }
    })?;
    first.unwrap_or(Err(FormatError::Unknown))
}

/// The image, and its opacity if it has one.
///
/// # Errors
/// As [`decode`].
pub fn decode_with_opacity(bytes: Vec<u8>) -> Result<(Gray, Option<Gray>), FormatError> {
    let opacity = match plain::find(bytes.as_slice())? {
        Some(_) => None,
        None => library::opacity(&bytes)?,
    };
    let gray = decode(bytes)?;
    let is_as_large =
        |opacity: &Gray| (opacity.width(), opacity.height()) == (gray.width(), gray.height());
    let opacity = opacity.filter(is_as_large);
    Ok((gray, opacity))
}

/// Grey bytes that lie in a file as they are, row after row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlainPixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) begin: usize,
    pub(crate) stride: usize,
    pub(crate) rows: RowOrder,
}

/// Order of rows in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOrder {
    TopFirst,
    BottomFirst,
}

impl PlainPixels {
    /// Bytes of the file that the rows take.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let begin = self.begin as u64;
        begin..begin + self.stride as u64 * self.height as u64
    }

    fn gray(self, mut bytes: Vec<u8>) -> Result<Gray, GrayError> {
        if self.stride == self.width && self.rows == RowOrder::TopFirst {
            bytes.truncate(self.begin + self.width * self.height);
            return Gray::within(self.width, self.height, self.begin, bytes);
        }
        let mut pixels = Vec::with_capacity(self.width * self.height);
        for y in 0..self.height {
            let row = match self.rows {
                RowOrder::TopFirst => y,
                RowOrder::BottomFirst => self.height - 1 - y,
            };
            let begin = self.begin + row * self.stride;
            pixels.extend_from_slice(&bytes[begin..begin + self.width]);
        }
        Gray::new(self.width, self.height, pixels)
    }
}

/// The size, if it is accepted.
fn checked_size(width: u64, height: u64) -> Result<(usize, usize), FormatError> {
    let large = FormatError::Large { width, height, most: MOST_PIXELS };
    match (usize::try_from(width), usize::try_from(height)) {
        (Ok(w), Ok(h)) if width.checked_mul(height).is_some_and(|n| n <= MOST_PIXELS) => Ok((w, h)),
        _ => Err(large),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use super::*;

    #[test]
    fn pixels_of_file_match_its_bytes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
        let mut plain = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let (bytes, file) = (fs::read(&path).unwrap(), File::open(&path).unwrap());
            let by_bytes = plain::find(bytes.as_slice());
            let by_file = find(&FileExcerpts::new(&file, bytes.len() as u64));
            plain += usize::from(matches!(by_bytes, Ok(Some(_))));
            assert_eq!(format!("{by_bytes:?}"), format!("{by_file:?}"), "{}", path.display());
        }
        assert!(plain > 3, "{plain} have plain pixels");
    }

    #[test]
    fn distant_file_content_is_found() {
        let (width, height) = (700, 611);
        let gray =
            Gray::new(width, height, (0..width * height).map(|n| n.to_le_bytes()[0]).collect());
        let bytes = encode(&gray.unwrap(), Encoding::Tiff).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tiff");
        fs::write(&path, &bytes).unwrap();
        let by_file = find(&FileExcerpts::new(&File::open(&path).unwrap(), bytes.len() as u64));
        let pixels = by_file.unwrap().expect("plain pixels");
        assert_eq!(Some(pixels), plain::find(bytes.as_slice()).unwrap());
        assert_eq!((pixels.width, pixels.height), (width, height));
    }
}
