//! The other machine's account of an export that is an end of a copy.

use std::path::Path;
use std::time::{Duration, Instant};

use peerlane_engine::{FanOut, FarStatus, OtherExport};
use peerlane_results::{EXPORT_STATUS_SCHEMA, ExportStatus};

use crate::error::{Failure, Tried};
use crate::printer::Printer;
use crate::small_file;

/// The longest status that is read: a machine with 256 memories has some 40 KiB.
const STATUS_MAX: u64 = 1 << 20;

/// Longest wait for the last account of a copy: it is written each second.
const LATEST: Duration = Duration::from_secs(3);
/// Time between two looks at it.
const INTERVAL: Duration = Duration::from_millis(200);

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

/// Adds the account to the records of copies that are done. They are done also when it cannot be added,
/// which is a warning.
pub(super) fn add(copied: &mut FanOut, before: &ExportStatus, file: &Path, printer: Printer) {
    let after = match read_when_counted(copied, before, file) {
        Ok(after) => after,
        Err(failure) => return printer.warning(&failure.in_one_line()),
    };
    let status = FarStatus { before, after: &after };
    let records = copied.targets.iter_mut().filter_map(|target| target.as_mut().ok());
    let others: Vec<OtherExport> =
        records.filter_map(|record| status.add_to(record).err()).collect();
    if let Some(other) = others.first().filter(|_| others.len() == copied.targets.len()) {
        printer.warning(&format!("{} is not in the record: {other}", file.display()));
    }
}

/// Reads the account again until it has the payload of all copies, for as long as an account may be late.
fn read_when_counted(
    copied: &FanOut,
    before: &ExportStatus,
    file: &Path,
) -> Result<ExportStatus, Failure> {
    let end = Instant::now() + LATEST;
    loop {
        let after = read(file)?;
        let status = FarStatus { before, after: &after };
        let mut records = copied.targets.iter().filter_map(|target| target.as_ref().ok());
        if records.all(|record| status.counts(record)) || Instant::now() >= end {
            return Ok(after);
        }
        // The file may lie on a network file system, which tells of no change.
        std::thread::sleep(INTERVAL);
    }
}
