//! Files that a benchmark is asked to write, looked at before anything runs.
//!
//! The one thing to know: a record replaces an earlier record and nothing else, whatever it is called.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use peerlane_results::{BENCH_SCHEMA, Workload};
use serde::Deserialize;

use super::keep;
use crate::args::HowArgs;
use crate::error::{Failure, Tried};
use crate::small_file;

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Refuses files that must not be written, or cannot be.
///
/// `fresh` are files that come beside the record and replace nothing.
///
/// # Errors
/// When a file is an end of a transfer, is another one of these files, is there and is no record, or its
/// folder takes no file; nothing was changed.
pub(super) fn check(how: &HowArgs, fresh: &[&Path], workload: &Workload) -> Result<(), Failure> {
    let record = how.resume.as_deref().or(how.output.as_deref());
    let mut all: Vec<&Path> = Vec::new();
    for file in record.into_iter().chain(how.trace.as_deref()).chain(fresh.iter().copied()) {
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
        takes_files(folder(file)).map_err(Tried::to(tried()))?;
    }
    if let Some(file) = record {
        may_replace(file)?;
    }
    fresh.iter().try_for_each(|file| is_absent(file))
}

/// Refuses to write over what is no record of a benchmark.
///
/// # Errors
/// When something else is there.
pub(in crate::commands) fn may_replace(file: &Path) -> Result<(), Failure> {
    let tried = || format!("write {}", file.display());
    let hint = || "choose another name, or remove it first".to_owned();
    let found = match fs::symlink_metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(Tried::to(tried()))?,
    };
    if !found.is_file() {
        let error = "there is something that is no regular file";
        return Err(Tried::to(tried())(error).hint(hint()));
    }
    let text = small_file::read(file, keep::RECORD_MAX);
    let head = text.ok().and_then(|text| serde_json::from_str::<Head>(&text).ok());
    if head.is_some_and(|head| head.schema == BENCH_SCHEMA) {
        return Ok(());
    }
    Err(Tried::to(tried())("it is there and is no record of a benchmark").hint(hint()))
}

fn is_absent(file: &Path) -> Result<(), Failure> {
    if fs::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let error = Tried::to(format!("write {}", file.display()))("it is there already");
    Err(error.hint("name a file that is not there".to_owned()))
}

/// Whether a file can be made in a folder: makes one without a name that stays.
fn takes_files(folder: &Path) -> io::Result<()> {
    tempfile::Builder::new().tempfile_in(folder).map(drop)
}

/// Whether two names are of one file, be it there or not.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    match (id(one), id(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => place(one).is_some_and(|one| place(other) == Some(one)),
        _ => false,
    }
}

/// Where a file is or would be.
fn place(file: &Path) -> Option<PathBuf> {
    Some(folder(file).canonicalize().ok()?.join(file.file_name()?))
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
