//! `peerlane lab machines`: the descriptions that can be named, and which of them can be booted.

use peerlane_results::RecordSchema;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::MachinesArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::machines;
use crate::printer::Printer;

/// Schema of the object that `--json` prints.
const SCHEMA: &str = "peerlane.machines/1";

#[derive(Serialize, JsonSchema)]
struct List {
    schema: &'static str,
    machines: Vec<MachineEntry>,
}

#[derive(Serialize, JsonSchema)]
struct MachineEntry {
    name: String,
    summary: String,
    /// `None` for one that is built into the program.
    file: Option<String>,
    /// True when the lab can boot it; `topo`, `plan`, `report`, `sim` and `bench --on model` take
    /// any.
    boots: bool,
}

/// The schema of the object that `--json` prints.
pub(super) fn schema() -> RecordSchema {
    RecordSchema::for_type::<List>(SCHEMA)
}

/// Lists machines by name.
///
/// # Errors
/// When a folder or a file cannot be read.
pub(super) fn run(args: &MachinesArgs, printer: Printer) -> Result<Exit, Failure> {
    let mut entries = Vec::new();
    for description in machines::list(args.machines_dir.as_deref())? {
        entries.push(MachineEntry {
            boots: description.fabric()?.lab.is_some(),
            summary: description.summary(),
            file: description.file.map(|file| file.display().to_string()),
            name: description.name,
        });
    }
    // Each kind stays in the order of its names.
    entries.sort_by_key(|entry| !entry.boots);
    if printer.is_json() {
        printer.object(&List { schema: SCHEMA, machines: entries })?;
        return Ok(Exit::Done);
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let booted = entries.partition_point(|entry| entry.boots);
    for (index, MachineEntry { name, summary, .. }) in entries.iter().enumerate() {
        if index == booted {
            text.push_str(
                "\ncannot be booted; for topo, plan, report, sim and bench --on model:\n",
            );
        }
        text.push_str(&format!("{name:width$}  {summary}\n"));
    }
    printer.data(&text)?;
    Ok(Exit::Done)
}
