//! The first screen of a report: one chart, one table with a row for each benchmark, and the warnings that
//! all records share.

use peerlane_results::{Basis, BenchRecord};

use super::bench::mark;
use super::case::{RanCase, cases, path_colour, path_words};
use super::headline::reference;
use super::sweep::{CasePair, pairs, pairs_with_memory};
use super::{Named, rate};
use crate::chart::{Bars, ChartBar, ValueKind};
use crate::document::{Art, Block, Cell, Figure, RecordVerdict, Section, Table, Tone};
use crate::plain::plain;
use crate::record::Record;

/// One benchmark on the first screen.
struct BenchRow<'a> {
    /// Its section.
    index: usize,
    /// Name of its record's file.
    name: &'a str,
    bench: &'a BenchRecord,
    /// The case that stands for it.
    case: RanCase<'a>,
    /// The same case by host memory, if the record has both.
    host: Option<CasePair<'a>>,
}

impl BenchRow<'_> {
    /// The name of its record without the ending.
    fn label(&self) -> String {
        plain(self.name.strip_suffix(".json").unwrap_or(self.name))
    }
}

/// Blocks of the first screen. The main figure of a single record moves here, and so do warnings and texts that
/// all sections share.
pub(super) fn blocks(records: &[Named], sections: &mut [Section]) -> Vec<Block> {
    let rows: Vec<BenchRow<'_>> = records
        .iter()
        .enumerate()
        .filter_map(|(index, named)| match &named.record {
            Record::Bench(bench) => bench_row(index, &named.name, bench),
            _ => None,
        })
        .collect();
    let figure = match &mut *sections {
        [only] => take_figure(only),
        _ => (rows.len() > 1).then(|| bars(&rows)),
    };
    let mut blocks: Vec<Block> = figure.map(Block::Figure).into_iter().collect();
    if !rows.is_empty() {
        blocks.push(Block::Table(table(&rows)));
    }
    if sections.len() > 1 {
        let shared = take_shared_warnings(sections);
        blocks.extend((!shared.is_empty()).then_some(Block::Warnings(shared)));
        take_shared_texts(sections);
    }
    blocks
}

/// Moves the verdicts on benchmarks among several records to their sections: the first screen has their figures.
pub(super) fn verdicts(
    records: &[Named],
    verdicts: Vec<RecordVerdict>,
    sections: &mut [Section],
) -> Vec<(usize, RecordVerdict)> {
    let is_single = verdicts.len() == 1;
    let mut kept = Vec::new();
    for (index, (verdict, named)) in verdicts.into_iter().zip(records).enumerate() {
        let is_bench = matches!(named.record, Record::Bench(_));
        if is_single || !is_bench || verdict.tone == Tone::Bad {
            kept.push((index, verdict));
            continue;
        }
        let said = std::iter::once(verdict.text).chain(verdict.more);
        let said = said.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        if !said.is_empty() {
            sections[index].blocks.insert(0, Block::Text(said));
        }
    }
    kept
}

fn bench_row<'a>(index: usize, name: &'a str, bench: &'a BenchRecord) -> Option<BenchRow<'a>> {
    let cases = cases(bench);
    let block = reference(&cases);
    let mut found = pairs(&cases);
    if found.is_empty() {
        found = pairs_with_memory(&cases);
    }
    // Of several at that block, the one with the most transfers.
    let rank = |pair: &CasePair<'_>| (Some(pair.block) == block, pair.p2p.spec.flows.len());
    if let Some(pair) = found.into_iter().max_by_key(rank) {
        return Some(BenchRow { index, name, bench, case: pair.p2p.clone(), host: Some(pair) });
    }
    let by_rate =
        |a: &&RanCase<'_>, b: &&RanCase<'_>| a.summary.rate.mean.total_cmp(&b.summary.rate.mean);
    let of_block = || cases.iter().filter(|case| case.block() == block);
    let case = of_block().max_by(by_rate).or(cases.iter().max_by(by_rate))?.clone();
    Some(BenchRow { index, name, bench, case, host: None })
}

fn take_figure(section: &mut Section) -> Option<Figure> {
    let at = section.blocks.iter().position(|block| matches!(block, Block::Figure(_)))?;
    match section.blocks.remove(at) {
        Block::Figure(figure) => Some(figure),
        _ => None,
    }
}

/// A bar for each benchmark, p2p next to host where a record has both.
fn bars(rows: &[BenchRow<'_>]) -> Figure {
    let bar = |row: &BenchRow<'_>, case: &RanCase<'_>| ChartBar {
        name: format!("{} {}", row.label(), path_words(case.path())),
        value: case.summary.rate.mean,
        colour: path_colour(case.path()),
        band: case.summary.rate.confidence,
        limit: None,
        predicted: None,
    };
    let mut bars = Vec::new();
    for row in rows {
        bars.push(bar(row, &row.case));
        bars.extend(row.host.as_ref().map(|pair| bar(row, &pair.host)));
    }
    let chart = Bars {
        about: format!("Rate of one case of each of {} benchmarks, by route.", rows.len()),
        name: "rate",
        values: ValueKind::Rate,
        rows: bars,
    };
    let basis = if has_one_basis(rows) { mark(rows[0].bench.basis) } else { "" };
    Figure {
        title: "Rate by route".to_owned(),
        caption: format!(
            "{basis}Mean of the runs of the case in the table, with its 95 % confidence interval."
        ),
        art: Art::Chart(chart.picture()),
    }
}

fn has_one_basis(rows: &[BenchRow<'_>]) -> bool {
    rows.windows(2).all(|two| two[0].bench.basis == two[1].bench.basis)
}

fn table(rows: &[BenchRow<'_>]) -> Table {
    let row = |row: &BenchRow<'_>| {
        let spread = row.case.summary.rate;
        let half = spread.confidence.map(|(low, high)| (high - low) / 2.0);
        let half = half.map_or_else(String::new, |half| format!(" \u{b1} {}", rate(half)));
        let ratio = row.host.as_ref().and_then(CasePair::ratio);
        vec![
            Cell { link: Some(row.index), ..Cell::text(row.label()) },
            Cell::text(row.case.name().replace("/dev/", "")),
            Cell::text(path_words(row.case.path())),
            Cell::number(spread.mean, rate(spread.mean) + &half),
            ratio.map_or_else(Cell::none, |(ratio, around)| {
                let around = around
                    .map_or_else(String::new, |(low, high)| format!(" ({low:.2} to {high:.2})"));
                Cell::number(ratio, format!("{ratio:.2}{around}"))
            }),
            Cell::text(evidence(row, !has_one_basis(rows))),
        ]
    };
    let caption = if rows.len() == 1 { "The benchmark" } else { "The benchmarks" };
    let columns = vec!["benchmark", "case", "route", "rate", "p2p / host", "evidence"];
    Table {
        is_beside: rows.len() > 1,
        ..Table::new(caption, columns, rows.iter().map(row).collect())
    }
}

fn evidence(row: &BenchRow<'_>, is_mixed: bool) -> String {
    match row.bench.basis {
        Basis::Emulated if is_mixed => format!("{} (emulated)", row.case.summary.verdict),
        Basis::Measured | Basis::Emulated => row.case.summary.verdict.to_string(),
        Basis::Predicted => "none (predicted)".to_owned(),
    }
}

/// The text of a warning without how often a record gave it.
fn once(text: &str) -> &str {
    let counted = text.strip_suffix(" times)").and_then(|front| front.rsplit_once(" ("));
    match counted {
        Some((front, times)) if times.parse::<usize>().is_ok() => front,
        _ => text,
    }
}

/// Removes the warnings that every section has, and returns them.
fn take_shared_warnings(sections: &mut [Section]) -> Vec<(String, String)> {
    let lines = |section: &Section| -> Vec<(String, String)> {
        let blocks = section.blocks.iter();
        let all = blocks.filter_map(|block| match block {
            Block::Warnings(lines) => Some(lines),
            _ => None,
        });
        all.flatten().map(|(text, advice)| (once(text).to_owned(), advice.clone())).collect()
    };
    let mut all = sections.iter().map(lines);
    let mut shared = all.next().unwrap_or_default();
    for found in all {
        shared.retain(|line| found.contains(line));
    }
    for section in sections {
        for block in &mut section.blocks {
            if let Block::Warnings(lines) = block {
                lines.retain(|(text, advice)| {
                    !shared.iter().any(|one| one.0 == once(text) && one.1 == *advice)
                });
            }
        }
        section.blocks.retain(|block| !matches!(block, Block::Warnings(lines) if lines.is_empty()));
    }
    shared
}

/// Removes texts that every section has: the headline says them.
fn take_shared_texts(sections: &mut [Section]) {
    let is_text = |section: &Section, text: &str| {
        section.blocks.iter().any(|block| matches!(block, Block::Text(own) if own == text))
    };
    let texts: Vec<String> = sections.first().map_or_else(Vec::new, |first| {
        let blocks = first.blocks.iter();
        blocks
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.clone()),
                _ => None,
            })
            .collect()
    });
    let shared: Vec<String> = texts
        .into_iter()
        .filter(|text| sections.iter().all(|section| is_text(section, text)))
        .collect();
    for section in sections {
        let is_shared = |block: &Block| matches!(block, Block::Text(own) if shared.contains(own));
        section.blocks.retain(|block| !is_shared(block));
    }
}
