//! Predictions for what nobody has measured: on the flow engine, dated, with intervals.
//!
//! Leaves out whether they will come true. The one thing to know: they use the parameters of the figures,
//! fits included, so that a change of either shows as a change of the page.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Link};
use peerlane_results::Path;
use peerlane_units::{ByteRate, Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scenario::{Evaluator, Place};
use super::shape::{
    DeviceRole, DeviceShape, FlowShape, PacketsShape, ScenarioShape, SideShape, SourceShape,
};
use super::{Study, StudyError};
use crate::devices::memory::{InFlight, Port, port_rate};
use crate::flow::build::What;
use crate::flow::rates::Rates;
use crate::flow::solve::Settings;
use crate::model::{Coupling, FlowSpec, NodeKind, Op, Parameters as Usual, Picos, Topology};
use crate::parameters::{Draw, ParameterShape, Values, View, percentile};

/// Draws for an interval.
const DRAWS: u64 = 100;
/// Seed of all draws.
const SEED: u64 = 20_261_121;

/// `sources/predictions.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PredictionsShape {
    pub(super) date: String,
    #[serde(default)]
    pub(super) parameter: BTreeMap<String, ParameterShape>,
    pub(super) prediction: Vec<PredictionShape>,
}

/// One case that nobody has measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PredictionShape {
    pub(super) id: String,
    pub(super) says: String,
    /// The day on which it was made, where that is another one than the file's.
    pub(super) date: Option<String>,
    /// The document whose devices and packets it uses.
    pub(super) like: String,
    pub(super) machine: String,
    pub(super) packets: Option<PacketsShape>,
    #[serde(default)]
    pub(super) links: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) device: Vec<DeviceShape>,
    #[serde(default)]
    pub(super) flows: Vec<FlowShape>,
    pub(super) pattern: Option<PatternShape>,
    /// Whether what waits for one output of a switch holds up the rest.
    #[serde(default = "yes")]
    pub(super) shared_queues: bool,
}

fn yes() -> bool {
    true
}

/// Many flows that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PatternShape {
    kind: Pattern,
    source: String,
    target: String,
    count: u32,
    path: Path,
    block: Bytes,
    depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    /// Each to the next.
    Ring,
    /// Each to each other.
    AllPairs,
    /// All to one.
    Incast,
    /// One to all.
    Outcast,
}

impl PatternShape {
    fn flows(&self) -> Vec<FlowShape> {
        let flow = |source: String, target: String| FlowShape {
            source,
            target,
            via: None,
            path: self.path,
            block: self.block,
            depth: self.depth,
        };
        let (source, target) = (&self.source, &self.target);
        let numbers = 0..self.count;
        match self.kind {
            Pattern::Ring => numbers
                .map(|n| flow(format!("{source}{n}"), format!("{target}{}", (n + 1) % self.count)))
                .collect(),
            Pattern::AllPairs => numbers
                .flat_map(|one| {
                    let others = (0..self.count).filter(move |&other| other != one);
                    others.map(move |other| (one, other))
                })
                .map(|(one, other)| flow(format!("{source}{one}"), format!("{target}{other}")))
                .collect(),
            Pattern::Incast => {
                numbers.map(|n| flow(format!("{source}{n}"), target.clone())).collect()
            }
            Pattern::Outcast => {
                numbers.map(|n| flow(source.clone(), format!("{target}{n}"))).collect()
            }
        }
    }
}

/// A case that nobody has measured, and what is predicted of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
// A record of a benchmark has another `Prediction`.
#[schemars(rename = "Unmeasured")]
pub struct Prediction {
    /// Its name.
    pub prediction: String,
    /// What is predicted.
    pub says: String,
    /// The day on which it was made.
    pub date: String,
    /// How many transfers run at once.
    pub flows: usize,
    /// Bytes a second of all of them, by the flow engine.
    pub rate: f64,
    /// 80 % of draws from the ranges of the parameters lie between.
    pub interval: (f64, f64),
    /// Bytes a second of the slowest and of the fastest.
    pub each: (f64, f64),
    /// What limits the slowest.
    pub limited_by: String,
    /// Bytes a second of all of them, by the closed form, which shares equally.
    pub closed_form: f64,
    /// Mean time of a block of the slowest in seconds, by Little's law.
    pub block_time: f64,
    /// Host-memory bytes a second, lowest and highest.
    pub host_memory: (f64, f64),
}

struct Solved {
    rates: Vec<f64>,
    limited_by: String,
}

impl Study {
    /// Everything in `sources/predictions.toml`.
    ///
    /// # Errors
    /// When a file is at fault.
    pub fn predictions(&self) -> Result<Vec<Prediction>, StudyError> {
        let numbers = self.fitted()?;
        let drawn: Vec<Vec<f64>> = (0..DRAWS)
            .map(|draw| self.drawn(&numbers, Draw::new(SEED), draw))
            .collect::<Result<_, _>>()?;
        let shapes = self.predictions.prediction.iter();
        shapes.map(|shape| self.prediction(shape, &numbers, &drawn)).collect()
    }

    fn prediction(
        &self,
        shape: &PredictionShape,
        numbers: &[f64],
        drawn: &[Vec<f64>],
    ) -> Result<Prediction, StudyError> {
        let source = self.like(shape)?;
        let scenario = scenario(shape);
        let solved = self.solve(shape, &source, &scenario, numbers)?;
        let mut sums = Vec::new();
        for numbers in drawn {
            sums.push(self.solve(shape, &source, &scenario, numbers)?.rates.iter().sum());
        }
        sums.sort_by(f64::total_cmp);
        let values = Values::new(&self.parameters, numbers, View::Model);
        let evaluator = Evaluator { machines: &self.machines, source: &source, values: &values };
        let closed = evaluator.flows(&scenario, &scenario.flows)?;
        let rate: f64 = solved.rates.iter().sum();
        let least = solved.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = solved.rates.iter().copied().fold(0.0, f64::max);
        let first = scenario.flows.first().ok_or(StudyError::Empty)?;
        #[expect(clippy::cast_precision_loss, reason = "a block size")]
        let in_flight = first.block.0 as f64 * f64::from(first.depth);
        Ok(Prediction {
            prediction: shape.id.clone(),
            says: shape.says.clone(),
            date: shape.date.as_ref().unwrap_or(&self.predictions.date).clone(),
            flows: scenario.flows.len(),
            rate,
            // Where queues fill on one side of it, and lose some, the rate itself may be above all draws.
            interval: (
                percentile(&sums, 0.1).map_or(rate, |low| low.min(rate)),
                percentile(&sums, 0.9).map_or(rate, |high| high.max(rate)),
            ),
            each: (least, most),
            limited_by: solved.limited_by,
            closed_form: closed.rate,
            block_time: in_flight / least,
            host_memory: (rate * closed.traffic.least, rate * closed.traffic.most),
        })
    }

    /// The document whose devices it uses, with its own packets where it says so.
    fn like(&self, shape: &PredictionShape) -> Result<SourceShape, StudyError> {
        let found = self.sources.iter().find(|source| source.source == shape.like);
        let mut source = found.cloned().ok_or_else(|| StudyError::NoSuchSource {
            asked: shape.like.clone(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })?;
        source.machine.clone_from(&shape.machine);
        if let Some(packets) = &shape.packets {
            source.packets = packets.clone();
        }
        Ok(source)
    }

    fn solve(
        &self,
        shape: &PredictionShape,
        source: &SourceShape,
        scenario: &ScenarioShape,
        numbers: &[f64],
    ) -> Result<Solved, StudyError> {
        let fabric = self
            .machines
            .get(&shape.machine)
            .ok_or_else(|| StudyError::NoSuchMachine(shape.machine.clone()))?;
        let fabric = relinked(fabric, &scenario.links)?;
        let place = Place { fabric: &fabric, source, scenario };
        let values = Values::new(&self.parameters, numbers, View::Model);
        let engine = Engine { place: &place, values: &values };
        let topology = engine.topology(shape.shared_queues)?;
        let flows: Vec<FlowSpec> = scenario
            .flows
            .iter()
            .map(|flow| engine.flow(&topology, flow))
            .collect::<Result<_, _>>()?;
        let solved = Rates::of(&topology, &flows, Settings::default())
            .map_err(|error| StudyError::Engine(format!("{}: {}", shape.id, chain(&error))))?;
        let rates: Vec<f64> = solved.solution.rates.iter().map(|rate| rate * 1e9).collect();
        let slowest = (0..rates.len()).min_by(|&a, &b| rates[a].total_cmp(&rates[b]));
        let limit = slowest.and_then(|slowest| solved.limit(slowest));
        let limited_by = limit.map_or_else(|| "depth".to_owned(), |what| words(&topology, what));
        Ok(Solved { rates, limited_by })
    }
}

fn scenario(shape: &PredictionShape) -> ScenarioShape {
    let pattern = shape.pattern.as_ref().map(PatternShape::flows).unwrap_or_default();
    ScenarioShape {
        machine: Some(shape.machine.clone()),
        flows: shape.flows.iter().cloned().chain(pattern).collect(),
        links: shape.links.clone(),
        device: shape.device.clone(),
        ..ScenarioShape::default()
    }
}

fn relinked(fabric: &Fabric, links: &BTreeMap<String, String>) -> Result<Fabric, StudyError> {
    let mut fabric = fabric.clone();
    for (name, text) in links {
        let speed = text.parse().map_err(|_| StudyError::Link(text.clone()))?;
        let id = fabric.find(name).ok_or_else(|| StudyError::NoSuchFunction {
            machine: fabric.name.clone(),
            name: name.clone(),
        })?;
        let link = Link { current: Some(speed), maximum: Some(speed) };
        fabric.functions[id.0].link = Some(link);
    }
    Ok(fabric)
}

/// Puts the parameters of a document onto the flow engine's topology.
struct Engine<'a> {
    place: &'a Place<'a>,
    values: &'a Values<'a>,
}

impl Engine<'_> {
    fn topology(&self, shared: bool) -> Result<Topology, StudyError> {
        let packets = &self.place.source.packets;
        let mut usual = Usual { mps: bytes(self.values.get(&packets.write)?), ..Usual::default() };
        usual.endpoint.mps = usual.mps;
        usual.endpoint.mrrs = bytes(self.values.get(&packets.request)?);
        usual.endpoint.memory.completion = bytes(self.values.get(&packets.completion)?);
        usual.endpoint.memory.is_shared = false;
        usual.host.memory.completion = usual.endpoint.memory.completion;
        let hol = if shared { Coupling::SHARED } else { Coupling::ISOLATED };
        usual.switch.hol = hol;
        usual.root.hol = hol;
        if let Some(wire) = self.place.source.device.iter().find_map(|one| one.wire.as_ref()) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
            let tunnel = self.values.get(&wire.tunnel)? as u32;
            usual.ethernet.tunnel = tunnel;
        }
        if let Some(device) = self.place.device("host-bridge") {
            usual.root.p2p_write = self.rate(&device.write)?;
            usual.root.p2p_read = self.rate(&device.read)?;
        }
        let mut topology = Topology::from_fabric(self.place.fabric, &usual)
            .map_err(|error| StudyError::Engine(error.to_string()))?;
        for (_, function) in self.place.fabric.iter() {
            let (Some(device), Some(node)) =
                (self.place.device(&function.name), topology.find(&function.name))
            else {
                continue;
            };
            let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(node).kind else { continue };
            if device.role == DeviceRole::Drive {
                endpoint.posts = self.rate(&device.read)?;
                endpoint.fetches = self.rate(&device.write)?;
                if let Some(mixed) = &device.mixed {
                    endpoint.mixed = self.values.get(mixed)?;
                }
            } else {
                endpoint.memory.write = self.rate(&device.write)?;
                endpoint.memory.read = self.rate(&device.read)?;
            }
        }
        Ok(topology)
    }

    /// The ceiling of a side; `None` where nothing is said.
    fn rate(&self, side: &SideShape) -> Result<Option<ByteRate>, StudyError> {
        let get =
            |name: &Option<String>| name.as_ref().map(|name| self.values.get(name)).transpose();
        let in_flight = match (get(&side.in_flight)?, get(&side.round_trip)?) {
            (Some(bytes), Some(round_trip)) => Some(InFlight { bytes, round_trip }),
            _ => None,
        };
        let rate = port_rate(Port { rate: get(&side.rate)?.unwrap_or(f64::INFINITY), in_flight });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        Ok(rate.is_finite().then_some(ByteRate(rate as u64)))
    }

    fn flow(&self, topology: &Topology, flow: &FlowShape) -> Result<FlowSpec, StudyError> {
        let node = |name: &str| {
            topology.find(name).ok_or_else(|| StudyError::NoSuchFunction {
                machine: self.place.fabric.name.clone(),
                name: name.to_owned(),
            })
        };
        let name = format!("{} to {}", flow.source, flow.target);
        let source = node(&flow.source)?;
        let target = node(&flow.target)?;
        let of_drive =
            |name: &str| self.place.device(name).filter(|device| device.role == DeviceRole::Drive);
        let depth = match flow.path {
            Path::HostSerial | Path::HostPageCache | Path::HostMapped => 1,
            Path::P2p | Path::HostPipelined | Path::HostCufile => flow.depth,
        };
        let middle = match (flow.path, &flow.via) {
            (Path::P2p, via) => via.as_deref().map(node).transpose()?,
            _ => Some(node("host0")?),
        };
        let mut spec = match middle {
            Some(middle) => FlowSpec::relay(name, source, middle, target),
            None if of_drive(&flow.source).is_some() => FlowSpec::write(name, source, target),
            None => FlowSpec::read(name, target, source),
        }
        .with(flow.block, depth);
        if let Some(start) = of_drive(&flow.source).and_then(|device| device.read.start.as_ref()) {
            let nanos = self.values.get(start)? * 1e9;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            let latency = Picos::nanos(nanos as u64);
            spec.first.latency = latency;
        }
        // The engine of a card that fetches from host memory.
        if let (Some(second), Some(device)) = (&mut spec.second, self.place.device(&flow.target)) {
            second.bound = self.rate(&device.dma_in)?;
        }
        Ok(spec)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a packet size")]
fn bytes(number: f64) -> Bytes {
    Bytes(number as u64)
}

/// An error and its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn words(topology: &Topology, what: What) -> String {
    let name = |node| topology.node(node).name.clone();
    match what {
        What::Link(link, direction) | What::Buffer(link, direction, ..) => {
            let sender = name(topology.sender(link, direction));
            let receiver = name(topology.receiver(link, direction));
            format!("link from {sender} to {receiver}")
        }
        What::Memory(node, _) => format!("memory of {}", name(node)),
        What::Medium(node, Some(Op::Write)) => format!("{}, reading", name(node)),
        What::Medium(node, Some(Op::Read)) => format!("{}, writing", name(node)),
        What::Medium(node, None) => format!("{}, reading and writing", name(node)),
        What::Tags(node) => format!("requests in flight of {}", name(node)),
        What::Peers(..) | What::PeersBuffer(..) => "root complex".to_owned(),
        What::Answers(node, _) => format!("answers of {}", name(node)),
        What::Walkers(_) => "IOMMU".to_owned(),
        What::Processors(_) | What::Copies(_) => "processors".to_owned(),
    }
}
