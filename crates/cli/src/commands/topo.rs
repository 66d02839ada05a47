//! `peerlane topo`: the machine as PCIe sees it.

use peerlane::topology;
use peerlane_fabric::{Fabric, Pairing};
use peerlane_report::machine;

use crate::args::{TopoArgs, TopoFormat};
use crate::error::Failure;
use crate::exit::Exit;
use crate::machines;
use crate::printer::Printer;

/// Prints the machine.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn run(args: &TopoArgs, printer: Printer) -> Result<Exit, Failure> {
    let format = if printer.is_json() { TopoFormat::Json } else { args.format };
    let fabric = match format {
        // A monitor asks often: drives are left alone.
        TopoFormat::Openmetrics => machines::fabric_quietly(&args.fabric)?,
        _ => machines::fabric(&args.fabric)?,
    };
    match format {
        TopoFormat::Text => {
            printer.data(&format!("{}{}", machine::topo(&fabric), pairs(&fabric)))?;
        }
        TopoFormat::Toml => printer.data(&fabric.to_toml())?,
        TopoFormat::Svg => printer.data(&machine::svg(&fabric))?,
        TopoFormat::Openmetrics => printer.data(&machine::openmetrics(&fabric))?,
        TopoFormat::Json => {
            printer.object(&topology::object(&fabric).map_err(Failure::new)?)?;
        }
    }
    Ok(Exit::Done)
}

/// Cards and drives on one board, where more than their switch says so or speaks against it.
fn pairs(fabric: &Fabric) -> String {
    let dnas = peerlane_engine::read_dna(fabric);
    let pairs = peerlane_engine::card_pairs(fabric, &dnas);
    let told = pairs.into_iter().filter(|pair| !matches!(pair.pairing, Pairing::BySwitch(_)));
    let words = told.filter_map(|pair| peerlane_engine::pair_in_words(fabric, pair));
    words.map(|words| format!("{words}\n")).collect()
}
