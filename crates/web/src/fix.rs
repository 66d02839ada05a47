//! Files that the page offers: those of `doctor --write-fix`, and a topology for NCCL.

use peerlane_doctor::{HostFacts, after_restart, drop_ins, examine};
use peerlane_fabric::Fabric;
use peerlane_report::examination::plan_file;
use serde::Serialize;

use crate::failure::Failure;

/// A file of a folder.
#[derive(Debug, Serialize)]
pub(crate) struct FixFile {
    path: String,
    content: String,
    is_executable: bool,
}

/// The plan as files; none where no step has a command.
pub(crate) fn files(fabric: &Fabric) -> Vec<FixFile> {
    let record = examine(fabric, &HostFacts::default());
    let drop_ins = drop_ins(&record);
    if drop_ins.is_empty() {
        return Vec::new();
    }
    let plan = FixFile {
        path: "plan.txt".to_owned(),
        content: plan_file(&record) + &after_restart(&record),
        is_executable: false,
    };
    let files = drop_ins.into_iter().map(|file| FixFile {
        path: file.path.to_owned(),
        content: file.content,
        is_executable: file.is_executable,
    });
    std::iter::once(plan).chain(files).collect()
}

/// A topology file with notes on what it leaves out.
#[derive(Debug, Serialize)]
pub(crate) struct NcclFile {
    text: String,
    notes: Vec<String>,
}

/// The topology for NCCL.
pub(crate) fn nccl(fabric: &Fabric) -> Result<NcclFile, Failure> {
    let written = fabric
        .to_nccl_xml()
        .map_err(|error| Failure::new(&error, error.hint().map(str::to_owned)))?;
    let notes = written.notes.iter().map(ToString::to_string).collect();
    Ok(NcclFile { text: written.text, notes })
}
