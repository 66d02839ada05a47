//! Workloads as files, for `bench run` and `sim`.

use std::path::Path;

use peerlane_bench::workload::{self, WrittenWorkload};
use peerlane_results::Workload;

use crate::error::{Failure, Tried};
use crate::small_file;

/// The longest workload that is read: a full one of ten thousand transfers has a few MiB.
const WORKLOAD_MAX: u64 = 16 << 20;

/// A workload as it was written, and where.
pub(super) struct WorkloadFile<'a> {
    pub(super) written: WrittenWorkload,
    file: &'a Path,
}

/// Reads a workload in either form.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub(super) fn read(file: &Path) -> Result<WorkloadFile<'_>, Failure> {
    let text = small_file::read(file, WORKLOAD_MAX)
        .map_err(Tried::to_read(format!("read the workload {}", file.display()), file))?;
    let written = workload::read(&text).map_err(tried(file))?;
    Ok(WorkloadFile { written, file })
}

impl WorkloadFile<'_> {
    /// True for a short form that names no route.
    pub(super) fn has_usual_routes(&self) -> bool {
        matches!(&self.written, WrittenWorkload::Brief(brief) if brief.has_usual_routes())
    }

    /// Names every transfer.
    ///
    /// # Errors
    /// When that cannot be run.
    pub(super) fn build(self) -> Result<Workload, Failure> {
        self.written.build().map_err(tried(self.file))
    }
}

fn tried<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    file: &Path,
) -> impl FnOnce(E) -> Failure {
    Tried::to(format!("read the workload {}", file.display()))
}
