//! The file of `--status`: use of an export, written anew while it lasts.

use std::path::Path;

use peerlane_engine::export::{ExportMeter, HeldDrive};
use peerlane_nvmet::ExportRequest;
use peerlane_results::{EXPORT_STATUS_SCHEMA, ExportStatus, MemoryKind};

use super::ROOT;
use crate::error::Failure;
use crate::output_file::{OutputFile, OutputKind, has_schema};
use crate::printer::Printer;

/// The longest status that is known as one.
const STATUS_MAX: u64 = 1 << 20;
const STATUS: OutputKind = OutputKind::Marked {
    name: "status of an export",
    most: STATUS_MAX,
    is_ours: |bytes| has_schema(bytes, EXPORT_STATUS_SCHEMA),
};

/// The file, and the meter whose samples it has.
pub(super) struct StatusFile {
    file: OutputFile,
    meter: Option<ExportMeter>,
    written: Option<ExportStatus>,
    is_failing: bool,
}

impl StatusFile {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// As [`OutputFile::at`].
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        let file = OutputFile::at(path, STATUS)?;
        Ok(Self { file, meter: None, written: None, is_failing: false })
    }

    /// Begins to count.
    pub(super) fn begin(
        &mut self,
        held: &HeldDrive,
        request: &ExportRequest,
        (memory, pools): (MemoryKind, Vec<String>),
        printer: Printer,
    ) {
        let names = (request.subsystem.as_str(), request.uuid.as_str());
        self.meter = Some(ExportMeter::new(ROOT.as_ref(), &held.path, names, memory, pools));
        self.write(printer);
    }

    /// Writes a sample where it changed. A file that cannot be written does not end the export.
    pub(super) fn write(&mut self, printer: Printer) {
        if let Some(status) = self.meter.as_mut().map(|meter| meter.sample().clone()) {
            self.put(status, printer);
        }
    }

    /// Writes the last sample.
    pub(super) fn finish(mut self, printer: Printer) {
        if let Some(status) = self.meter.take().map(ExportMeter::finish) {
            self.put(status, printer);
        }
    }

    fn put(&mut self, status: ExportStatus, printer: Printer) {
        if self.written.as_ref() == Some(&status) {
            return;
        }
        let written = self.file.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &status)?;
            writeln!(out)
        });
        match written {
            Ok(()) => (self.written, self.is_failing) = (Some(status), false),
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                printer.warning(&error.on(self.file.path()).in_one_line());
            }
            Err(_) => {}
        }
    }
}
