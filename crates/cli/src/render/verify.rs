//! The record of a comparison in words.

use peerlane_results::{ComparedManifest, ComparedSource, Reference, VerifyMode, VerifyRecord};
use peerlane_units::Bytes;

use super::{LabelSheet, counted, differing};

/// The result of a comparison in one line, then the differences; all details where `is_verbose`.
pub(crate) fn verify(record: &VerifyRecord, is_verbose: bool) -> String {
    let mut sheet = LabelSheet::default();
    let target = &record.target.path;
    match &record.against {
        Reference::Source(source) => {
            let answer = short(record, source.mode);
            sheet.line(format_args!("{} and {target}: {answer}", source.end.path));
            if is_verbose {
                details(&mut sheet, record, source);
            }
            for (index, line) in differences(record, source).iter().enumerate() {
                sheet.row(if index == 0 { "differs" } else { "" }, line);
            }
        }
        Reference::Manifest(manifest) => by_manifest(&mut sheet, record, manifest),
    }
    sheet.warnings(&record.warnings);
    sheet.0
}

/// Source and target, times and digests.
fn details(sheet: &mut LabelSheet, record: &VerifyRecord, compared: &ComparedSource) {
    sheet.row("source", super::endpoint(&compared.end));
    sheet.row("target", super::endpoint(&record.target));
    if compared.offset > Bytes::ZERO || record.target_offset > Bytes::ZERO {
        let (source, target) = (compared.offset.0, record.target_offset.0);
        sheet.row("offsets", format_args!("{source} in the source, {target} in the target"));
    }
    let rate = record.rate().map(|rate| format!(", {rate} from each side")).unwrap_or_default();
    sheet.row("time", format_args!("{}{rate}", record.elapsed_ns));
    let rate = record.comparing_rate().map(|rate| format!(", {rate}")).unwrap_or_default();
    let comparing = compared.comparing_ns;
    sheet.row("comparing", format_args!("{comparing} of it, while reads went on{rate}"));
    let digest = &compared.digest;
    let digests = [("source", &digest.source), ("target", &digest.target)];
    for (index, (side, value)) in digests.into_iter().enumerate() {
        let label = if index == 0 { "digests" } else { "" };
        sheet.row(label, format_args!("{} {value} {side}", digest.algorithm));
    }
}

fn differences(record: &VerifyRecord, compared: &ComparedSource) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(first) = &compared.first {
        lines.push(format!(
            "{}; first at offset {} of the source, {} of the target, {}",
            counted(record.mismatches, "block"),
            first.source_offset.0,
            first.target_offset.0,
            bytes(first.length)
        ));
        lines.push(format!("source {}", first.source_bytes));
        lines.push(format!("target {}", first.target_bytes));
    }
    if record.missing > Bytes::ZERO {
        lines.push(format!("the target is {} shorter", bytes(record.missing)));
    }
    if record.surplus > Bytes::ZERO {
        lines.push(format!("the target is {} longer", bytes(record.surplus)));
    }
    lines
}

fn bytes(size: Bytes) -> String {
    counted(size.0, "byte")
}

fn short(record: &VerifyRecord, mode: VerifyMode) -> String {
    let answer = match record.is_equal() {
        true if record.bytes < record.length => no_difference(record.bytes, record.length),
        true => "equal".to_owned(),
        false => "different".to_owned(),
    };
    format!("{answer}, {} of {} bytes compared ({})", record.bytes.0, record.length.0, mode)
}

/// The result of a sample without a difference, with the share that was read.
pub(super) fn no_difference(bytes: Bytes, length: Bytes) -> String {
    let percent = 100.0 * bytes.0 as f64 / length.0.max(1) as f64;
    let percent = match percent {
        ..0.1 => "less than 0.1".to_owned(),
        // Not 100.0 of a part.
        _ => format!("{:.1}", percent.min(99.9)),
    };
    format!("no difference in the sample ({percent} % read)")
}

/// The result of a comparison with a manifest in one line, then the chunks that differ.
fn by_manifest(sheet: &mut LabelSheet, record: &VerifyRecord, manifest: &ComparedManifest) {
    let answer = if record.is_equal() { "equal" } else { "different" };
    let (compared, length) = (record.bytes.0, record.length.0);
    let chunks = differing(record.mismatches, "chunk");
    sheet.line(format_args!(
        "{} and {}: {answer}, {compared} of {length} bytes compared with their digests, {chunks}",
        record.target.path, manifest.path
    ));
    sheet.row("end", super::endpoint(&record.target));
    if record.target_offset > Bytes::ZERO {
        sheet.row("offset", format_args!("{}", bytes(record.target_offset)));
    }
    let after = match manifest.after.as_slice() {
        [] => String::new(),
        stages => format!(", after {}", stages.join(", ")),
    };
    sheet.row(
        "manifest",
        format_args!("chunks of {}, root {}{after}", bytes(manifest.chunk), manifest.root),
    );
    let rate = record.rate().map(|rate| format!(", {rate}")).unwrap_or_default();
    sheet.row("time", format_args!("{}{rate}", record.elapsed_ns));
    for (index, chunk) in manifest.differing.iter().enumerate() {
        let (offset, length) = (chunk.offset.0, bytes(chunk.length));
        let words = format!("{length} at {offset}: {}, was {}", chunk.found, chunk.expected);
        sheet.row(if index == 0 { "differs" } else { "" }, words);
    }
    if record.missing > Bytes::ZERO {
        sheet.row("differs", format_args!("it is {} too short", bytes(record.missing)));
    }
    if record.surplus > Bytes::ZERO {
        sheet.row("differs", format_args!("it is {} too long", bytes(record.surplus)));
    }
}
