//! A machine as one object: the output of `peerlane topo --json`.

use peerlane_fabric::lspci::{KeyCount, SetAside, TextAccount};
use peerlane_fabric::{Fabric, FunctionId, RemoteDrive};
use peerlane_reach::{Decisions, Detail, Matrix, NEWEST_LIST, Need, Peers, Reach, representatives};
use peerlane_results::{Condition, MapType, NetworkFacts, RecordSchema};
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Name and version of the object.
pub const SCHEMA: &str = "peerlane.topo/1";

/// A machine that cannot be written as JSON, which a fault of this program alone can bring about.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the machine as JSON")]
pub struct TopologyJsonError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl TopologyJsonError {
    fn new(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
}

/// A machine as an object.
#[derive(Serialize, JsonSchema)]
struct Object {
    /// Name and version.
    schema: &'static str,
    /// Groups of memories and initiators, with the decision on each pair of them.
    reach: Vec<ReachRow>,
    /// The kernel whose list of host bridges was taken, where the version is unknown: the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed_kernel: Option<String>,
    /// The account of the text of `lspci` that the machine was read from; absent for any other source.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<ReadRow>,
    /// Drives that other machines serve, by NVMe over Fabrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remote_drives: Vec<RemoteRow>,
    /// The keys of a machine file.
    #[serde(flatten)]
    machine: Map<String, Value>,
}

/// An account of a text: each key that facts are read from is attached to a function, or set aside.
#[derive(Serialize, JsonSchema)]
struct ReadRow {
    /// Functions that were read.
    functions: usize,
    /// Counts of every key.
    keys: Vec<KeyRow>,
    /// Occurrences that no function has, in order of line; 10,000 at most.
    set_aside: Vec<SetAsideRow>,
}

/// Occurrences of a key of `lspci`.
#[derive(Serialize, JsonSchema)]
struct KeyRow {
    /// The key as `lspci` prints it.
    key: &'static str,
    /// Occurrences in the text.
    in_text: usize,
    /// Occurrences that a function has.
    attached: usize,
    /// Occurrences that no function has.
    set_aside: usize,
}

/// An occurrence of a key that no function has.
#[derive(Serialize, JsonSchema)]
struct SetAsideRow {
    /// Line of the text, counted from 1.
    line: u32,
    /// The key.
    key: &'static str,
    /// The line, shortened.
    text: String,
    /// The reason.
    reason: String,
    /// True if a fact was lost; false if it was left out on purpose.
    lost: bool,
}

/// The kernel's decision on initiators and memories.
#[derive(Serialize, JsonSchema)]
struct ReachRow {
    /// Functions with memory, by name.
    memories: Vec<String>,
    /// Functions that read or write it, by name.
    initiators: Vec<String>,
    /// The kernel's decision.
    verdict: MapType,
    /// Hops up and down; null where the kernel refuses, or where bridges on the way are unknown.
    distance: Option<u32>,
    /// Addresses of the ports that redirect to the root complex and so decide; names where a
    /// description gives no address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    redirecting: Vec<String>,
    /// The outcomes of `conditional`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    /// The facts that `unknown` lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
}

/// A drive that another machine serves.
#[derive(Serialize, JsonSchema)]
struct RemoteRow {
    /// Kernel name of the controller.
    name: String,
    #[serde(flatten)]
    network: NetworkFacts,
    /// State of the connection, `live` when all is well; null where it is unknown.
    state: Option<String>,
    /// Interface that the connection was told to use; null if the route chose one.
    interface: Option<String>,
    /// The NIC with that interface, by name; null where it is unknown.
    nic: Option<String>,
    /// Its namespaces.
    namespaces: Vec<RemoteNamespace>,
}

/// A namespace of a drive that another machine serves.
#[derive(Serialize, JsonSchema)]
struct RemoteNamespace {
    /// Kernel name of the block device.
    name: Option<String>,
    /// Capacity in bytes.
    size: Bytes,
}

/// The schema of the object.
pub fn schema() -> RecordSchema {
    RecordSchema::for_type::<Object>(SCHEMA)
}

/// The machine file as an object with the same keys, and who reaches whom.
///
/// # Errors
/// [`TopologyJsonError`], which no machine brings about.
pub fn object(fabric: &Fabric) -> Result<Value, TopologyJsonError> {
    let table: toml::Table = fabric.to_toml().parse().map_err(TopologyJsonError::new)?;
    let mut machine = Map::new();
    for (key, value) in table {
        machine.insert(key, serde_json::to_value(value).map_err(TopologyJsonError::new)?);
    }
    let (major, minor) = NEWEST_LIST;
    let assumed_kernel = fabric.kernel.version().is_none().then(|| format!("{major}.{minor}"));
    let remote_drives = fabric.remote_drives.iter().map(|drive| remote(fabric, drive)).collect();
    let reach = reach(fabric);
    let read = fabric.account.as_ref().map(read_row);
    let object = Object { schema: SCHEMA, reach, assumed_kernel, read, remote_drives, machine };
    serde_json::to_value(object).map_err(TopologyJsonError::new)
}

fn read_row(account: &TextAccount) -> ReadRow {
    let key = |count: &KeyCount| KeyRow {
        key: count.key.name(),
        in_text: count.in_text,
        attached: count.attached,
        set_aside: count.in_text - count.attached,
    };
    let line = |one: &SetAside| SetAsideRow {
        line: one.line,
        key: one.key.name(),
        text: one.text.clone(),
        reason: one.reason.to_string(),
        lost: one.reason.is_loss(),
    };
    ReadRow {
        functions: account.functions,
        keys: account.keys.iter().map(key).collect(),
        set_aside: account.set_aside.iter().map(line).collect(),
    }
}

fn remote(fabric: &Fabric, drive: &RemoteDrive) -> RemoteRow {
    let namespaces = drive.namespaces.iter();
    RemoteRow {
        name: drive.name.clone(),
        network: peerlane_engine::endpoints::network_facts(drive.location.clone()),
        state: drive.state.clone(),
        interface: drive.location.interface.clone(),
        nic: fabric.nic_of(drive).map(|id| fabric.function(id).name.clone()),
        namespaces: namespaces
            .map(|one| RemoteNamespace { name: one.name.clone(), size: one.size })
            .collect(),
    }
}

/// Most pairs whose redirecting ports are listed pair by pair; beyond it a row lists those of all its pairs.
const MAX_SINGLE_PAIRS: usize = 10_000;

/// The decision on every memory and initiator, grouped where it is the same for the same reasons; of two
/// lists that hold the same function, it is for the others.
fn reach(fabric: &Fabric) -> Vec<ReachRow> {
    let matrix = Matrix::new(fabric, Detail::Grouped);
    let decisions = Decisions::new(fabric);
    let pairs: usize = matrix.memories.iter().map(|row| row.members.len()).sum::<usize>()
        * matrix.initiators.iter().map(|column| column.members.len()).sum::<usize>();
    let mut rows = Vec::new();
    for row in &matrix.memories {
        for column in &matrix.initiators {
            let alone = (row.members[0], column.members[0]);
            let (memory, initiator) = representatives(row, column).unwrap_or(alone);
            let found = decisions.decide(memory, initiator);
            let is_one = row.members.len() * column.members.len() == 1;
            if is_one || pairs > MAX_SINGLE_PAIRS || is_same_for_all(&found) {
                rows.push(grouped_row(fabric, &decisions, (row, column), &found));
            } else {
                rows.extend(single_rows(fabric, &decisions, row, column));
            }
        }
    }
    rows
}

/// Returns whether no function of a single pair is named in a decision.
fn is_same_for_all(found: &Reach) -> bool {
    let names_functions = |need: &Need| matches!(need, Need::Acs(_));
    found.redirecting.is_empty() && !found.needs.iter().any(names_functions)
}

fn grouped_row(
    fabric: &Fabric,
    decisions: &Decisions<'_>,
    (row, column): (&Peers, &Peers),
    found: &Reach,
) -> ReachRow {
    let mut all = reach_row(fabric, (&row.members, &column.members), found);
    if row.members.len() * column.members.len() > 1 && !found.redirecting.is_empty() {
        all.redirecting = places(fabric, decisions.redirecting(row, column));
    }
    all
}

fn single_rows(
    fabric: &Fabric,
    decisions: &Decisions<'_>,
    row: &Peers,
    column: &Peers,
) -> Vec<ReachRow> {
    let pairs = row
        .members
        .iter()
        .flat_map(|&memory| column.members.iter().map(move |&initiator| (memory, initiator)));
    pairs
        .filter(|(memory, initiator)| memory != initiator)
        .map(|(memory, initiator)| {
            let found = decisions.decide(memory, initiator);
            reach_row(fabric, (&[memory], &[initiator]), &found)
        })
        .collect()
}

fn reach_row(
    fabric: &Fabric,
    (memories, initiators): (&[FunctionId], &[FunctionId]),
    found: &Reach,
) -> ReachRow {
    let names = |ids: &[FunctionId]| -> Vec<String> {
        ids.iter().map(|&id| fabric.function(id).name.clone()).collect()
    };
    let conditions = found.conditions.iter().cloned();
    ReachRow {
        memories: names(memories),
        initiators: names(initiators),
        verdict: found.map,
        distance: found.distance,
        redirecting: places(fabric, found.redirecting.iter().copied()),
        conditions: conditions.collect(),
        needs: found.needs.iter().map(|need| need.in_words(fabric)).collect(),
    }
}

/// The addresses of functions; the names of those that have none.
fn places(fabric: &Fabric, ids: impl IntoIterator<Item = FunctionId>) -> Vec<String> {
    let place = |id| fabric.function(id).address_or_name();
    ids.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{Namespace, NetworkLocation, QueueLimits};

    use super::*;

    fn machine() -> Fabric {
        peerlane_testing::machine("nic nic kernel_names = ['eth0']")
    }

    fn drive() -> RemoteDrive {
        RemoteDrive {
            name: "nvme5".to_owned(),
            location: NetworkLocation {
                transport: "rdma".to_owned(),
                host: Some("10.0.0.1".to_owned()),
                port: Some("4420".to_owned()),
                subsystem: Some("nqn.lab".to_owned()),
                interface: Some("eth0".to_owned()),
            },
            state: Some("live".to_owned()),
            namespaces: vec![Namespace {
                name: Some("nvme5n1".to_owned()),
                nsid: Some(1),
                size: Bytes::mib(1),
                limits: QueueLimits::default(),
                is_multipath_head: false,
                stable_writes: None,
                integrity: None,
                partitions: Vec::new(),
            }],
        }
    }

    #[test]
    fn remote_drives_are_rows_of_their_own() {
        let object = object(&Fabric { remote_drives: vec![drive()], ..machine() }).expect("JSON");
        let expected = serde_json::json!([{
            "name": "nvme5",
            "transport": "rdma",
            "address": "10.0.0.1:4420",
            "subsystem": "nqn.lab",
            "state": "live",
            "interface": "eth0",
            "nic": "nic",
            "namespaces": [{ "name": "nvme5n1", "size": 1 << 20 }],
        }]);
        assert_eq!(object["remote_drives"], expected);
    }

    #[test]
    fn machine_without_remote_drives_has_no_key() {
        assert_eq!(object(&machine()).expect("JSON").get("remote_drives"), None);
    }
}
