//! Records of benchmarks as files: written whole, or not at all.

use std::error::Error;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane_bench::record;
use peerlane_results::BenchRecord;

use crate::error::{Failure, Tried};
use crate::small_file;

/// The longest record that is read: ten thousand runs have a hundred MiB.
pub(super) const RECORD_MAX: u64 = 512 << 20;

/// Writes a record beside the file and gives it the name when it is on stable storage.
///
/// # Errors
/// When the folder takes no file, or the file system is full; the earlier record is there then.
pub(in crate::commands) fn write(
    file: &Path,
    record: &BenchRecord,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // As any file of the user: what umask leaves.
    let mode = Permissions::from_mode(0o666);
    let mut beside = tempfile::Builder::new().permissions(mode).tempfile_in(folder)?;
    serde_json::to_writer_pretty(&mut beside, record)?;
    beside.write_all(b"\n")?;
    beside.as_file().sync_data()?;
    beside.persist(file)?;
    Ok(())
}

/// Reads a record.
///
/// # Errors
/// When there is none, it is none of a benchmark, or it cannot be true.
pub(super) fn read(file: &Path) -> Result<BenchRecord, Failure> {
    let tried = || format!("read the record {}", file.display());
    let text = small_file::read(file, RECORD_MAX).map_err(Tried::to(tried()))?;
    let mut record: BenchRecord = serde_json::from_str(&text).map_err(Tried::to(tried()))?;
    record::check(&mut record).map_err(Tried::to(tried()))?;
    Ok(record)
}

/// Seconds since 1970, UTC.
pub(super) fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
