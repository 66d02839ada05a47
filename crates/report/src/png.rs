//! Figures as PNG, for documents that take no SVG.
//!
//! Needs a sans-serif font of the machine; without one there would be charts without words, so that is a
//! reason not to make any.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// A picture, named after its title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PngPicture {
    /// The name of its file, without the folder: `02-bandwidth-against-block-size.png`.
    pub file: String,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Reasons why there are no pictures.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The machine has no font.
    #[error("this machine has no sans-serif font to write words with")]
    NoFont,
    /// A drawing is not understood.
    #[error("figure `{figure}` cannot be drawn: {reason}")]
    Drawing {
        /// Name of the figure.
        figure: String,
        /// Reason why it cannot be drawn.
        reason: String,
    },
}

impl PngError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoFont => {
                Some("install a font, such as the package `fonts-dejavu-core`".to_owned())
            }
            Self::Drawing { .. } => None,
        }
    }
}

/// Pixels for one of the drawing: three hundred dots an inch at the width of a column.
const ZOOM: f32 = 2.5;
/// Most pixels of a side.
const SIDE_MAX: f32 = 12_000.0;
/// Fonts to look for, best first.
const FONTS: [&str; 6] =
    ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Arial", "Helvetica", "FreeSans"];

/// Draws figures.
pub(crate) struct Painter(Options<'static>);

impl Painter {
    /// A painter with the fonts of this machine.
    pub(crate) fn new() -> Result<Self, PngError> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        let has = |name: &str| {
            fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == name))
        };
        let family = FONTS.into_iter().find(|name| has(name)).ok_or(PngError::NoFont)?;
        fonts.set_sans_serif_family(family);
        Ok(Self(Options {
            font_family: family.to_owned(),
            fontdb: Arc::new(fonts),
            ..Options::default()
        }))
    }

    /// An SVG as PNG.
    pub(crate) fn paint(&self, figure: &str, svg: &str) -> Result<Vec<u8>, PngError> {
        let failed = |reason: String| PngError::Drawing { figure: figure.to_owned(), reason };
        let tree = Tree::from_str(svg, &self.0).map_err(|error| failed(error.to_string()))?;
        let size = tree.size();
        let zoom = ZOOM.min(SIDE_MAX / size.width().max(size.height()));
        let side = |length: f32| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped on the line"
            )]
            let pixels = (length * zoom).ceil().clamp(1.0, SIDE_MAX) as u32;
            pixels
        };
        let mut pixels = Pixmap::new(side(size.width()), side(size.height()))
            .ok_or_else(|| failed("it has no size".to_owned()))?;
        resvg::render(&tree, Transform::from_scale(zoom, zoom), &mut pixels.as_mut());
        let plain = pixels.encode_png().map_err(|error| failed(error.to_string()))?;
        signed(&plain).ok_or_else(|| failed("the picture has no header".to_owned()))
    }
}

/// First bytes of a PNG (PNG specification, section 5.2).
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Offset of the second chunk: behind the signature and the header, which is the first chunk and
/// has 13 bytes of data.
const SECOND_CHUNK: usize = 8 + 12 + 13;
/// The keyword for the program that made an image (section 11.3.3.2), and this one.
const SOFTWARE: &[u8] = b"Software\0peerlane report";

/// Number of bytes of a file that [`is_picture`] looks at.
pub const PICTURE_HEAD: u64 = 128;

/// Tests whether a file that begins so is a figure from a report: a PNG whose second chunk says so.
pub fn is_picture(beginning: &[u8]) -> bool {
    beginning.starts_with(SIGNATURE)
        && beginning.get(SECOND_CHUNK..).is_some_and(|rest| rest.starts_with(&mark()))
}

/// A PNG with the mark behind its header.
fn signed(png: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = png.split_at_checked(SECOND_CHUNK)?;
    Some([head, &mark(), rest].concat())
}

/// The chunk that says what made the image (section 5.3): length, type, data, checksum of the last two.
fn mark() -> Vec<u8> {
    let chunk = [b"tEXt", SOFTWARE].concat();
    let length = u32::try_from(SOFTWARE.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), chunk.as_slice(), &crc(&chunk).to_be_bytes()].concat()
}

/// The checksum of a chunk (annex D), bit by bit: there are few.
fn crc(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 0 { crc >> 1 } else { 0xedb8_8320 ^ (crc >> 1) };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

/// The name of a file for a figure: its number, and its title without what file systems and shells
/// have a meaning for.
pub(crate) fn file_name(number: usize, title: &str) -> String {
    let words: String =
        title
            .chars()
            .map(|character| {
                if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { ' ' }
            })
            .collect();
    let words: Vec<&str> = words.split_whitespace().take(8).collect();
    format!("{number:02}-{}.png", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name(3, "../Shares of 10, <p2p>"), "03-shares-of-10-p2p.png");
    }

    #[test]
    fn marked_picture_is_recognised_and_unchanged() {
        let mut pixels = Pixmap::new(3, 2).expect("a picture");
        pixels.data_mut().fill(255);
        let plain = pixels.encode_png().expect("a PNG");
        let marked = signed(&plain).expect("a PNG");
        assert!(is_picture(&marked) && !is_picture(&plain));
        assert!(PICTURE_HEAD >= (SECOND_CHUNK + mark().len()) as u64, "too little is looked at");
        for end in 0..SECOND_CHUNK + mark().len() {
            assert!(!is_picture(&marked[..end]), "{end} bytes are not it");
        }
        assert_eq!(Pixmap::decode_png(&marked).expect("a PNG").data(), pixels.data());
        assert_eq!(signed(&plain[..SECOND_CHUNK - 1]), None);
        // The checksum that the specification gives for the chunk at the end of every PNG.
        assert_eq!(crc(b"IEND"), 0xae42_6082);
    }
}
