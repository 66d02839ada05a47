//! Output files of a benchmark, checked before anything runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use peerlane_results::Workload;

use super::keep;
use crate::args::HowArgs;
use crate::error::{Failure, Tried};
use crate::output_file::{OutputFile, OutputKind, folder};

/// The file that keeps the record, if one was named, checked together with all other outputs.
///
/// `beside` are files that come with the record and replace nothing, as does a trace.
///
/// # Errors
/// When a file is an end of a transfer, is another one of these files, or cannot be written; nothing was changed.
pub(super) fn check(
    how: &HowArgs,
    fio: Option<&Path>,
    workload: &Workload,
) -> Result<Option<OutputFile>, Failure> {
    let record = how.resume.as_deref().or(how.output.as_deref());
    let mut all: Vec<&Path> = Vec::new();
    let fresh: Vec<&Path> = how.trace.as_deref().into_iter().chain(fio).collect();
    for file in record.into_iter().chain(fresh.iter().copied()) {
        let tried = || format!("write {}", file.display());
        if all.iter().any(|other| is_same(file, other)) {
            return Err(Tried::to(tried())("two outputs are one file")
                .hint("give each a name of its own".to_owned()));
        }
        all.push(file);
        let flows = workload.cases.iter().flat_map(|case| &case.flows);
        let ends = flows.flat_map(|flow| [&flow.source, &flow.target]).chain(&how.scratch);
        let mut ends: Vec<&str> = ends.map(String::as_str).collect();
        ends.sort_unstable();
        ends.dedup();
        if let Some(end) = ends.into_iter().find(|end| is_same(file, Path::new(end))) {
            return Err(Tried::to(tried())(format!("it is {end}, which is measured"))
                .hint("choose another name".to_owned()));
        }
    }
    fresh.iter().try_for_each(|file| OutputFile::at(file, OutputKind::New).map(drop))?;
    record.map(keep::output).transpose()
}

/// True when two names are of one file, even if it does not exist yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    match (id(one), id(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => place(one).is_some_and(|one| place(other) == Some(one)),
        _ => false,
    }
}

/// Canonical path of a file, which need not exist.
fn place(file: &Path) -> Option<PathBuf> {
    Some(folder(file).canonicalize().ok()?.join(file.file_name()?))
}
