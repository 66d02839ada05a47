//! `peerlane topo`: the machine as PCIe sees it.

use std::path::Path;

use peerlane::difference;
use peerlane::topology::Topology;
use peerlane_fabric::{Fabric, Pairing};
use peerlane_report::{LABELS_MARK, machine, node_labels};

use super::page;
use crate::args::{TopoArgs, TopoCommand, TopoDiffArgs, TopoFormat};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output_file::{OutputFile, OutputKind};
use crate::printer::Printer;
use crate::{machines, render};

/// Prints the machine.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn run(args: &TopoArgs, printer: Printer) -> Result<Exit, Failure> {
    if let Some(TopoCommand::Diff(args)) = &args.command {
        return diff(args, printer);
    }
    if let Some(word) = &args.device {
        return device(args, word, printer);
    }
    let format = if printer.is_json() { TopoFormat::Json } else { args.format };
    let file = args.output.as_deref().map(|path| output(path, format)).transpose()?;
    let fabric = match format {
        // A monitor asks often: drives are left alone.
        TopoFormat::Openmetrics | TopoFormat::Nfd => {
            machines::fabric_quietly(&args.fabric, printer)?
        }
        _ => machines::fabric(&args.fabric, printer)?,
    };
    match format {
        TopoFormat::Text if args.matrix => printer.text(&machine::pairs(&fabric))?,
        TopoFormat::Text => {
            printer.text(&format!("{}{}", machine::topo(&fabric), pairs(&fabric)))?;
        }
        TopoFormat::Toml => printer.data(&fabric.to_toml())?,
        TopoFormat::Svg => printer.data(&machine::svg(&fabric))?,
        TopoFormat::Html => {
            printer.data(&page::of_machine(args.fabric.machine.as_deref(), &fabric)?)?;
        }
        TopoFormat::Nccl => nccl(&fabric, printer)?,
        TopoFormat::Openmetrics => write(&machine::openmetrics(&fabric), file, printer)?,
        TopoFormat::Nfd => {
            write(&node_labels(&peerlane_engine::examine(&fabric)), file, printer)?;
        }
        TopoFormat::Json => {
            printer.object(&Topology::new(&fabric).map_err(Failure::new)?)?;
        }
    }
    Ok(Exit::Done)
}

/// The file for a text that other programs read again and again, before the machine is read.
///
/// # Errors
/// When the form is for people or for one use, or the file is somebody else's.
fn output(path: &Path, format: TopoFormat) -> Result<OutputFile, Failure> {
    let kind = match format {
        TopoFormat::Openmetrics => OutputKind::Marked {
            name: "file of gauges",
            most: machine::GAUGES_MARK.len() as u64,
            is_ours: |bytes| bytes.starts_with(machine::GAUGES_MARK.as_bytes()),
        },
        TopoFormat::Nfd => OutputKind::Marked {
            name: "file of labels",
            most: LABELS_MARK.len() as u64,
            is_ours: |bytes| bytes.starts_with(LABELS_MARK.as_bytes()),
        },
        _ => {
            let hint = "`--format openmetrics` or `nfd`; others go to standard output: `> FILE`"
                .to_owned();
            return Err(Failure::new("only gauges and labels are written to a file").hint(hint));
        }
    };
    OutputFile::at(path, kind)
}

/// Writes a text to its file, or to standard output without one.
fn write(text: &str, file: Option<OutputFile>, printer: Printer) -> Result<(), Failure> {
    match file {
        Some(file) => file.write(text.as_bytes()),
        None => printer.data(text),
    }
}

/// Prints one device with its path and pairs.
///
/// # Errors
/// When the machine cannot be read or has no such device, and with `--json`.
fn device(args: &TopoArgs, word: &str, printer: Printer) -> Result<Exit, Failure> {
    if printer.is_json() {
        let hint = format!(
            "its pairs: `peerlane doctor {word} --json`; all devices: `peerlane topo --json`"
        );
        return Err(Failure::new("one device is shown as text only").hint(hint));
    }
    let fabric = machines::fabric(&args.fabric, printer)?;
    let id = machines::device(&fabric, word)?;
    printer.text(&machine::device(&fabric, id))?;
    Ok(Exit::Done)
}

/// Prints the changes between two machines.
///
/// # Errors
/// When one of them cannot be read.
fn diff(args: &TopoDiffArgs, printer: Printer) -> Result<Exit, Failure> {
    let (before, after) =
        (machines::named(&args.before, printer)?, machines::named(&args.after, printer)?);
    let record = difference::record(&before, &after);
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.text(&render::topo_diff(&record))?;
    }
    Ok(if record.is_unchanged() { Exit::Done } else { Exit::Negative })
}

/// Prints the topology for NCCL, and warns of the parts that it leaves out.
///
/// # Errors
/// When NCCL's form cannot carry the machine.
fn nccl(fabric: &Fabric, printer: Printer) -> Result<(), Failure> {
    let written = fabric
        .to_nccl_xml()
        .map_err(|error| Failure::new(error).hint(error.hint().map(str::to_owned)))?;
    for note in &written.notes {
        printer.warning(&format!("topology for NCCL: {note}"));
    }
    printer.data(&written.text)
}

/// Cards and drives on one board, if more than their switch says so or contradicts it.
fn pairs(fabric: &Fabric) -> String {
    let dnas = peerlane_engine::read_dna(fabric);
    let pairs = peerlane_doctor::card_pairs(fabric, &dnas);
    let told = pairs.into_iter().filter(|pair| !matches!(pair.pairing, Pairing::BySwitch(_)));
    let words = told.filter_map(|pair| peerlane_doctor::pair_in_words(fabric, pair));
    words.map(|words| format!("{words}\n")).collect()
}
