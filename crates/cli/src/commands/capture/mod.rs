//! `peerlane capture`: the files that discovery reads, without identifying data, in one file.

mod report;

use std::path::Path;

use peerlane::machines::is_tree;
use peerlane_engine::suggestion::hint_of_path;
use peerlane_fabric::{Acs, DiscoverError, Fabric, capture};
use peerlane_results::RecordSchema;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::CaptureArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::output_file::{OutputFile, OutputKind, write_folder};
use crate::printer::Printer;
use crate::render::counted;

/// Schema of the object that `--json` prints.
const SCHEMA: &str = "peerlane.capture/1";

/// The written capture; the object of `--json`.
#[derive(Debug, Serialize, JsonSchema)]
struct WrittenCapture {
    schema: &'static str,
    file: String,
    files: usize,
    functions: usize,
    replaced: Vec<Replaced>,
    /// True when the configuration space of every function could be read.
    is_complete: bool,
    /// Answers in the capture; empty without `--with-report`.
    report: Vec<report::AnswerFile>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Replaced {
    what: &'static str,
    count: usize,
}

/// The schema of the object that `--json` prints.
pub(super) fn schema() -> RecordSchema {
    RecordSchema::for_type::<WrittenCapture>(SCHEMA)
}

/// Writes a capture.
///
/// # Errors
/// When the machine cannot be read, or the file is there or cannot be written.
pub(crate) fn run(args: &CaptureArgs, printer: Printer) -> Result<Exit, Failure> {
    refuse_other_forms(&args.output)?;
    let root = root(args.machine.as_deref())?;
    let captured = capture::take(root).map_err(|error| {
        let hint = match &error {
            DiscoverError::Archive { path, source } => source.hint(path),
            _ => None,
        };
        Tried::to(format!("read the machine below {}", root.display()))(error).hint(hint)
    })?;
    let mut content = captured.content;
    // What is written is read once more, so that a capture that cannot be used is never handed on.
    let fabric = Fabric::discover_snapshot(&args.output, content.clone())
        .map_err(Tried::to("read the capture again"))?;
    let files = content.iter().filter(|(_, entry)| is_file(entry)).count();
    let answers = if args.with_report { answers(root, &fabric)? } else { Vec::new() };
    if !answers.is_empty() {
        report::insert(&answers, &mut content)?;
        report::list(&answers).for_each(|line| printer.note(&line));
    }
    write(&content, &args.output)?;
    let written = WrittenCapture {
        schema: SCHEMA,
        file: args.output.display().to_string(),
        files,
        functions: fabric.functions.len(),
        replaced: captured
            .replaced
            .into_iter()
            .map(|(what, count)| Replaced { what, count })
            .collect(),
        is_complete: fabric.functions.iter().all(|function| function.acs != Acs::Unknown),
        report: answers,
    };
    if printer.is_json() {
        printer.object(&written)?;
    } else {
        printer.text(&text(&written))?;
    }
    Ok(Exit::Done)
}

/// The answers about the machine that is captured.
fn answers(root: &Path, kept: &Fabric) -> Result<Vec<report::AnswerFile>, Failure> {
    let tried = Tried::to(format!("read the machine below {}", root.display()));
    let live = Fabric::discover(root).map_err(tried)?;
    Ok(report::answers(root, &live, kept))
}

/// The tree that is captured: that of this machine, or a folder or archive.
fn root(machine: Option<&Path>) -> Result<&Path, Failure> {
    match machine {
        None => Ok(Path::new("/")),
        Some(machine) if is_tree(machine) => Ok(machine),
        Some(machine) => {
            let why = "a capture is of a folder with sys/ and proc/, or of an archive of one";
            let name = machine.display();
            let hint = match machine.try_exists() {
                Ok(false) if machine.components().count() > 1 => hint_of_path(machine),
                _ => Some(format!("`peerlane topo --machine {name} --format toml` keeps it")),
            };
            Err(Tried::to(format!("capture {}", machine.display()))(why).hint(hint))
        }
    }
}

/// Refuses names that mean neither an archive of this form nor a folder.
fn refuse_other_forms(output: &Path) -> Result<(), Failure> {
    const OTHERS: [&str; 8] = [".tar", ".gz", ".tgz", ".xz", ".bz2", ".zip", ".zst", ".7z"];
    let name = output.to_string_lossy();
    let is_other = name == "-" || OTHERS.iter().any(|end| name.ends_with(end));
    if !is_other || name.ends_with(".tar.zst") {
        return Ok(());
    }
    let hint = "name a file that ends in .tar.zst, or a folder".to_owned();
    Err(Failure::new(format!("cannot write a capture in the form of {name}")).hint(hint))
}

fn is_file(entry: &peerlane_fabric::TreeEntry) -> bool {
    matches!(entry, peerlane_fabric::TreeEntry::File { .. })
}

fn write(content: &peerlane_fabric::Snapshot, output: &Path) -> Result<(), Failure> {
    let is_archive = output.to_str().is_some_and(|name| name.ends_with(".tar.zst"));
    if !is_archive {
        return write_folder(output, |draft| capture::write_folder(content, draft));
    }
    let place = OutputFile::at(output, OutputKind::New)?;
    let tried = Tried::to(format!("write {}", output.display()));
    place.write(&capture::pack(content).map_err(tried)?)
}

fn text(written: &WrittenCapture) -> String {
    let replaced: Vec<String> =
        written.replaced.iter().map(|one| counted(one.count, one.what)).collect();
    let replaced = if replaced.is_empty() { "nothing".to_owned() } else { replaced.join(", ") };
    let mut text = format!(
        "{}: {}, {}; replaced: {replaced}\n",
        written.file,
        counted(written.functions, "function"),
        counted(written.files, "file")
    );
    if !written.is_complete {
        text += "ACS is missing: run as root to include it.\n";
    }
    text
}
