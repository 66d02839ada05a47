//! Donard's two tables: ways to and from a GPU, with page faults as a ratio to the direct one.

use peerlane_results::BenchRecord;

use super::case::path_words;
use super::rate;
use crate::document::{Block, Cell, Table};
use crate::donard::{DonardRow, tables};
use crate::plain::plain;

/// A table for each direction, and a note on the meaning of the ratio.
pub(crate) fn blocks(bench: &BenchRecord) -> Vec<Block> {
    let tables = tables(bench);
    let mut blocks: Vec<Block> = tables
        .iter()
        .map(|table| {
            let (source, target) = (plain(&table.source), plain(&table.target));
            let caption =
                format!("Donard's table: {source} to {target}, blocks of {}", table.block);
            let columns =
                vec!["route", "mean", "page faults a run", "over p2p", "host bytes per byte"];
            Block::Table(Table::new(&caption, columns, table.rows.iter().map(row).collect()))
        })
        .collect();
    if !tables.is_empty() {
        let text = "Page faults of the process over those of p2p are what Donard called DRAM utilisation: \
                    pages that came in, as many at a fault as the kernel likes, and no count of memory traffic. \
                    Host bytes per byte are what a counter of memory counted, where there is one.";
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks
}

fn row(row: &DonardRow) -> Vec<Cell> {
    let mark = if row.is_classical { ", classical" } else { "" };
    let number = |value: Option<f64>, digits: usize, without: &str| {
        value.map_or_else(
            || Cell::text(without),
            |value| Cell::number(value, format!("{value:.digits$}")),
        )
    };
    vec![
        Cell::text(format!("{}{mark}", path_words(Some(row.path)))),
        Cell::number(row.rate, rate(row.rate)),
        number(row.faults, 0, "not counted"),
        number(row.ratio, 1, "\u{2013}"),
        number(row.host_bytes_per_byte, 3, "no counter"),
    ]
}
