//! A machine as one object, as `peerlane topo --json` prints it, and any pair's answer from it.

use peerlane_fabric::lspci::TextAccount;
use peerlane_fabric::{Fabric, FunctionId, RdmaDevice, RdmaPort, RemoteDrive};
use peerlane_reach::{GroupAnswer, GroupNeed, NEWEST_LIST, ReachGroup, ReachGroups};
use peerlane_results::{Condition, MapType, NetworkFacts, RecordSchema};
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name and version of the object.
pub const SCHEMA: &str = "peerlane.topo/1";

/// A machine that cannot be written as JSON, which a fault of this program alone can bring about.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the machine as JSON")]
pub struct TopologyJsonError(#[source] serde_json::Error);

/// A machine as an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Name and version.
    pub schema: String,
    /// Functions with memory, and functions that move payload, in groups: those of one have one path up and
    /// the same answers.
    pub groups: Vec<TopologyGroup>,
    /// The kernel's decisions between groups. The first that lists the groups of a memory and of an initiator
    /// is theirs.
    pub reach: Vec<TopologyAnswer>,
    /// The kernel whose list of host bridges was taken, where the version is unknown: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_kernel: Option<String>,
    /// The account of the text of `lspci` that the machine was read from; absent for any other source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<TextAccount>,
    /// Drives that other machines serve, by NVMe over Fabrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_drives: Vec<RemoteRow>,
    /// RDMA devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma_devices: Vec<RdmaRow>,
    /// The keys of a machine file.
    #[serde(flatten)]
    pub machine: Map<String, Value>,
}

/// Functions with one path up and the same answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyGroup {
    /// Functions with memory, by name.
    pub memories: Vec<String>,
    /// Functions that read or write memory, by name.
    pub initiators: Vec<String>,
}

/// The kernel's decision on the memories of some groups and the initiators of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyAnswer {
    /// True: each function and its own memory. False: two different functions.
    #[serde(default, skip_serializing_if = "is_false")]
    pub itself: bool,
    /// Positions in `groups`, from 0.
    pub memories: Vec<usize>,
    /// Positions in `groups`, from 0.
    pub initiators: Vec<usize>,
    /// The kernel's decision.
    pub verdict: MapType,
    /// Hops up and down; null where the kernel refuses, or where bridges on the way are unknown.
    pub distance: Option<u32>,
    /// Functions that redirect to the root complex and so decide, by name; a pair has those on its own path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirecting: Vec<String>,
    /// Functions with unread ACS registers that decide, by name; a pair has those on its own path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// The outcomes of `conditional`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The facts that `unknown` lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<GroupNeed>,
}

/// The kernel's decision on a memory and an initiator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologyPair {
    /// The kernel's decision.
    pub verdict: MapType,
    /// Hops up and down; `None` where the kernel refuses, or where bridges on the way are unknown.
    pub distance: Option<u32>,
    /// Functions on the path that redirect to the root complex, by name, from the memory on.
    pub redirecting: Vec<String>,
    /// The outcomes of `conditional`.
    pub conditions: Vec<Condition>,
    /// The facts that `unknown` lacks, in words.
    pub needs: Vec<String>,
}

// The signature is that of `skip_serializing_if`.
fn is_false(value: &bool) -> bool {
    !value
}

/// An RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaRow {
    /// Kernel name: `mlx5_0`, `rxe0`.
    pub name: String,
    /// Its function, by name; null for a software device, which does no DMA.
    pub function: Option<String>,
    /// Its ports.
    pub ports: Vec<RdmaPort>,
}

/// A drive that another machine serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteRow {
    /// Kernel name of the controller.
    pub name: String,
    /// Where it is served.
    #[serde(flatten)]
    pub network: NetworkFacts,
    /// State of the connection, `live` when all is well; null where it is unknown.
    pub state: Option<String>,
    /// Interface that the connection was told to use; null if the route chose one.
    pub interface: Option<String>,
    /// The NIC with that interface, by name; null where it is unknown.
    pub nic: Option<String>,
    /// Its namespaces.
    pub namespaces: Vec<RemoteNamespace>,
}

/// A namespace of a drive that another machine serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteNamespace {
    /// Kernel name of the block device.
    pub name: Option<String>,
    /// Capacity in bytes.
    pub size: Bytes,
}

/// The schema of the object.
pub fn schema() -> RecordSchema {
    RecordSchema::for_type::<Topology>(SCHEMA)
}

impl Topology {
    /// A machine with the keys of a machine file, and who reaches whom.
    ///
    /// # Errors
    /// [`TopologyJsonError`], which no machine brings about.
    pub fn new(fabric: &Fabric) -> Result<Self, TopologyJsonError> {
        let mut machine = serde_json::to_value(fabric).map_err(TopologyJsonError)?;
        drop_nulls(&mut machine);
        let machine = match machine {
            Value::Object(machine) => machine,
            _ => Map::new(),
        };
        let (major, minor) = NEWEST_LIST;
        let found = ReachGroups::new(fabric);
        Ok(Self {
            schema: SCHEMA.to_owned(),
            groups: found.groups.iter().map(|one| group(fabric, one)).collect(),
            reach: found.answers.iter().map(|one| answer(fabric, one)).collect(),
            assumed_kernel: fabric.kernel.version().is_none().then(|| format!("{major}.{minor}")),
            read: fabric.account.clone(),
            remote_drives: fabric.remote_drives.iter().map(|one| remote(fabric, one)).collect(),
            rdma_devices: fabric.rdma_devices.iter().map(|one| rdma(fabric, one)).collect(),
            machine,
        })
    }

    /// The kernel's decision on the memory of one function and another that reads or writes it, or the same one;
    /// `None` where no function of these names has memory and moves payload.
    pub fn pair(&self, memory: &str, initiator: &str) -> Option<TopologyPair> {
        let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
        let row = self.groups.iter().position(|group| has(&group.memories, memory))?;
        let column = self.groups.iter().position(|group| has(&group.initiators, initiator))?;
        let is_theirs = |answer: &&TopologyAnswer| {
            answer.itself == (memory == initiator)
                && answer.memories.contains(&row)
                && answer.initiators.contains(&column)
        };
        let found = self.reach.iter().find(is_theirs)?;
        let (above, other) = (self.path(memory), self.path(initiator));
        let passed = passed(&above, &other);
        let on_path = |names: &[String]| -> Vec<String> {
            let passed = passed.iter().filter(|name| has(names, name));
            passed.map(|&name| name.to_owned()).collect()
        };
        let unread = on_path(&found.unread);
        let bridges = (*above.last()?, *other.last()?);
        let mut needs = Vec::new();
        for need in &found.needs {
            let words = need.in_words(unread.iter().map(String::as_str), bridges);
            // Both may be below one host bridge.
            if !needs.contains(&words) {
                needs.push(words);
            }
        }
        Some(TopologyPair {
            verdict: found.verdict,
            distance: found.distance,
            redirecting: on_path(&found.redirecting),
            conditions: found.conditions.clone(),
            needs,
        })
    }

    /// A function, and what it hangs from, up to the host bridge.
    fn path<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let functions = self.machine.get("function").and_then(Value::as_array);
        let above = |name: &&'a str| {
            let is_it = |one: &&Value| one["name"] == **name;
            functions?.iter().find(is_it)?["under"].as_str()
        };
        // A record from elsewhere may have a function below itself.
        let most = functions.map_or(0, Vec::len) + 1;
        std::iter::successors(Some(name), above).take(most).collect()
    }
}

/// The functions on the way between two ends, by their paths up to the host bridge: from the first end to the port
/// where they meet, then those of the other; none where they meet at the root complex.
fn passed<'a>(one: &[&'a str], other: &[&'a str]) -> Vec<&'a str> {
    let functions = |path: &[&'a str]| path.len().saturating_sub(1);
    let (one, other) = (&one[..functions(one)], &other[..functions(other)]);
    let Some(meeting) = one.iter().position(|name| other.contains(name)) else {
        return Vec::new();
    };
    let below = other.iter().take_while(|name| **name != one[meeting]);
    one[..=meeting].iter().chain(below).copied().collect()
}

fn group(fabric: &Fabric, group: &ReachGroup) -> TopologyGroup {
    TopologyGroup {
        memories: names(fabric, group.memories.iter().copied()),
        initiators: names(fabric, group.initiators.iter().copied()),
    }
}

fn answer(fabric: &Fabric, answer: &GroupAnswer) -> TopologyAnswer {
    TopologyAnswer {
        itself: answer.is_itself,
        memories: answer.memories.clone(),
        initiators: answer.initiators.clone(),
        verdict: answer.map,
        distance: answer.distance,
        redirecting: names(fabric, answer.redirecting.iter().copied()),
        unread: names(fabric, answer.unread.iter().copied()),
        conditions: answer.conditions.clone(),
        needs: answer.needs.clone(),
    }
}

fn names(fabric: &Fabric, ids: impl Iterator<Item = FunctionId>) -> Vec<String> {
    ids.map(|id| fabric.function(id).name.clone()).collect()
}

fn rdma(fabric: &Fabric, device: &RdmaDevice) -> RdmaRow {
    RdmaRow {
        name: device.name.clone(),
        function: device.function.map(|id| fabric.function(id).name.clone()),
        ports: device.ports.clone(),
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

/// Leaves out facts that are unknown, as TOML does.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{Namespace, NetworkLocation, QueueLimits, RdmaGid};

    use super::*;

    fn machine() -> Fabric {
        peerlane_testing::machine("nic nic kernel_names = ['eth0']")
    }

    fn object(fabric: &Fabric) -> Value {
        serde_json::to_value(Topology::new(fabric).expect("JSON")).expect("JSON")
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
    fn functions_below_themselves_end_a_path() {
        let mut topology = Topology::new(&machine()).expect("JSON");
        let functions =
            serde_json::json!([{ "name": "a", "under": "b" }, { "name": "b", "under": "a" }]);
        topology.machine.insert("function".to_owned(), functions);
        assert_eq!(topology.path("a"), ["a", "b", "a"]);
    }

    #[test]
    fn remote_drives_are_rows_of_their_own() {
        let object = object(&Fabric { remote_drives: vec![drive()], ..machine() });
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
    fn rdma_devices_are_rows_of_their_own() {
        let gid = RdmaGid { index: 1, address: "::ffff:10.0.0.1".to_owned(), kind: None };
        let port = RdmaPort { number: 1, gids: vec![gid], ..RdmaPort::default() };
        let function = machine().find("nic");
        let device = RdmaDevice { name: "mlx5_0".to_owned(), function, ports: vec![port] };
        let object = object(&Fabric { rdma_devices: vec![device], ..machine() });
        let [row] = &object["rdma_devices"].as_array().expect("rows")[..] else {
            panic!("{object}")
        };
        assert_eq!((row["name"].as_str(), row["function"].as_str()), (Some("mlx5_0"), Some("nic")));
        assert_eq!(row["ports"][0]["gids"][0]["gid"], "::ffff:10.0.0.1");
    }

    #[test]
    fn machine_without_remote_drives_has_no_key() {
        assert_eq!(object(&machine()).get("remote_drives"), None);
    }
}
