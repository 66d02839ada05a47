//! Content of a report: verdicts in words, figures, tables. The same for every form of it.
//!
//! Nothing is computed that a record does not support: a missing figure is said to be missing.

mod bench;
mod case;
mod compare;
mod copies;
mod crowd;
pub(crate) mod donard;
mod headline;
mod latency;
mod loads;
mod machines;
mod matrix;
mod nodes;
mod order;
mod overview;
mod predicted;
mod rows;
mod summary;
mod sweep;
mod tables;
mod verify;
mod ways;

use std::collections::HashMap;

use peerlane_fabric::Fabric;
use peerlane_results::{Basis, Limit, Machine, Warning};

use crate::chart::ValueKind;
use crate::document::{Block, Document, Section};
use crate::plain::{count, plain};
use crate::record::Record;

pub use verify::no_difference;

/// A record and its name to a person: that of its file.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The record.
    pub record: Record,
}

/// A machine to draw loads on.
#[derive(Debug, Clone, Copy)]
pub struct Drawn<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Its digest, as records have it.
    pub digest: &'a str,
    /// True when a person named it; else it is shown only for records of this digest.
    pub is_named: bool,
}

/// The report of some records.
pub(crate) fn document(records: &[Named], title: Option<&str>, drawn: &[Drawn<'_>]) -> Document {
    let mut verdicts = Vec::new();
    let mut sections = Vec::new();
    for named in records {
        let section = match &named.record {
            Record::Bench(record) => bench::section(&named.name, record, drawn),
            Record::Copy(record) => copies::copies(&named.name, record),
            Record::Verify(record) => verify::section(&named.name, record),
            Record::Compare(record) => compare::section(&named.name, record),
            Record::Doctor(record) => machines::doctor(&named.name, record),
            Record::Plan(record) => machines::plans(&named.name, record),
            Record::Nodes(record) => nodes::section(&named.name, record, drawn),
        };
        verdicts.push(section.0);
        sections.push(section.1);
    }
    tell_apart(records, &mut sections);
    let benches: Vec<_> = records
        .iter()
        .filter_map(|named| match &named.record {
            Record::Bench(bench) => Some((named.name.as_str(), bench.as_ref())),
            _ => None,
        })
        .collect();
    sections.extend(nodes::several_machines(records));
    sections.extend(predicted::sections(&benches));
    let title = title.map_or_else(|| title_of(records), plain);
    let texts = verdicts.iter().map(|verdict| verdict.text.clone()).collect();
    let headline = summary::headline(records, &mut verdicts);
    let own = records.len().min(sections.len());
    let overview = overview::blocks(records, &mut sections[..own]);
    let verdicts = overview::verdicts(records, verdicts, &mut sections);
    Document { title, texts, headline, verdicts, overview, sections }
}

/// Adds the name of the record to headings that several have.
fn tell_apart(records: &[Named], sections: &mut [Section]) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for section in sections.iter() {
        *times.entry(section.heading.clone()).or_default() += 1;
    }
    for (named, section) in records.iter().zip(sections) {
        if times.get(&section.heading).is_some_and(|times| *times > 1) {
            section.heading += &format!(" ({})", plain(&named.name));
        }
    }
}

fn title_of(records: &[Named]) -> String {
    match records {
        [Named { record: Record::Bench(bench), .. }] => plain(&bench.asked.name),
        [one] => plain(&one.name),
        several => format!("Report of {}", count(several.len(), "record")),
    }
}

/// A rate in words.
fn rate(bytes_per_second: f64) -> String {
    ValueKind::Rate.long(bytes_per_second)
}

/// The known facts of the machine.
fn machine_facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let kernel = machine.kernel.as_deref().unwrap_or("not stated");
    vec![
        ("machine", plain(&machine.name)),
        ("fabric", format!("digest {}", plain(&machine.fabric))),
        ("kernel", plain(kernel)),
        ("program", format!("peerlane {}", plain(&machine.program))),
    ]
}

/// Most different warnings that are shown.
const WARNINGS_MAX: usize = 50;

/// Most warnings with one advice that are shown one by one.
const ALIKE_MAX: usize = 3;

/// The warnings, each once, with how often it was given; of many with one advice the first.
fn warnings<'a>(all: impl IntoIterator<Item = &'a Warning>) -> Option<Block> {
    let mut found: Vec<(&Warning, usize)> = Vec::new();
    for warning in all {
        match found.iter().position(|(known, _)| *known == warning) {
            Some(place) => found[place].1 += 1,
            None if found.len() < WARNINGS_MAX => found.push((warning, 1)),
            None => {}
        }
    }
    let lines: Vec<_> = found
        .into_iter()
        .map(|(warning, times)| {
            let often = if times > 1 { format!(" ({times} times)") } else { String::new() };
            (plain(&warning.to_string()) + &often, warning.advice().to_owned())
        })
        .collect();
    let lines = fold_alike(lines);
    (!lines.is_empty()).then_some(Block::Warnings(lines))
}

fn fold_alike(lines: Vec<(String, String)>) -> Vec<(String, String)> {
    let alike = |advice: &str| lines.iter().filter(|line| line.1 == advice).count();
    let mut folded: Vec<(String, String)> = Vec::new();
    for (text, advice) in &lines {
        let all = alike(advice);
        if all <= ALIKE_MAX {
            folded.push((text.clone(), advice.clone()));
        } else if !folded.iter().any(|(_, known)| known == advice) {
            folded.push((format!("{text}, and {} like it", all - 1), advice.clone()));
        }
    }
    folded
}

fn limit_words(limit: &Limit) -> String {
    format!("{}: {}", plain(&limit.object), limit.bytes_per_second)
}

/// The origin of figures, as a value.
pub(crate) fn basis_word(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Emulated => "emulated",
        Basis::Predicted => "predicted",
    }
}
