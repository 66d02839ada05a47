//! What the other machine of a copy wrote about its export.

use std::path::Path;

use peerlane_engine::{FanOut, OtherExport, add_far_status};
use peerlane_results::{EXPORT_STATUS_SCHEMA, ExportStatus};

use crate::error::{Failure, Tried};
use crate::printer::Printer;
use crate::small_file;

/// The longest status that is read: a machine with 256 memories has some 40 KiB.
const STATUS_MAX: u64 = 1 << 20;

/// Reads a status.
///
/// # Errors
/// When the file cannot be read, or is something else.
pub(super) fn read(file: &Path) -> Result<ExportStatus, Failure> {
    let tried = || format!("read the status {}", file.display());
    let text = small_file::read(file, STATUS_MAX).map_err(Tried::to_read(tried(), file))?;
    let status: ExportStatus = serde_json::from_str(&text).map_err(Tried::to(tried()))?;
    if status.schema != EXPORT_STATUS_SCHEMA {
        let error = format!("its schema is {}, not {EXPORT_STATUS_SCHEMA}", status.schema);
        return Err(Tried::to(tried())(error));
    }
    Ok(status)
}

/// Adds the status to the records of copies that are done. They are done also when it cannot be added,
/// which is a warning.
pub(super) fn add(copied: &mut FanOut, file: &Path, printer: Printer) {
    let status = match read(file) {
        Ok(status) => status,
        Err(failure) => {
            let causes: Vec<String> = failure.shown().collect();
            return printer.warning(&causes.join(": "));
        }
    };
    let records = copied.targets.iter_mut().filter_map(|target| target.as_mut().ok());
    let others: Vec<OtherExport> =
        records.filter_map(|record| add_far_status(record, &status).err()).collect();
    if let Some(other) = others.first().filter(|_| others.len() == copied.targets.len()) {
        printer.warning(&format!("{} is not in the record: {other}", file.display()));
    }
}
