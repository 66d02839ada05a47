//! Content of a report before it has a form: sections of facts, figures, tables and notes.
//!
//! Built once from the records, written as HTML or Markdown. Text in it is plain and bounded; each
//! form escapes its own special characters.

use crate::chart::ChartPicture;
use crate::plain::plain;

/// A report.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// The verdict on each record, which stands alone.
    pub(crate) texts: Vec<String>,
    /// The verdict on several records together.
    pub(crate) headline: Option<RecordVerdict>,
    /// Verdicts with the position of their sections, without those of the headline.
    pub(crate) verdicts: Vec<(usize, RecordVerdict)>,
    /// The first screen: the main figure, a row for each benchmark, warnings that all records share.
    pub(crate) overview: Vec<Block>,
    pub(crate) sections: Vec<Section>,
}

/// Verdict on one record, in words.
#[derive(Debug, Clone)]
pub(crate) struct RecordVerdict {
    pub(crate) tone: Tone,
    /// Origin of its figures, in a word or two.
    pub(crate) basis: &'static str,
    pub(crate) text: String,
    /// Its grounds, and its limits.
    pub(crate) more: Vec<String>,
}

/// Tones of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// It was measured, and its statement was shown.
    Firm,
    /// It holds with the restriction that it names.
    Limited,
    /// Something is wrong.
    Bad,
}

/// Content of one record.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug)]
pub(crate) enum Block {
    /// Names and values.
    Facts(Vec<(&'static str, String)>),
    /// A sentence or a few.
    Text(String),
    /// A picture.
    Figure(Figure),
    /// A table.
    Table(Table),
    /// Commands of a step, in its words, a line each.
    Commands(String, Vec<String>),
    /// Warnings, each with its advice.
    Warnings(Vec<(String, String)>),
}

/// A picture with its title and caption.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) art: Art,
}

/// A picture.
#[derive(Debug)]
pub(crate) enum Art {
    Chart(ChartPicture),
    /// A drawing of a machine: for a page, and as a file of its own.
    Machine {
        page: String,
        alone: String,
    },
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Set for a long table that serves for look-ups only.
    pub(crate) is_detail: bool,
    /// Set for a narrow table that stands next to a figure.
    pub(crate) is_beside: bool,
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Sort key of numbers.
    pub(crate) sort: Option<f64>,
    /// Position of the section that it leads to.
    pub(crate) link: Option<usize>,
}

impl Cell {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self { text: plain(text.as_ref()), sort: None, link: None }
    }

    pub(crate) fn number(value: f64, text: String) -> Self {
        Self { text, sort: Some(value).filter(|value| value.is_finite()), link: None }
    }

    pub(crate) fn none() -> Self {
        Self { text: "\u{2013}".to_owned(), sort: None, link: None }
    }
}

/// Most rows of a table.
pub(crate) const ROWS_MAX: usize = 1000;

impl Table {
    /// A table of the first rows, whose caption says where there are more.
    pub(crate) fn new(caption: &str, columns: Vec<&'static str>, mut rows: Vec<Vec<Cell>>) -> Self {
        let mut caption = caption.to_owned();
        if rows.len() > ROWS_MAX {
            caption += &format!(" (the first {ROWS_MAX} of {} rows)", rows.len());
            rows.truncate(ROWS_MAX);
        }
        Self { caption, columns, rows, is_detail: false, is_beside: false }
    }

    pub(crate) fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }
}

/// Every figure with its section's heading, in order; that of the first screen has the title of the report, or the
/// heading of the only record.
pub(crate) fn figures(document: &Document) -> impl Iterator<Item = (&str, &Figure)> {
    let heading = match document.sections.as_slice() {
        [only] => only.heading.as_str(),
        _ => document.title.as_str(),
    };
    let first = std::iter::once((heading, document.overview.as_slice()));
    let sections = document.sections.iter();
    first
        .chain(sections.map(|section| (section.heading.as_str(), section.blocks.as_slice())))
        .flat_map(|(heading, blocks)| {
            blocks.iter().filter_map(move |block| match block {
                Block::Figure(figure) => Some((heading, figure)),
                _ => None,
            })
        })
}
