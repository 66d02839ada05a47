//! `peerlane report`: records as a page, as Markdown, as comma-separated values, figures as SVG.

use std::fs;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_report::{Drawn, FigureFile, Named, RECORD_MAX, ReadError, Record, Report, is_report};
use serde::Serialize;

use crate::args::{FabricArgs, ReportArgs, ReportFormat};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::output_file::{OutputFile, OutputKind, write_together};
use crate::printer::Printer;
use crate::{machines, small_file};

/// Most records of one report.
const RECORDS_MAX: usize = 64;
/// A report in any of its forms, or a figure of one: the first line names the form.
const REPORT: OutputKind = OutputKind::Marked {
    name: "report",
    most: 1024,
    is_ours: |beginning| is_report(&String::from_utf8_lossy(beginning)),
};
/// The written report; the object of `--json`.
#[derive(Debug, Serialize)]
struct WrittenReport<'a> {
    schema: &'static str,
    verdicts: Vec<&'a str>,
    files: Vec<String>,
}

/// Writes a report.
///
/// # Errors
/// When a record cannot be read or shown, or the report cannot be written.
pub(crate) fn run(args: &ReportArgs, printer: Printer) -> Result<Exit, Failure> {
    let format = format(args)?;
    let output = args.output.as_deref().map(|path| OutputFile::at(path, REPORT)).transpose()?;
    let records = read(args)?;
    let machines = machines(args, &records, printer)?;
    let drawn: Vec<Drawn<'_>> = machines.iter().map(DrawnMachine::drawn).collect();
    let report = Report::new(&records, args.title.as_deref(), &drawn);
    let text = match format {
        ReportFormat::Html => report.html().map_err(Failure::new)?,
        ReportFormat::Markdown => report.markdown(),
        ReportFormat::Csv => {
            let (text, left_out) = report.csv();
            for name in left_out {
                printer.warning(&format!("{name} holds no run, so that no line is of it"));
            }
            text
        }
    };
    let mut outputs: Vec<(OutputFile, Vec<u8>)> =
        output.map(|output| (output, text.clone().into_bytes())).into_iter().collect();
    if let Some(folder) = &args.svg {
        outputs.extend(figures(&report, folder)?);
    }
    let files: Vec<String> =
        outputs.iter().map(|(output, _)| output.path().display().to_string()).collect();
    write_together(outputs)?;
    if printer.is_json() {
        let written = WrittenReport {
            schema: "peerlane.report/1",
            verdicts: report.verdicts().collect(),
            files,
        };
        printer.object(&written)?;
    } else if args.output.is_none() {
        printer.data(&text)?;
    } else {
        let said = report.headline().into_iter().chain(report.verdicts());
        let verdicts: String = said.map(|verdict| format!("{verdict}\n")).collect();
        printer.text(&verdicts)?;
        printer.note(&format!("written: {}", files.join(", ")));
    }
    Ok(Exit::Done)
}

/// The form that was asked for, by name or by the name of the file.
fn format(args: &ReportArgs) -> Result<ReportFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let Some(output) = &args.output else { return Ok(ReportFormat::Markdown) };
    match output.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("md" | "markdown") => Ok(ReportFormat::Markdown),
        Some("csv") => Ok(ReportFormat::Csv),
        _ => {
            let error = format!("the name {} tells no form of a report", output.display());
            Err(Failure::new(error).hint("use .html, .md or .csv, or `--format`".to_owned()))
        }
    }
}

fn read(args: &ReportArgs) -> Result<Vec<Named>, Failure> {
    if args.records.len() > RECORDS_MAX {
        let error = format!("{} records are too many for one report", args.records.len());
        return Err(Failure::new(error).hint(format!("{RECORDS_MAX} are the most")));
    }
    args.records.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> Result<Named, Failure> {
    let tried = || format!("read record {}", path.display());
    let text = small_file::read(path, RECORD_MAX.0).map_err(Tried::to_read(tried(), path))?;
    let mut record = Record::from_json(text.as_bytes()).map_err(|error: ReadError| {
        let hint = error.hint();
        Tried::to(tried())(error).hint(hint)
    })?;
    match &mut record {
        Record::Bench(bench) => {
            peerlane_bench::record::check(bench).map_err(Tried::to(tried()))?;
        }
        Record::Nodes(nodes) => {
            peerlane_bench::record::check_nodes(nodes).map_err(Tried::to(tried()))?;
        }
        _ => {}
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Named { name, record })
}

/// A machine to draw loads on.
struct DrawnMachine {
    fabric: Fabric,
    digest: String,
    is_named: bool,
}

impl DrawnMachine {
    fn new(fabric: Fabric, is_named: bool) -> Self {
        let digest = peerlane_results::Machine::from(&fabric).fabric;
        Self { fabric, digest, is_named }
    }

    fn drawn(&self) -> Drawn<'_> {
        Drawn { fabric: &self.fabric, digest: &self.digest, is_named: self.is_named }
    }
}

/// The machines that were named, or this one where a record that holds none may be of it.
fn machines(
    args: &ReportArgs,
    records: &[Named],
    printer: Printer,
) -> Result<Vec<DrawnMachine>, Failure> {
    if args.machines.len() > RECORDS_MAX {
        let error = format!("{} machines are too many for one report", args.machines.len());
        return Err(Failure::new(error).hint(format!("{RECORDS_MAX} are the most")));
    }
    let read = |machine: &PathBuf| {
        let args = FabricArgs { machine: Some(machine.clone()) };
        Ok(DrawnMachine::new(machines::fabric_quietly(&args, printer)?, true))
    };
    if !args.machines.is_empty() {
        return args.machines.iter().map(read).collect();
    }
    let holds_none = |named: &Named| match &named.record {
        Record::Bench(bench) => bench.outline.is_none() && !bench.cases.is_empty(),
        _ => false,
    };
    if !records.iter().any(holds_none) {
        return Ok(Vec::new());
    }
    // A report needs nothing of the machine that it is made on.
    let own = machines::fabric_quietly(&FabricArgs::default(), printer);
    Ok(own.map(|fabric| DrawnMachine::new(fabric, false)).into_iter().collect())
}

/// Every figure, with its place in a folder: all places are looked at before anything is written.
fn figures(report: &Report<'_>, folder: &Path) -> Result<Vec<(OutputFile, Vec<u8>)>, Failure> {
    let tried = format!("write figures to {}", folder.display());
    fs::create_dir_all(folder).map_err(Tried::to(tried))?;
    let place = |figure: FigureFile| {
        Ok((OutputFile::at(&folder.join(&figure.file), REPORT)?, figure.svg.into_bytes()))
    };
    report.figures().into_iter().map(place).collect()
}
