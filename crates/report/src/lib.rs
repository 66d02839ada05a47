//! Records for people: HTML, Markdown, lines for a terminal, CSV, SVG, traces. One file a format.
//!
//! Leaves out measuring and predicting. It shows what records hold and never computes a figure that
//! they do not support.
#![forbid(unsafe_code)]

mod account;
mod chart;
mod csv;
mod document;
mod donard;
mod ends;
pub mod examination;
mod figure;
mod html;
mod ink;
pub mod machine;
mod markdown;
mod node_labels;
mod plain;
mod record;
pub mod sheet;
mod terminal;
pub mod trace;

pub use account::{Drawn, Named, no_difference};
pub use ends::endpoint;
pub use figure::FigureFile;
pub(crate) use ink::Paper;
pub use node_labels::{LABELS_MARK, node_labels};
pub use record::{RECORD_MAX, ReadError, Record};
pub use terminal::{TerminalDetail, aligned};

use peerlane_results::BenchRecord;

use document::Document;

/// A report in the making.
#[derive(Debug)]
pub struct Report<'a> {
    records: &'a [Named],
    document: Document,
}

/// A page that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the page cannot be written")]
pub struct PageError(#[source] minijinja::Error);

impl<'a> Report<'a> {
    /// The report of some records, under a title of its own where one is given. Loads are drawn on the machines
    /// that records hold, and on `drawn` for those that hold none.
    pub fn new(records: &'a [Named], title: Option<&str>, drawn: &[Drawn<'_>]) -> Self {
        Self { records, document: account::document(records, title, drawn) }
    }

    /// As one HTML page that fetches nothing.
    ///
    /// # Errors
    /// When the template fails, which no record should bring about.
    pub fn html(&self) -> Result<String, PageError> {
        html::write(&self.document).map(|page| page + "\n").map_err(PageError)
    }

    /// As Markdown, without pictures.
    pub fn markdown(&self) -> String {
        markdown::write(&self.document)
    }

    /// As lines for a terminal, without pictures.
    pub fn terminal(&self, detail: TerminalDetail) -> String {
        terminal::write(&self.document, detail)
    }

    /// As comma-separated values, a line for each run, and the names of records that have none.
    pub fn csv(&self) -> (String, Vec<String>) {
        csv::write(self.records)
    }

    /// Every figure as a file of its own.
    pub fn figures(&self) -> Vec<FigureFile> {
        document::figures(&self.document)
            .enumerate()
            .map(|(index, (section, figure))| FigureFile::new(index + 1, section, figure))
            .collect()
    }

    /// The headline of several records.
    pub fn headline(&self) -> Option<&str> {
        self.document.headline.as_ref().map(|verdict| verdict.text.as_str())
    }

    /// The verdicts in words, one a line.
    pub fn verdicts(&self) -> impl Iterator<Item = &str> {
        self.document.texts.iter().map(String::as_str)
    }
}

/// Donard's two tables as lines for a terminal, with their meaning; empty for a record without a classical way.
pub fn donard_tables(record: &BenchRecord) -> String {
    terminal::blocks(&account::donard::blocks(record))
}

/// Tests whether a file begins as reports and their figures do; writing over it then loses nothing
/// else.
pub fn is_report(beginning: &str) -> bool {
    beginning.strip_prefix("<!doctype html>\n").unwrap_or(beginning).starts_with(figure::MARK)
        || csv::is_own(beginning)
}
