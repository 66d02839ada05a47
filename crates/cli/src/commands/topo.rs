//! `peerlane topo`: the machine as PCIe sees it.

use peerlane::topology;
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
    let fabric = machines::fabric(&args.fabric)?;
    let format = if printer.is_json() { TopoFormat::Json } else { args.format };
    match format {
        TopoFormat::Text => printer.data(&machine::topo(&fabric))?,
        TopoFormat::Toml => printer.data(&fabric.to_toml())?,
        TopoFormat::Svg => printer.data(&machine::svg(&fabric))?,
        TopoFormat::Json => {
            printer.object(&topology::object(&fabric).map_err(Failure::new)?)?;
        }
    }
    Ok(Exit::Done)
}
