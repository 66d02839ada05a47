//! Donard's two tables in words.

use peerlane_report::donard::{DonardRow, tables};
use peerlane_results::BenchRecord;

use super::LabelSheet;
use super::bench::{aligned, in_words};

const HEAD: [&str; 5] = ["route", "mean rate", "page faults a run", "over p2p", "host memory B/B"];

/// The tables of a record that has a classical way to or from a GPU.
pub(super) fn show(sheet: &mut LabelSheet, record: &BenchRecord) {
    let tables = tables(record);
    for table in &tables {
        let (source, target) = (&table.source, &table.target);
        sheet.line(format_args!("Donard's table, {source} -> {target}, blocks of {}", table.block));
        let head = HEAD.map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> =
            std::iter::once(head).chain(table.rows.iter().map(row)).collect();
        aligned(&rows).into_iter().for_each(|line| sheet.line(line));
    }
    if !tables.is_empty() {
        sheet.line(
            "page faults of this process over those of p2p are what Donard called DRAM utilisation: pages that \
             came in, as many at a fault as the kernel likes, and no count of memory traffic",
        );
    }
}

fn row(row: &DonardRow) -> Vec<String> {
    let mark = if row.is_classical { " (classical)" } else { "" };
    let number = |value: Option<f64>, digits: usize, without: &str| {
        value.map_or_else(|| without.to_owned(), |value| format!("{value:.digits$}"))
    };
    vec![
        format!("{}{mark}", row.path),
        in_words(row.rate),
        number(row.faults, 0, "not counted"),
        number(row.ratio, 1, "-"),
        number(row.host_bytes_per_byte, 2, "no counter"),
    ]
}
