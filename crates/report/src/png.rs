//! Figures as PNG, for documents that take no SVG.
//!
//! Needs a sans-serif font of the machine; without one there would be charts without words, so that is a
//! reason not to make any.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// A picture, named after its title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The name of its file, without the folder: `02-bandwidth-against-block-size.png`.
    pub file: String,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Why there are no pictures.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The machine has no font.
    #[error("this machine has no sans-serif font to write words with")]
    NoFont,
    /// A drawing is not understood.
    #[error("figure `{figure}` cannot be drawn: {reason}")]
    Drawing {
        /// Which figure.
        figure: String,
        /// Why.
        reason: String,
    },
}

impl PngError {
    /// What to do about it.
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
        pixels.encode_png().map_err(|error| failed(error.to_string()))
    }
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
}
