//! Figures as files of their own, for documents that take no HTML.

use crate::Paper;
use crate::document::{Art, Figure};

/// First line of a report of any form, and of a figure.
pub(crate) const MARK: &str = "<!-- written by peerlane report -->";

/// A figure as SVG, named after its title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureFile {
    /// The name of its file, without the folder: `02-bandwidth-against-block-size.svg`.
    pub file: String,
    /// The file.
    pub svg: String,
}

impl FigureFile {
    /// The figure of this number, counted from 1, of a section.
    pub(crate) fn new(number: usize, section: &str, figure: &Figure) -> Self {
        let svg = match &figure.art {
            Art::Chart(chart) => {
                let note = format!("{} {section}.", figure.caption);
                chart.alone(&figure.title, &note, Paper::Alone)
            }
            Art::Machine { alone, .. } => alone.clone(),
        };
        Self { file: file_name(number, &figure.title), svg: format!("{MARK}\n{svg}") }
    }
}

/// The name of a file for a figure: its number, and its title without special characters of file
/// systems and shells.
fn file_name(number: usize, title: &str) -> String {
    let words: String =
        title
            .chars()
            .map(|character| {
                if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { ' ' }
            })
            .collect();
    let words: Vec<&str> = words.split_whitespace().take(8).collect();
    format!("{number:02}-{}.svg", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name(3, "../Shares of 10, <p2p>"), "03-shares-of-10-p2p.svg");
    }
}
