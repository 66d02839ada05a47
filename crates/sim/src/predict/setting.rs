//! Numbers of one evaluation, put where the engines look for them.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Kind, Rates};
use peerlane_units::{ByteRate, Bytes};
use serde::Deserialize;

use crate::devices::drive::Side;
use crate::devices::table::Table;
use crate::model::{
    self, Endpoint, HostMemory, Memory, NodeKind, Op, Picos, RootComplex, Switch, Topology,
    TopologyError, named,
};
use crate::parameters::{ParameterError, ParameterShape, Parameters};
use crate::way::as_f64;

/// The parameters of machines of which nothing better is known.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// Why a file holds no parameters.
#[derive(Debug, thiserror::Error)]
pub enum ParametersError {
    /// It is no TOML, or a field is not what it should be.
    #[error("cannot read parameters")]
    Toml(#[from] Box<toml::de::Error>),
    /// A number without meaning.
    #[error("cannot use parameters")]
    Parameter(#[from] ParameterError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    parameter: BTreeMap<String, ParameterShape>,
}

/// The parameters of a file, if there is one, before the defaults.
///
/// # Errors
/// When the file is none, or has a number without meaning.
pub fn parameters(file: Option<&str>) -> Result<Parameters, ParametersError> {
    let mut parameters = Parameters::default();
    for text in file.into_iter().chain([DEFAULTS]) {
        let read: File = toml::from_str(text).map_err(Box::new)?;
        for (name, shape) in read.parameter {
            if parameters.position(&name).is_err() {
                parameters.add(shape.parameter(&name, |_| None)?)?;
            }
        }
    }
    Ok(parameters)
}

/// One set of numbers.
pub(super) struct Setting<'a> {
    parameters: &'a Parameters,
    numbers: &'a [f64],
}

impl<'a> Setting<'a> {
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

    /// One direction of a drive: by the first of its names that has parameters, or as any drive, with the
    /// rate that the machine's description states of it.
    pub(super) fn side(
        &self,
        names: &[&str],
        stated: Rates,
        op: Op,
    ) -> Result<Side, ParameterError> {
        let stated = match op {
            Op::Write => stated.read,
            Op::Read => stated.write,
        };
        let op = match op {
            Op::Write => "read",
            Op::Read => "write",
        };
        let known = names.iter().find(|name| self.get(&format!("{name}.{op}.rate")).is_ok());
        let prefix = format!("{}.{op}", known.unwrap_or(&"drive"));
        let rate = match stated.filter(|_| known.is_none()) {
            Some(rate) => as_f64(Bytes(rate.0)).max(1.0) * self.get("machine.stated")?,
            None => self.get(&format!("{prefix}.rate"))?,
        };
        let start = format!("{prefix}.time-");
        let points = self.parameters.iter().zip(self.numbers).filter_map(|(parameter, &time)| {
            let size: f64 = parameter.name.strip_prefix(&start)?.parse().ok()?;
            Some((size, time))
        });
        let latency = Table::measured(points).map_err(|_| ParameterError::Meaning {
            name: prefix.clone(),
            problem: "its times are no table",
        })?;
        Ok(Side { latency, rate, commands: self.get(&format!("{prefix}.commands"))? })
    }

    /// The machine with these numbers.
    pub(super) fn topology(&self, fabric: &Fabric) -> Result<Topology, SettingError> {
        let host = ByteRate(whole(self.get("host.memory")?));
        let tags = u32::try_from(whole(self.get("pcie.tags")?)).unwrap_or(u32::MAX);
        let mps = self.bytes("pcie.mps")?;
        let defaults = model::Parameters::default();
        let memory = Memory { write: Some(host), read: Some(host), ..HostMemory::default().memory };
        let parameters = model::Parameters {
            root: RootComplex { latency: time(self.get("root.latency")?), ..defaults.root },
            switch: Switch { latency: time(self.get("switch.latency")?), ..defaults.switch },
            endpoint: Endpoint { tags, mrrs: self.bytes("pcie.mrrs")?, mps, ..defaults.endpoint },
            host: HostMemory { memory },
            mps,
            ..defaults
        };
        let mut topology = Topology::from_fabric(fabric, &parameters)?;
        for function in fabric.functions.iter().filter(|function| function.kind == Kind::Nvme) {
            let names = [function.name.as_str()];
            let posts = self.side(&names, function.rates, Op::Write)?.rate;
            let fetches = self.side(&names, function.rates, Op::Read)?.rate;
            if let Some(endpoint) = endpoint_of(&mut topology, &function.name) {
                endpoint.posts = Some(ByteRate(whole(posts)));
                endpoint.fetches = Some(ByteRate(whole(fetches)));
            }
        }
        stated(fabric, &mut topology, self.get("machine.stated")?);
        Ok(topology)
    }
}

/// What the description of the machine states of memories that devices lend and of root complexes.
fn stated(fabric: &Fabric, topology: &mut Topology, kept: f64) {
    let kept = |rate: ByteRate| ByteRate(whole(as_f64(Bytes(rate.0)) * kept).max(1));
    for function in &fabric.functions {
        let Some(memory) = function.p2pmem.as_ref() else { continue };
        if let Some(endpoint) = endpoint_of(topology, &function.name) {
            endpoint.memory.write = memory.rates.write.map(kept).or(endpoint.memory.write);
            endpoint.memory.read = memory.rates.read.map(kept).or(endpoint.memory.read);
        }
    }
    let lower = |one: Option<ByteRate>, other: Option<ByteRate>| one.into_iter().chain(other).min();
    for bridge in &fabric.bridges {
        let Some(node) = topology.find(&named(bridge, "root")) else { continue };
        if let NodeKind::RootComplex(root) = &mut topology.node_mut(node).kind {
            root.p2p_write = lower(root.p2p_write, bridge.peer.write);
            root.p2p_read = lower(root.p2p_read, bridge.peer.read);
        }
    }
}

fn endpoint_of<'a>(topology: &'a mut Topology, name: &str) -> Option<&'a mut Endpoint> {
    let node = topology.find(name)?;
    match &mut topology.node_mut(node).kind {
        NodeKind::Endpoint(endpoint) => Some(endpoint),
        _ => None,
    }
}

/// Why numbers make no machine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// A parameter is missing, or has no meaning.
    #[error("a parameter of the model cannot be used")]
    Parameter(#[from] ParameterError),
    /// The machine cannot be modelled.
    #[error("the machine cannot be modelled")]
    Topology(#[from] TopologyError),
}

/// Seconds as the engines count them.
pub(super) fn time(seconds: f64) -> Picos {
    Picos(whole(seconds * 1e12))
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
