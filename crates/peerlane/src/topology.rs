//! A machine as one object: what `peerlane topo --json` prints.

use peerlane_fabric::{Detail, Fabric, MapType, Matrix, Peers};
use peerlane_results::RecordSchema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Name and version of the object.
pub const SCHEMA: &str = "peerlane.topo/1";

/// A machine that cannot be written as JSON, which a fault of this program alone can bring about.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the machine as JSON")]
pub struct TopologyError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl TopologyError {
    fn of(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
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
    machine: Map<String, Value>,
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

/// The schema of the object.
pub fn schema() -> RecordSchema {
    RecordSchema::of::<Object>(SCHEMA)
}

/// The machine file as an object, so that both forms have the same keys, and who reaches whom.
///
/// # Errors
/// [`TopologyError`], which no machine brings about.
pub fn object(fabric: &Fabric) -> Result<Value, TopologyError> {
    let table: toml::Table = fabric.to_toml().parse().map_err(TopologyError::of)?;
    let mut machine = Map::new();
    for (key, value) in table {
        machine.insert(key, serde_json::to_value(value).map_err(TopologyError::of)?);
    }
    let object = Object { schema: SCHEMA, reach: reach(fabric), machine };
    serde_json::to_value(object).map_err(TopologyError::of)
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
