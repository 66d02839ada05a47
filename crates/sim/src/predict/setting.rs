//! The machine of one evaluation: the numbers of parameters, put where the engines look for them.

use std::collections::{BTreeMap, HashMap};

use peerlane_fabric::{Fabric, Function, FunctionKind, IommuMode};
use peerlane_units::{ByteRate, Bytes};
use serde::Deserialize;

use super::device_names::prefix;
use super::table::{check_unit, listed};
use crate::devices::drive::DriveSide;
use crate::devices::table::{SizeTable, TableError};
use crate::model::{
    self, Ethernet, HostMemory, Iommu, ModelEndpoint, NodeIndex, NodeKind, Op, Picos, RootComplex,
    SocketLink, Switch, TargetMemory, Topology, TopologyError, as_f64, place, root_names,
};
use crate::parameters::{ParameterError, ParameterShape, Parameters};

/// The largest payload of a packet (PCIe base specification, "Device control register"): at that, nothing is split.
const MAX_PAYLOAD: Bytes = Bytes(4096);

/// The parameters of machines without better ones.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// A file that holds no parameters.
#[derive(Debug, thiserror::Error)]
pub enum ParametersError {
    /// It is not TOML, or a field is of another kind.
    #[error("cannot read parameters")]
    Toml(#[from] Box<toml::de::Error>),
    /// A number without meaning.
    #[error("cannot use parameters")]
    Parameter(#[from] ParameterError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingFile {
    #[serde(default)]
    parameter: BTreeMap<String, ParameterShape>,
}

/// The parameters of a file, if there is one, before the defaults.
///
/// # Errors
/// When the file cannot be read, or has a number without meaning.
pub fn parameters(file: Option<&str>) -> Result<Parameters, ParametersError> {
    let mut parameters = Parameters::default();
    for text in file.into_iter().chain([DEFAULTS]) {
        let read: SettingFile = toml::from_str(text).map_err(Box::new)?;
        for (name, shape) in read.parameter {
            check_unit(&name, &shape)?;
            if parameters.position(&name).is_err() {
                parameters.add(shape.parameter(&name, |_| None)?)?;
            }
        }
    }
    Ok(parameters)
}

/// One set of numbers.
pub(super) struct ParameterSetting<'a> {
    parameters: &'a Parameters,
    numbers: &'a [f64],
}

impl<'a> ParameterSetting<'a> {
    pub(super) fn new(parameters: &'a Parameters, numbers: &'a [f64]) -> Self {
        Self { parameters, numbers }
    }

    /// A number in base units: bytes, seconds, bytes a second.
    pub(super) fn get(&self, name: &str) -> Result<f64, ParameterError> {
        Ok(self.numbers[self.parameters.position(name)?])
    }

    fn bytes(&self, name: &str) -> Result<Bytes, ParameterError> {
        Ok(Bytes(whole(self.get(name)?)))
    }

    /// One direction of a drive: each number its own or any drive's, and the rate that the machine's description states.
    pub(super) fn side(&self, function: &Function, op: Op) -> Result<DriveSide, ParameterError> {
        let name = &function.name;
        let stated = match op {
            Op::Write => function.rates.read,
            Op::Read => function.rates.write,
        };
        let op = word(op);
        let rate = format!("{op}.rate");
        let mut rate = match (self.own(name, &rate), stated) {
            (Err(_), Some(rate)) => as_f64(Bytes(rate.0)).max(1.0) * self.get("machine.stated")?,
            _ => self.of_drive(name, &rate)?,
        };
        if let Some(throttle) = function.lab.throttle {
            rate = rate.min(as_f64(Bytes(throttle.0)).max(1.0));
        }
        if op == "read" {
            // Heat and hours lower reads at once; writes have a cache before that.
            rate *= self.of_drive(name, "read.sustained")?;
        }
        let usual = self.table(&format!("drive.{op}"))?;
        let latency = self.table(&format!("{}.{op}", prefix(name)))?.or(usual);
        let latency =
            latency.ok_or_else(|| ParameterError::Unknown(format!("drive.{op}.time-4096")))?;
        Ok(DriveSide { latency, rate, commands: self.of_drive(name, &format!("{op}.commands"))? })
    }

    /// The sum that the shares of both rates of a drive reach: its own parameter, the machine's description, or any drive's.
    fn mixed(&self, function: &Function) -> Result<f64, ParameterError> {
        let stated = function.mixed_per_mille.map(|mixed| f64::from(mixed) / 1000.0);
        // A throttle of the lab counts reads and writes together.
        let stated = stated.or(function.lab.throttle.map(|_| 1.0));
        match (self.own(&function.name, "mixed"), stated) {
            (Err(_), Some(stated)) => Ok(stated),
            _ => self.of_drive(&function.name, "mixed"),
        }
    }

    /// The times of a command by size; `None` without any.
    fn table(&self, prefix: &str) -> Result<Option<SizeTable>, ParameterError> {
        let start = format!("{prefix}.time-");
        let fail = |name: &str, problem| ParameterError::Meaning { name: name.to_owned(), problem };
        let mut points = Vec::new();
        for (parameter, &time) in self.parameters.iter().zip(self.numbers) {
            let Some(size) = parameter.name.strip_prefix(&start) else { continue };
            let size = size.parse::<u64>().ok().filter(|&size| size > 0);
            let size = size.ok_or_else(|| {
                fail(&parameter.name, "a size is a whole number of bytes above zero: `time-4096`")
            })?;
            points.push((as_f64(Bytes(size)), time));
        }
        if points.is_empty() {
            return Ok(None);
        }
        let no_table = |error| match error {
            TableError::SaidTwice => fail(prefix, "two of its times are of one size"),
            _ => fail(prefix, "its times are not a table"),
        };
        SizeTable::measured(points).map(Some).map_err(no_table)
    }

    /// The largest block whose time is known of this drive itself, however it splits there; else 0.
    pub(super) fn measured_to(&self, drive: &str, op: Op) -> Result<f64, ParameterError> {
        let own = self.table(&format!("{}.{}", prefix(drive), word(op)))?;
        Ok(own.map_or(0.0, |table| table.end()))
    }

    /// Commands a second of blocks in random order: its own number, else any drive's, at most its own of sequential blocks.
    pub(super) fn random_commands(&self, drive: &str, op: Op) -> Result<f64, ParameterError> {
        let sequential = format!("{}.commands", word(op));
        let random = format!("random-{sequential}");
        self.own(drive, &random).or_else(|_| {
            let usual = self.get(&format!("drive.{random}"))?;
            Ok(self.own(drive, &sequential).map_or(usual, |sequential| usual.min(sequential)))
        })
    }

    /// A number of one drive.
    fn own(&self, drive: &str, what: &str) -> Result<f64, ParameterError> {
        self.get(&format!("{}.{what}", prefix(drive)))
    }

    /// A number of a drive: its own, or as of any drive.
    pub(super) fn of_drive(&self, drive: &str, what: &str) -> Result<f64, ParameterError> {
        self.own(drive, what).or_else(|_| self.get(&format!("drive.{what}")))
    }

    /// Values for everything that the fabric leaves out.
    fn usual(&self, fabric: &Fabric) -> Result<model::ModelParameters, ParameterError> {
        let rate = Some(ByteRate(whole(self.get("host.memory")?)));
        let mps = self.bytes("pcie.mps")?;
        let has_shared_queue = self.get("queues.shared")? >= 0.5;
        let latency = time(self.get("switch.latency")?);
        Ok(model::ModelParameters {
            root: self.root(fabric, has_shared_queue)?,
            switch: Switch { latency, has_shared_queue, ..Switch::default() },
            endpoint: ModelEndpoint {
                tags: count(self.get("pcie.tags")?),
                mrrs: self.bytes("pcie.mrrs")?,
                mps,
                memory: self.memory("device")?,
                ..ModelEndpoint::default()
            },
            host: HostMemory {
                memory: TargetMemory { write: rate, read: rate, ..self.memory("host")? },
                cores: Some(count(self.get("host.cores")?).max(1)),
            },
            mps,
            link: super::links::usual(self.parameters, self.numbers)?,
            socket: SocketLink {
                rate: ByteRate(whole(self.get("socket-link.rate")?)),
                latency: time(self.get("socket-link.latency")?),
            },
            ethernet: Ethernet {
                tunnel: count(self.get("ethernet.tunnel")?),
                latency: time(self.get("ethernet.latency")?),
                rate: Some(ByteRate(whole(self.get("ethernet.rate")?))),
                mtu: self.bytes("ethernet.mtu")?,
                headers: self.bytes("ethernet.headers")?,
            },
        })
    }

    /// Memory of a device, or of the host, as fast as it comes.
    fn memory(&self, of: &str) -> Result<TargetMemory, ParameterError> {
        Ok(TargetMemory {
            write_latency: time(self.get(&format!("{of}.write-latency"))?),
            read_latency: time(self.get(&format!("{of}.read-latency"))?),
            completion: self.bytes(&format!("{of}.completion"))?,
            ..TargetMemory::default()
        })
    }

    /// The machine with these numbers.
    pub(super) fn topology(&self, fabric: &Fabric) -> Result<Topology, SettingError> {
        let mut topology = Topology::from_fabric(fabric, &self.usual(fabric)?)?;
        let at = topology.by_name();
        for function in
            fabric.functions.iter().filter(|function| function.kind == FunctionKind::Nvme)
        {
            let posts = self.side(function, Op::Write)?.rate;
            let fetches = self.side(function, Op::Read)?.rate;
            let mixed = self.mixed(function)?;
            if let Some(endpoint) = endpoint_of(&mut topology, &at, &function.name) {
                endpoint.posts = Some(ByteRate(whole(posts)));
                endpoint.fetches = Some(ByteRate(whole(fetches)));
                endpoint.mixed = mixed;
            }
        }
        stated(fabric, &mut topology, &at, self.get("machine.stated")?);
        self.memories(&mut topology, &at);
        self.turns(&mut topology);
        super::links::set(self.parameters, self.numbers, &mut topology);
        Ok(topology)
    }

    /// Root complexes, with translation where the machine has any.
    fn root(&self, fabric: &Fabric, has_shared_queue: bool) -> Result<RootComplex, ParameterError> {
        let split = self.bytes("root.split")?;
        let iommu = Iommu {
            miss_per_mille: count(self.get("iommu.miss")? * 1000.0),
            bytes_per_translation: self.bytes("iommu.page")?,
            walk: time(self.get("iommu.walk")?),
            walkers: count(self.get("iommu.walkers")?).max(1),
        };
        Ok(RootComplex {
            latency: time(self.get("root.latency")?),
            split: (split < MAX_PAYLOAD).then_some(split),
            iommu: (fabric.iommu == IommuMode::Translating).then_some(iommu),
            has_shared_queue,
            ..RootComplex::default()
        })
    }

    /// Rates of memories, by names such as `nvme2.memory.write`, before what the description of the machine states.
    fn memories(&self, topology: &mut Topology, at: &Names) {
        for (parameter, &rate) in self.parameters.iter().zip(self.numbers) {
            let Some((name, op)) = parameter.name.rsplit_once(".memory.") else { continue };
            let Some(endpoint) = endpoint_of(topology, at, name) else { continue };
            let rate = Some(ByteRate(whole(rate).max(1)));
            match op {
                "write" => endpoint.memory.write = rate,
                "read" => endpoint.memory.read = rate,
                _ => {}
            }
        }
    }

    /// Weights of inputs of a switch, by names such as `d0.turns` (PCIe base specification, "Port arbitration", weighted
    /// round robin).
    fn turns(&self, topology: &mut Topology) {
        for (parameter, &turns) in self.parameters.iter().zip(self.numbers) {
            let Some(name) = parameter.name.strip_suffix(".turns") else { continue };
            let Some(link) = topology.find(name).and_then(|node| topology.link_above(node)) else {
                continue;
            };
            let upper = topology.link(link).upper;
            if let NodeKind::Switch(switch) = &mut topology.node_mut(upper).kind {
                switch.weights.push((link, count(turns).max(1)));
            }
        }
    }
}

/// The word for a drive's work while its initiator does this to a memory.
fn word(op: Op) -> &'static str {
    match op {
        Op::Write => "read",
        Op::Read => "write",
    }
}

/// Rates that the description of the machine states of memories that devices lend and of root complexes.
fn stated(fabric: &Fabric, topology: &mut Topology, at: &Names, kept: f64) {
    let kept = |rate: ByteRate| ByteRate(whole(as_f64(Bytes(rate.0)) * kept).max(1));
    for function in &fabric.functions {
        let Some(memory) = function.p2pmem.as_ref() else { continue };
        if let Some(endpoint) = endpoint_of(topology, at, &function.name) {
            endpoint.memory.write = memory.rates.write.map(kept).or(endpoint.memory.write);
            endpoint.memory.read = memory.rates.read.map(kept).or(endpoint.memory.read);
        }
    }
    let lower = |one: Option<ByteRate>, other: Option<ByteRate>| one.into_iter().chain(other).min();
    let roots = root_names(fabric);
    for bridge in &fabric.bridges {
        let Some(&node) = roots.get(&place(bridge)).and_then(|name| at.get(name)) else { continue };
        if let NodeKind::RootComplex(root) = &mut topology.node_mut(node).kind {
            root.p2p_write = lower(root.p2p_write, bridge.peer.write);
            root.p2p_read = lower(root.p2p_read, bridge.peer.read);
        }
    }
}

/// Nodes of a machine by name.
type Names = HashMap<String, NodeIndex>;

fn endpoint_of<'a>(
    topology: &'a mut Topology,
    at: &Names,
    name: &str,
) -> Option<&'a mut ModelEndpoint> {
    let &node = at.get(name)?;
    match &mut topology.node_mut(node).kind {
        NodeKind::Endpoint(endpoint) => Some(endpoint),
        _ => None,
    }
}

/// Numbers that make no machine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// A parameter is missing, or has no meaning.
    #[error("a parameter of the model cannot be used")]
    Parameter(#[from] ParameterError),
    /// The machine cannot be modelled.
    #[error("the machine cannot be modelled")]
    Topology(#[from] TopologyError),
}

impl SettingError {
    /// Advice for the person who gave the numbers.
    pub(super) fn hint(&self) -> Option<String> {
        let Self::Parameter(ParameterError::Meaning { name, .. }) = self else { return None };
        Some(match listed(name) {
            Some(all) => format!("`--vary {name}={all}` has every number that there is"),
            None => format!("`--vary {name}=` or a file of `--parameters` gives it another value"),
        })
    }
}

/// Seconds as the engines count them.
pub(super) fn time(seconds: f64) -> Picos {
    Picos(whole(seconds * 1e12))
}

pub(super) fn count(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(u32::MAX)
}

/// The nearest whole number, within what there is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats end at the bounds of the integer"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}
