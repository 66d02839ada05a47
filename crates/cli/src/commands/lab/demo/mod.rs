//! `peerlane lab demo`: the same data by both routes, and where its bytes went.
//!
//! Three parties are asked: the record of the copy, the recorder outside the guest, and the images
//! compared on the host. Every line shown comes from these three.

mod images;
mod verdict;

use std::fs;
use std::path::Path;

use peerlane_lab::BootOptions;
use peerlane_results::{CompletedCopy, CopyRecord, RecordSchema, Route};
use peerlane_units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::boot;
use crate::args::{DemoArgs, DriveArg, MachineArgs};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use verdict::DemoFindings;

const MACHINE: &str = "pair";
/// Capacity of drives a and b of that machine.
const SIZE: Bytes = Bytes::mib(64);
const SOURCE_SEED: u64 = 1;
const TARGET_SEED: u64 = 2;
/// A boot and a copy take about ten seconds on two cores.
const DEADLINE: Nanos = Nanos::seconds(180);
const SCHEMA: &str = "peerlane.demo/1";

#[derive(Serialize, JsonSchema)]
struct ShownDemo {
    schema: &'static str,
    copies: Vec<DemoFindings>,
    problems: Vec<String>,
}

/// The schema of the object that `--json` prints.
pub(super) fn schema() -> RecordSchema {
    RecordSchema::for_type::<ShownDemo>(SCHEMA)
}

/// Copies by both routes and shows the findings.
///
/// # Errors
/// When an image, the machine or a copy fails.
pub(super) fn run(args: &DemoArgs, printer: Printer) -> Result<Exit, Failure> {
    let scratch = tempfile::tempdir().map_err(Tried::to("make a folder for images"))?;
    let folder = args.keep.as_deref().unwrap_or(scratch.path());
    fs::create_dir_all(folder).map_err(Tried::to(format!("make {}", folder.display())))?;

    printer.lines(&format!(
        "Copies {SIZE} from drive a to drive b of an emulated machine twice: through host memory,\n\
         then peer to peer through the memory of drive c. QEMU records every DMA of the drives;\n\
         the images are compared outside the machine. Emulated: semantics, not speed.\n"
    ));
    let mut copies = Vec::new();
    for route in [Route::Host, Route::P2p] {
        printer.note(&format!("boot machine {MACHINE}, copy by route {route} ..."));
        copies.push(copy(args, route, folder, printer)?);
    }
    let problems: Vec<String> = copies.iter().flat_map(DemoFindings::problems).collect();
    show(printer, copies, problems)
}

/// Boots, copies by `route`, and asks all three parties.
fn copy(
    args: &DemoArgs,
    route: Route,
    folder: &Path,
    printer: Printer,
) -> Result<DemoFindings, Failure> {
    let folder = folder.join(route.to_string());
    fs::create_dir_all(&folder).map_err(Tried::to(format!("make {}", folder.display())))?;
    let (source, target) = (folder.join("source.img"), folder.join("target.img"));
    images::make(&source, SIZE, SOURCE_SEED)?;
    images::make(&target, SIZE, TARGET_SEED)?;

    let drive = |name: &str, image: &Path| DriveArg { name: name.to_owned(), image: image.into() };
    let machine = MachineArgs {
        network: None,
        machine: MACHINE.into(),
        drives: vec![drive("a", &source), drive("b", &target)],
        kernel: args.kernel.clone(),
        modules: Vec::new(),
        programs: Vec::new(),
    };
    let script = format!(
        "peerlane copy /dev/lab/a /dev/lab/b --force --route {route} --json --quiet > $OUT/record.json"
    );
    let command = ["sh", "-c", &script].map(Into::into).to_vec();
    let options = BootOptions {
        dma: Some(folder.join("dma.json")),
        out: Some(folder.clone()),
        timeout: DEADLINE,
        ..boot::options(&machine, command, printer)?
    };
    let outcome = boot::run(&options, printer)?;
    if outcome.status != 0 {
        let what = format!("copy by route {route} in the machine");
        return Err(Tried::to(what)(format!("it ended with status {}", outcome.status)));
    }
    let record = read_record(&folder.join("record.json"))?;
    let dma = outcome.dma.ok_or_else(|| Failure::new("the recorder left no report"))?;
    Ok(DemoFindings {
        asked: route,
        image_bytes: SIZE.0,
        route: record.route,
        bytes: record.bytes.0,
        verify: record.verification.mode,
        mismatches: record.verification.mismatches,
        images_equal: images::equal(&source, &target)?,
        payload_guest_memory: dma.payload_bytes_guest_memory,
        payload_p2p: dma.payload_bytes_p2p,
        payload_unclassified: dma.payload_bytes_unclassified,
        control_guest_memory: dma.control_bytes_guest_memory,
        check: dma.check_bytes_guest_memory + dma.check_bytes_unclassified,
        recorder_complete: dma.is_complete(),
    })
}

fn read_record(path: &Path) -> Result<CompletedCopy, Failure> {
    let tried = || format!("read record {}", path.display());
    let text = fs::read_to_string(path).map_err(Tried::to(tried()))?;
    let record: CopyRecord = serde_json::from_str(&text).map_err(Tried::to(tried()))?;
    let copied = record.only().cloned();
    copied.ok_or_else(|| Tried::to(tried())("it has no completed copy".to_owned()))
}

fn show(
    printer: Printer,
    copies: Vec<DemoFindings>,
    problems: Vec<String>,
) -> Result<Exit, Failure> {
    let exit = if problems.is_empty() { Exit::Done } else { Exit::Negative };
    for problem in &problems {
        printer.failure(&Failure::new(problem.clone()));
    }
    if printer.is_json() {
        printer.object(&ShownDemo { schema: SCHEMA, copies, problems })?;
        return Ok(exit);
    }
    let lines: Vec<String> = copies.iter().map(DemoFindings::line).collect();
    printer.text(&format!("\n{}\n{}\n", verdict::table(&copies), lines.join("\n")))?;
    printer.lines(&next(&std::env::args().next().unwrap_or_else(|| "peerlane".to_owned())));
    Ok(exit)
}

/// Commands to try next, with the program as it was called.
fn next(program: &str) -> String {
    format!(
        "\nnext:\n  \
         {program} plan a b --machine pair     why this route, and what was looked at\n  \
         {program} plan a b --machine split    a machine on which it is refused, and why\n  \
         {program} lab shell                   a shell in the machine of this demonstration"
    )
}
