//! A report as lines for a terminal: the same words, tables with aligned columns, without pictures.

use std::fmt::Write as _;

use crate::document::{Block, Cell, Document, Table};

/// Parts of a report that a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalDetail {
    /// All but facts.
    Brief,
    /// All.
    Full,
}

/// The report as text; the name of a record's file is left out.
pub(crate) fn write(document: &Document, detail: TerminalDetail) -> String {
    let mut text = String::new();
    let verdicts = document.verdicts.iter().map(|(_, verdict)| verdict);
    for verdict in document.headline.iter().chain(verdicts) {
        for line in std::iter::once(&verdict.text).chain(&verdict.more) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
    }
    let sections = document.sections.iter().flat_map(|section| &section.blocks);
    let all = document.overview.iter().chain(sections);
    let is_shown =
        |block: &&Block| detail == TerminalDetail::Full || !matches!(block, Block::Facts(_));
    text + &blocks(all.filter(is_shown))
}

/// Some parts of a report.
pub(crate) fn blocks<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> String {
    let mut text = String::new();
    for block in blocks {
        let _ = match block {
            Block::Facts(facts) => write_facts(&mut text, facts),
            Block::Text(words) => writeln!(text, "{words}"),
            Block::Commands(step, lines) => writeln!(text, "{step}\n{}", lines.join("\n")),
            Block::Warnings(warnings) => warnings
                .iter()
                .try_for_each(|(warning, advice)| writeln!(text, "warning: {warning}; {advice}")),
            Block::Table(table) => write_table(&mut text, table),
            // A figure shows what tables say.
            Block::Figure(_) => Ok(()),
        };
    }
    text
}

fn write_facts(text: &mut String, facts: &[(&str, String)]) -> std::fmt::Result {
    let facts = || facts.iter().filter(|(name, _)| *name != "record");
    let width = facts().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts().try_for_each(|(name, value)| writeln!(text, "  {name:width$} {value}"))
}

/// The caption, then the columns that have a value in some row.
fn write_table(text: &mut String, table: &Table) -> std::fmt::Result {
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|&column| table.rows.iter().any(|row| row[column].text != Cell::none().text))
        .collect();
    let mut rows = vec![columns.iter().map(|&column| table.columns[column].to_owned()).collect()];
    rows.extend(table.rows.iter().map(|row| {
        let texts = columns.iter().map(|&column| row[column].text.replace('\u{2013}', "-"));
        texts.collect::<Vec<String>>()
    }));
    writeln!(text, "{}:", table.caption)?;
    aligned(&rows).iter().try_for_each(|line| writeln!(text, "{line}"))
}

/// Rows as lines with aligned columns: numbers at the right, words at the left. The first row has the heads.
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let is_number =
        |cell: &String| cell == "-" || cell.starts_with(|first: char| first.is_ascii_digit());
    let widths: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let width = cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
            (width, column > 0 && cells(column).skip(1).all(is_number))
        })
        .collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (cell, &(width, is_right)) in row.iter().zip(&widths) {
            let _ = match is_right {
                true => write!(text, "  {cell:>width$}"),
                false => write!(text, "  {cell:<width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_words_left() {
        let rows = [["case", "mean", "route"], ["a", "12.0 GB/s", "p2p"], ["bb", "-", "host"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let lines =
            ["  case       mean  route", "  a     12.0 GB/s  p2p", "  bb            -  host"];
        assert_eq!(aligned(&rows), lines);
    }

    #[test]
    fn empty_columns_are_left_out() {
        let row = vec![Cell::text("a"), Cell::none(), Cell::number(3.0, "3".to_owned())];
        let table = Table::new("Each", vec!["case", "why not", "count"], vec![row]);
        assert_eq!(blocks(&[Block::Table(table)]), "Each:\n  case  count\n  a         3\n");
    }
}
