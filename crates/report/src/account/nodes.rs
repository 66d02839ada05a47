//! A task on several nodes, and plain records of several machines: each row names its machine.

use peerlane_results::{BenchRecord, NodeRecord, NodesRecord, ScanRecord};

use super::case::{cases, path_words};
use super::{Drawn, Named, bench, rate};
use crate::document::{Block, Cell, RecordVerdict, Section, Table, Tone};
use crate::plain::{count, plain};
use crate::record::Record;

/// Most nodes with figures, and most devices of a node that are named.
const DRAWN_MAX: usize = 16;

/// The verdict on a task on several nodes, and its section.
pub(super) fn section(
    name: &str,
    record: &NodesRecord,
    drawn: &[Drawn<'_>],
) -> (RecordVerdict, Section) {
    let mut facts = vec![("record", plain(name)), ("task", record.what.to_string())];
    facts.push(("time", record.elapsed_ns.to_string()));
    if let Some(parts) = record.parts {
        let words = format!("{}, {} handed out again", parts.total, parts.repeated);
        facts.push(("parts", words));
    }
    let mut blocks = vec![Block::Facts(facts), Block::Table(nodes_table(record))];
    blocks.extend(used_table(record));
    let benches: Vec<(&str, &BenchRecord)> = record
        .nodes
        .iter()
        .filter_map(|node| Some((node.name.as_str(), node.bench.as_deref()?)))
        .collect();
    blocks.extend(cases_table("node", "Every case of every node", &benches));
    blocks.extend(scan_table(record));
    blocks.extend(findings_table(record));
    for (node, bench) in benches.iter().take(DRAWN_MAX) {
        blocks.extend(node_figures(node, bench, drawn));
    }
    let heading = format!("{} on {}", record.what, count(record.nodes.len(), "node"));
    (verdict(record), Section { heading, blocks })
}

fn verdict(record: &NodesRecord) -> RecordVerdict {
    let of = |is: fn(&NodeRecord) -> bool| -> Vec<String> {
        record.nodes.iter().filter(|node| is(node)).map(|node| plain(&node.name)).collect()
    };
    let missing = of(|node| node.missing.is_some());
    let failed = of(|node| node.error.is_some());
    let variants = record.variants.iter().filter(|variant| variant.error.is_some()).count();
    let answered = record.nodes.len() - missing.len() - failed.len();
    let mut text = format!("{answered} of {} answered.", count(record.nodes.len(), "node"));
    if !missing.is_empty() {
        text += &format!(" Missing: {}.", missing.join(", "));
    }
    if !failed.is_empty() {
        text += &format!(" Failed on: {}.", failed.join(", "));
    }
    if variants > 0 {
        text += &format!(" {variants} of {} failed.", count(record.variants.len(), "prediction"));
    }
    let is_whole = missing.is_empty() && failed.is_empty() && variants == 0;
    let mut more: Vec<String> = record
        .nodes
        .iter()
        .filter_map(|node| {
            Some(format!("{}: {}.", plain(&node.name), plain(node.missing.as_ref()?)))
        })
        .collect();
    if record.parts.is_some() && !missing.is_empty() {
        more.push("Its parts were done by other nodes, and each counts once.".to_owned());
    }
    let tone = if is_whole { Tone::Firm } else { Tone::Limited };
    RecordVerdict { tone, basis: "several nodes", text, more }
}

fn nodes_table(record: &NodesRecord) -> Table {
    let row = |node: &NodeRecord| {
        vec![
            Cell::text(&node.name),
            node.hostname.as_ref().map_or_else(Cell::none, Cell::text),
            Cell::text(&node.address),
            Cell::text(state(node)),
            Cell::number(f64::from(node.attempts), node.attempts.to_string()),
            Cell::number(f64::from(node.parts), node.parts.to_string()),
            devices(node),
        ]
    };
    let columns = vec!["node", "host", "address", "state", "attempts", "parts", "devices"];
    Table::new("Nodes", columns, record.nodes.iter().map(row).collect())
}

fn state(node: &NodeRecord) -> String {
    match (&node.missing, &node.error) {
        (Some(reason), _) => format!("missing: {reason}"),
        (None, Some(error)) => {
            let hint = error.hint.iter().map(|hint| format!("; {hint}")).collect::<String>();
            format!("failed: {}{hint}", error.causes.join(": "))
        }
        (None, None) => "answered".to_owned(),
    }
}

fn devices(node: &NodeRecord) -> Cell {
    if node.devices.is_empty() {
        return Cell::none();
    }
    let name =
        |device: &peerlane_results::NodeDevice| format!("{} {}", device.name, device.address);
    let mut names: Vec<String> = node.devices.iter().take(DRAWN_MAX).map(name).collect();
    let more = node.devices.len().saturating_sub(DRAWN_MAX);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    Cell::text(names.join(", "))
}

/// A row for each end of a node, with its device.
fn used_table(record: &NodesRecord) -> Option<Block> {
    let rows: Vec<_> = record
        .nodes
        .iter()
        .flat_map(|node| node.used.iter().map(move |used| (node, used)))
        .map(|(node, used)| {
            vec![
                Cell::text(&node.name),
                Cell::text(&used.end),
                used.address.as_ref().map_or_else(Cell::none, Cell::text),
            ]
        })
        .collect();
    let table = Table::new("Devices used", vec!["node", "end", "PCI address"], rows);
    (!table.rows.is_empty()).then_some(Block::Table(table))
}

/// A row for each case of each node or record; the first column has its name.
fn cases_table(
    first: &'static str,
    caption: &str,
    benches: &[(&str, &BenchRecord)],
) -> Option<Block> {
    let mut rows = Vec::new();
    for (name, bench) in benches {
        for case in cases(bench) {
            let spread = case.summary.rate;
            let rates = |value: f64| Cell::number(value, rate(value));
            rows.push(vec![
                Cell::text(name),
                Cell::text(&bench.machine.name),
                Cell::text(&case.spec.name),
                Cell::text(path_words(case.path())),
                Cell::number(f64::from(spread.count), spread.count.to_string()),
                rates(spread.mean),
                rates(spread.min),
                rates(spread.max),
                Cell::text(super::basis_word(bench.basis)),
                Cell::text(case.summary.verdict.to_string()),
            ]);
        }
    }
    let columns = vec![
        first, "machine", "case", "path", "runs", "mean", "lowest", "highest", "figures", "route",
    ];
    (!rows.is_empty()).then(|| Block::Table(Table::new(caption, columns, rows)))
}

/// A row for the scan of all nodes, or for that of each.
fn scan_table(record: &NodesRecord) -> Option<Block> {
    let own =
        record.nodes.iter().filter_map(|node| Some((node.name.as_str(), node.scan.as_ref()?)));
    let all = record.scan.iter().map(|scan| ("all", scan));
    let row = |(node, scan): (&str, &ScanRecord)| {
        let number = |value: u64| Cell::number(value as f64, value.to_string());
        vec![
            Cell::text(node),
            number(scan.images),
            number(scan.pixels),
            number(scan.hits.len() as u64),
            number(scan.failed.len() as u64),
            number(scan.threads.into()),
            Cell::text(scan.elapsed_ns.to_string()),
        ]
    };
    let rows: Vec<_> = all.chain(own).map(row).collect();
    let columns = vec!["node", "images", "pixels", "hits", "failed", "threads", "time"];
    (!rows.is_empty()).then(|| Block::Table(Table::new("Search", columns, rows)))
}

/// A row for each node with the findings of its examination.
fn findings_table(record: &NodesRecord) -> Option<Block> {
    let mut rows = Vec::new();
    for node in &record.nodes {
        let Some(doctor) = &node.doctor else { continue };
        rows.push(vec![
            Cell::text(&node.name),
            Cell::text(&doctor.verdict),
            Cell::text(uses(doctor)),
            Cell::number(doctor.findings.len() as f64, doctor.findings.len().to_string()),
            Cell::number(doctor.steps.len() as f64, doctor.steps.len().to_string()),
        ]);
    }
    let columns = vec!["node", "verdict", "uses", "findings", "steps"];
    (!rows.is_empty()).then(|| Block::Table(Table::new("Examinations", columns, rows)))
}

fn uses(doctor: &peerlane_results::DoctorRecord) -> String {
    let one = |entry: &peerlane_results::UseAnswer| format!("{}: {}", entry.of_use, entry.state);
    doctor.uses.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn node_figures(node: &str, record: &BenchRecord, drawn: &[Drawn<'_>]) -> Vec<Block> {
    let (_, section) = bench::section(node, record, drawn);
    let figures = section.blocks.into_iter().filter_map(|block| match block {
        Block::Figure(mut figure) => {
            figure.title = format!("{}: {}", plain(node), figure.title);
            Some(Block::Figure(figure))
        }
        _ => None,
    });
    figures.collect()
}

/// Benchmarks of several machines in one table; nothing if all are of one.
pub(super) fn several_machines(records: &[Named]) -> Option<Section> {
    let benches: Vec<(&str, &BenchRecord)> = records
        .iter()
        .filter_map(|named| match &named.record {
            Record::Bench(bench) => Some((named.name.as_str(), bench.as_ref())),
            _ => None,
        })
        .collect();
    let first = &benches.first()?.1.machine.name;
    if benches.iter().all(|(_, bench)| bench.machine.name == *first) {
        return None;
    }
    let table = cases_table("record", "Every case of every machine", &benches)?;
    Some(Section { heading: "Several machines".to_owned(), blocks: vec![table] })
}
