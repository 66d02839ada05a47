//! `peerlane topo`: the machine as PCIe sees it.

use peerlane_fabric::{Detail, Fabric, MapType, Matrix, Peers};
use peerlane_report::machine;

use crate::args::{TopoArgs, TopoFormat};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::machines;
use crate::printer::Printer;

/// Schema of the object that `--format json` prints.
const SCHEMA: &str = "peerlane.topo/1";

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
        TopoFormat::Json => printer.object(&object(&fabric)?)?,
    }
    Ok(Exit::Done)
}

/// The machine file as an object, so that both forms have the same keys.
fn object(fabric: &Fabric) -> Result<serde_json::Value, Failure> {
    const WHAT: &str = "write the machine as JSON";
    let table: toml::Table = fabric.to_toml().parse().map_err(Tried::to(WHAT))?;
    let mut object = serde_json::Map::new();
    object.insert("schema".to_owned(), SCHEMA.into());
    for (key, value) in table {
        object.insert(key, serde_json::to_value(value).map_err(Tried::to(WHAT))?);
    }
    object.insert("reach".to_owned(), reach(fabric));
    Ok(object.into())
}

/// Which initiators reach which memories, those together between which the kernel cannot tell; of two
/// lists that hold the same function, the decision is for the others.
fn reach(fabric: &Fabric) -> serde_json::Value {
    let matrix = Matrix::new(fabric, Detail::Grouped);
    let names = |peers: &Peers| -> Vec<&str> {
        peers.members.iter().map(|&id| fabric.function(id).name.as_str()).collect()
    };
    let mut rows = Vec::new();
    for (memories, cells) in matrix.memories.iter().zip(&matrix.cells) {
        for (initiators, cell) in matrix.initiators.iter().zip(cells) {
            rows.push(serde_json::json!({
                "memories": names(memories),
                "initiators": names(initiators),
                "verdict": match cell.map {
                    MapType::BusAddress => "bus-address",
                    MapType::ThroughHostBridge => "through-host-bridge",
                    MapType::NotSupported => "refused",
                    MapType::Unknown => "unknown",
                },
                "distance": cell.distance,
            }));
        }
    }
    rows.into()
}
