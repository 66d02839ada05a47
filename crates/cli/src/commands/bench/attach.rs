//! Adds the report of the lab's recorder to the records of runs made meanwhile.

use std::path::Path;

use peerlane_bench::attach::{RecorderAttachError, attach};
use peerlane_evidence::DmaTally;
use peerlane_lab::DMA_SCHEMA;
use peerlane_units::Bytes;
use serde::Deserialize;

use super::keep;
use crate::args::AttachArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{render, small_file};

/// The longest report that is read: one has a line for each drive and memory.
pub(in crate::commands) const REPORT_MAX: u64 = 16 << 20;

/// The needed fields of the recorder's report.
#[derive(Deserialize)]
struct RecorderReport {
    schema: String,
    payload_bytes_p2p: u64,
    payload_bytes_guest_memory: u64,
    payload_bytes_unclassified: u64,
    unaccounted_bytes: u64,
    damaged_lines: u64,
}

/// Attaches, and writes the records again.
pub(super) fn run(args: &AttachArgs, printer: Printer) -> Result<Exit, Failure> {
    let tally = tally(&args.dma)?;
    let mut records =
        args.records.iter().map(|file| keep::read(file)).collect::<Result<Vec<_>, _>>()?;
    attach(&mut records, &tally).map_err(|error| {
        let is_negative = matches!(error, RecorderAttachError::Contradicted { .. });
        let exit = if is_negative { Exit::Negative } else { Exit::Failed };
        let hint = error.hint().map(str::to_owned);
        Failure::new(error).hint(hint).exit(exit)
    })?;
    let outputs = args.records.iter().map(|file| keep::output(file));
    for (mut output, record) in outputs.collect::<Result<Vec<_>, _>>()?.into_iter().zip(&records) {
        keep::write(&mut output, record).map_err(|error| error.on(output.path()))?;
    }
    if printer.is_json() {
        printer.object(&records)?;
    } else {
        for record in &records {
            printer.text(&render::bench(record, &render::OverwrittenRanges::default()))?;
        }
    }
    Ok(Exit::Done)
}

fn tally(file: &Path) -> Result<DmaTally, Failure> {
    let tried = || format!("read the recorder's report {}", file.display());
    let text = small_file::read(file, REPORT_MAX).map_err(Tried::to_read(tried(), file))?;
    let report: RecorderReport = serde_json::from_str(&text).map_err(Tried::to(tried()))?;
    if report.schema != DMA_SCHEMA {
        let error = format!("{} is of schema `{}`", file.display(), report.schema);
        return Err(Failure::new(error).hint("`peerlane lab run --dma FILE` writes one".to_owned()));
    }
    // What was lost may have gone anywhere.
    let lost = report.unaccounted_bytes.saturating_add(report.damaged_lines);
    Ok(DmaTally {
        guest_memory_bytes: Bytes(report.payload_bytes_guest_memory),
        peer_bytes: Bytes(report.payload_bytes_p2p),
        unknown_bytes: Bytes(report.payload_bytes_unclassified.saturating_add(lost)),
    })
}
