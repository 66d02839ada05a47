//! Comparisons of a target with its source or with a manifest.

use peerlane_results::{ComparedManifest, ComparedSource, Reference, VerifyRecord};
use peerlane_units::Bytes;

use super::{machine_facts, warnings};
use crate::document::{Block, Cell, RecordVerdict, Section, Table, Tone};
use crate::ends::endpoint;
use crate::plain::{count, plain};

/// The verdict on a comparison with its first difference, and its section.
pub(super) fn section(name: &str, record: &VerifyRecord) -> (RecordVerdict, Section) {
    let (content, how) = match &record.against {
        Reference::Source(source) => (&source.end.path, source.mode.to_string()),
        Reference::Manifest(manifest) => (&manifest.path, "digests".to_owned()),
    };
    let (content, target) = (plain(content), plain(&record.target.path));
    let answer = match record.is_equal() {
        true if record.bytes < record.length => no_difference(record.bytes, record.length),
        true => "equal".to_owned(),
        false => "different".to_owned(),
    };
    let (compared, length) = (record.bytes.0, record.length.0);
    let text =
        format!("{content} and {target}: {answer}, {compared} of {length} bytes compared ({how}).");
    let mut facts = vec![("record", plain(name))];
    facts.extend(machine_facts(&record.machine));
    match &record.against {
        Reference::Source(source) => facts.extend(source_facts(record, source)),
        Reference::Manifest(manifest) => facts.extend(manifest_facts(record, manifest)),
    }
    let mut blocks = vec![Block::Facts(facts)];
    if let Reference::Manifest(manifest) = &record.against {
        blocks.extend(chunks(manifest).map(Block::Table));
    }
    blocks.extend(warnings(&record.warnings));
    let tone = if record.is_equal() { Tone::Firm } else { Tone::Bad };
    let verdict = RecordVerdict { tone, basis: "compared", text, more: differences(record) };
    (verdict, Section { heading: format!("verify: {content} and {target}"), blocks })
}

/// The result of a sample without a difference, with the share that was read.
pub fn no_difference(bytes: Bytes, length: Bytes) -> String {
    let percent = 100.0 * bytes.0 as f64 / length.0.max(1) as f64;
    let percent = match percent {
        ..0.1 => "less than 0.1".to_owned(),
        // Not 100.0 of a part.
        _ => format!("{:.1}", percent.min(99.9)),
    };
    format!("no difference in the sample ({percent} % read)")
}

fn bytes(size: Bytes) -> String {
    counted(size.0, "byte")
}

fn counted(number: u64, what: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), what)
}

/// Sentences on content and length.
fn differences(record: &VerifyRecord) -> Vec<String> {
    let mut lines = Vec::new();
    match &record.against {
        Reference::Source(source) => {
            if let Some(first) = &source.first {
                lines.push(format!(
                    "Differing: {}; first at offset {} of the source, {} of the target, {}: source {}, target {}.",
                    counted(record.mismatches, "block"),
                    first.source_offset.0,
                    first.target_offset.0,
                    bytes(first.length),
                    plain(&first.source_bytes),
                    plain(&first.target_bytes)
                ));
            }
        }
        Reference::Manifest(_) if record.mismatches > 0 => {
            lines.push(format!("Differing: {}.", counted(record.mismatches, "chunk")));
        }
        Reference::Manifest(_) => {}
    }
    for (size, word) in [(record.missing, "shorter"), (record.surplus, "longer")] {
        if size > Bytes::ZERO {
            lines.push(format!("The target is {} {word}.", bytes(size)));
        }
    }
    lines
}

fn source_facts(
    record: &VerifyRecord,
    source: &ComparedSource,
) -> impl Iterator<Item = (&'static str, String)> {
    let rate = record.rate().map(|rate| format!(", {rate} from each side")).unwrap_or_default();
    let comparing = record.comparing_rate().map(|rate| format!(", {rate}")).unwrap_or_default();
    let offsets = (source.offset > Bytes::ZERO || record.target_offset > Bytes::ZERO).then(|| {
        let (source, target) = (source.offset.0, record.target_offset.0);
        ("offsets", format!("{source} in the source, {target} in the target"))
    });
    let digest = &source.digest;
    let digests = [&digest.algorithm, &digest.source, &digest.target].map(|part| plain(part));
    let [algorithm, of_source, of_target] = digests;
    let ends = [("source", &source.end), ("target", &record.target)];
    ends.map(|(name, end)| (name, plain(&endpoint(end)))).into_iter().chain(offsets).chain([
        ("time", format!("{}{rate}", record.elapsed_ns)),
        ("comparing", format!("{} of it, while reads went on{comparing}", source.comparing_ns)),
        ("digest", format!("{algorithm}: source {of_source}, target {of_target}")),
    ])
}

fn manifest_facts(
    record: &VerifyRecord,
    manifest: &ComparedManifest,
) -> impl Iterator<Item = (&'static str, String)> {
    let rate = record.rate().map(|rate| format!(", {rate}")).unwrap_or_default();
    let after = match manifest.after.as_slice() {
        [] => String::new(),
        stages => format!(", after {}", stages.join(", ")),
    };
    let (chunk, root) = (bytes(manifest.chunk), &manifest.root);
    let start = record.target_offset;
    let offset = (start > Bytes::ZERO).then(|| ("offset", bytes(start)));
    [("end", plain(&endpoint(&record.target)))].into_iter().chain(offset).chain([
        ("manifest", plain(&format!("chunks of {chunk}, root {root}{after}"))),
        ("time", format!("{}{rate}", record.elapsed_ns)),
    ])
}

fn chunks(manifest: &ComparedManifest) -> Option<Table> {
    let rows: Vec<_> = manifest
        .differing
        .iter()
        .map(|chunk| {
            let (offset, length) = (chunk.offset.0, chunk.length.0);
            vec![
                Cell::number(offset as f64, offset.to_string()),
                Cell::number(length as f64, length.to_string()),
                Cell::text(&chunk.found),
                Cell::text(&chunk.expected),
            ]
        })
        .collect();
    let columns = vec!["offset", "bytes", "digest", "digest in the manifest"];
    (!rows.is_empty()).then(|| Table::new("First chunks that differ", columns, rows))
}
