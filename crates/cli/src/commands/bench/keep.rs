//! Records of benchmarks as files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane_bench::record;
use peerlane_results::{BENCH_SCHEMA, BenchRecord};

use crate::error::{Failure, Tried};
use crate::output_file::{OutputError, OutputFile, OutputKind, has_schema};
use crate::small_file;

/// The longest record that is read: ten thousand runs have a hundred MiB.
pub(super) const RECORD_MAX: u64 = 512 << 20;

/// A record of any benchmark or prediction.
const RECORD: OutputKind = OutputKind::Marked {
    name: "record of a benchmark",
    most: RECORD_MAX,
    is_ours: |bytes| has_schema(bytes, BENCH_SCHEMA),
};

/// A place to keep a record in.
///
/// # Errors
/// When something else is there, or its folder takes no file.
pub(in crate::commands) fn output(file: &Path) -> Result<OutputFile, Failure> {
    OutputFile::at(file, RECORD)
}

/// Replaces an earlier record.
///
/// # Errors
/// When the file system is full, or something else has come there; the earlier file is unchanged
/// then.
pub(in crate::commands) fn write(
    output: &mut OutputFile,
    record: &BenchRecord,
) -> Result<(), OutputError> {
    output.fill(|out| {
        serde_json::to_writer_pretty(&mut *out, record)?;
        out.write_all(b"\n")
    })
}

/// Reads a record.
///
/// # Errors
/// When there is none, it is none of a benchmark, or it cannot be true.
pub(super) fn read(file: &Path) -> Result<BenchRecord, Failure> {
    let tried = || format!("read the record {}", file.display());
    let text = small_file::read(file, RECORD_MAX).map_err(Tried::to_read(tried(), file))?;
    let mut record: BenchRecord = serde_json::from_str(&text).map_err(|error| {
        if error.is_data() && !has_schema(text.as_bytes(), BENCH_SCHEMA) {
            let hint = "`peerlane bench -o FILE` and `peerlane sim -o FILE` write such records";
            return Tried::to(tried())("it is not a record of a benchmark").hint(hint.to_owned());
        }
        Tried::to(tried())(error)
    })?;
    record::check(&mut record).map_err(Tried::to(tried()))?;
    Ok(record)
}

/// Seconds since 1970, UTC.
pub(super) fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
