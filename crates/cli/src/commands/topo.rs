//! `peerlane topo`: the machine as PCIe sees it.

use peerlane_fabric::{Detail, Fabric, MapType, Matrix, Peers};
use peerlane_results::RecordSchema;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{TopoArgs, TopoFormat};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

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
        TopoFormat::Text => printer.data(&render::topo(&fabric))?,
        TopoFormat::Toml => printer.data(&fabric.to_toml())?,
        TopoFormat::Svg => printer.data(&render::svg(&fabric))?,
        TopoFormat::Json => printer.object(&object(&fabric)?)?,
    }
    Ok(Exit::Done)
}

/// A machine as an object.
#[derive(Serialize, JsonSchema)]
struct Object {
    /// Name and version.
    schema: &'static str,
    /// Which initiators reach which memories.
    reach: Vec<Reach>,
    /// The keys of a machine file.
    #[serde(flatten)]
    machine: serde_json::Map<String, serde_json::Value>,
}

/// Whether the kernel lets initiators reach memories.
#[derive(Serialize, JsonSchema)]
struct Reach {
    /// Functions with memory, by name.
    memories: Vec<String>,
    /// Functions that read or write it, by name.
    initiators: Vec<String>,
    /// What the kernel decides.
    verdict: ReachVerdict,
    /// Hops up and down; `None` where there is no way.
    distance: Option<u32>,
}

/// What the kernel decides of a memory and an initiator.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ReachVerdict {
    /// Reached by bus addresses, below the root complex.
    BusAddress,
    /// Reached through a host bridge.
    ThroughHostBridge,
    /// Not reached.
    Refused,
    /// Not known from here.
    Unknown,
}

/// The schema of the object that `--json` prints.
pub(super) fn schema() -> RecordSchema {
    RecordSchema::of::<Object>(SCHEMA)
}

/// The machine file as an object, so that both forms have the same keys.
fn object(fabric: &Fabric) -> Result<serde_json::Value, Failure> {
    const WHAT: &str = "write the machine as JSON";
    let table: toml::Table = fabric.to_toml().parse().map_err(Tried::to(WHAT))?;
    let mut machine = serde_json::Map::new();
    for (key, value) in table {
        machine.insert(key, serde_json::to_value(value).map_err(Tried::to(WHAT))?);
    }
    let object = Object { schema: SCHEMA, reach: reach(fabric), machine };
    serde_json::to_value(object).map_err(Tried::to(WHAT))
}

/// Which initiators reach which memories, those together between which the kernel cannot tell; of two
/// lists that hold the same function, the decision is for the others.
fn reach(fabric: &Fabric) -> Vec<Reach> {
    let matrix = Matrix::new(fabric, Detail::Grouped);
    let names = |peers: &Peers| -> Vec<String> {
        peers.members.iter().map(|&id| fabric.function(id).name.clone()).collect()
    };
    let mut rows = Vec::new();
    for (memories, cells) in matrix.memories.iter().zip(&matrix.cells) {
        for (initiators, cell) in matrix.initiators.iter().zip(cells) {
            rows.push(Reach {
                memories: names(memories),
                initiators: names(initiators),
                verdict: match cell.map {
                    MapType::BusAddress => ReachVerdict::BusAddress,
                    MapType::ThroughHostBridge => ReachVerdict::ThroughHostBridge,
                    MapType::NotSupported => ReachVerdict::Refused,
                    MapType::Unknown => ReachVerdict::Unknown,
                },
                distance: cell.distance,
            });
        }
    }
    rows
}
