//! A scenario as a topology with flows, which the flow engine solves.
//!
//! Leaves out the kernel's permission (`fabric::reach`). Only the limits on the way of a flow are
//! read, so that the parameters read are those that a figure depends on.

use std::borrow::Cow;

use peerlane_fabric::{Fabric, FunctionKind, Link};
use peerlane_results::Path;
use peerlane_units::{ByteRate, Bytes};

use super::StudyError;
use super::scenario::Evaluator;
use super::shape::{DeviceShape, FlowShape, ScenarioShape, SideShape};
use crate::model::{
    FlowSpec, Framing, Leg, LinkIndex, ModelEndpoint, ModelParameters, NodeIndex, NodeKind, Op,
    Picos, ResourceOrigin, Topology,
};
use crate::parameters::View;
use crate::predict::resource_name;

/// Largest payload of a packet and largest read request; both are powers of two (PCIe base
/// specification, "Device control register").
const LARGEST_PACKET: u32 = 4096;
/// The end of a flow that is host memory.
pub(super) const HOST: &str = "host";

/// Puts flows, one after the other, onto a machine.
pub(super) struct ScenarioBuilder<'a> {
    evaluator: &'a Evaluator<'a>,
    scenario: &'a ScenarioShape,
    fabric: Cow<'a, Fabric>,
    pub(super) topology: Topology,
}

impl<'a> ScenarioBuilder<'a> {
    /// The machine of a scenario, with its links.
    pub(super) fn new(
        evaluator: &'a Evaluator<'a>,
        scenario: &'a ScenarioShape,
    ) -> Result<Self, StudyError> {
        let machine = scenario.machine.as_ref().unwrap_or(&evaluator.source.machine);
        let fabric = evaluator.machines.get(machine);
        let mut fabric =
            Cow::Borrowed(fabric.ok_or_else(|| StudyError::new(machine, "no such machine"))?);
        for (name, text) in &scenario.links {
            let problem = "not a link speed such as `16GT/s x4`";
            let speed = text.parse().map_err(|_| StudyError::new(text, problem))?;
            let id = fabric.find(name).ok_or_else(|| StudyError::new(name, "no such function"))?;
            let link = Link { current: Some(speed), maximum: Some(speed) };
            fabric.to_mut().functions[id.0].link = Some(link);
        }
        let packets = scenario.packets.as_ref().unwrap_or(&evaluator.source.packets);
        let size = |name: &str| -> Result<Bytes, StudyError> {
            let nearest = evaluator.values.get(name)?.log2().round().exp2();
            Ok(Bytes(whole(nearest, LARGEST_PACKET).into()))
        };
        let mps = size(&format!("{packets}.mps"))?;
        let mut usual = ModelParameters { mps, ..ModelParameters::default() };
        usual.endpoint.mps = mps;
        usual.endpoint.mrrs = size("pcie.mrrs")?;
        usual.endpoint.memory.completion = size(&format!("{packets}.completion"))?;
        usual.endpoint.memory.is_shared = false;
        usual.host.memory.completion = usual.endpoint.memory.completion;
        usual.switch.has_shared_queue = !scenario.separate_queues;
        usual.root.has_shared_queue = !scenario.separate_queues;
        if let Ok(tunnel) = evaluator.values.loss(&format!("{packets}.tunnel"), 0.0) {
            usual.ethernet.tunnel = whole(tunnel, 65_536);
        }
        let topology = Topology::from_fabric(&fabric, &usual);
        let mut topology = topology.map_err(|source| StudyError::new(machine, source))?;
        let dllps = evaluator.values.loss("pcie.dllps", 0.0)?;
        for link in (0..).map(LinkIndex).take(topology.links().len()) {
            if let Framing::Pcie { dllp_per_mille, .. } = &mut topology.wire_mut(link).framing {
                *dllp_per_mille = whole(dllps * 1000.0, u32::MAX);
            }
        }
        Ok(Self { evaluator, scenario, fabric, topology })
    }

    /// Adds the limits on the way of a flow to the topology.
    pub(super) fn flow(&mut self, flow: &FlowShape) -> Result<FlowSpec, StudyError> {
        let (source, target) = (flow.source.as_str(), flow.target.as_str());
        let middle = if flow.path == Path::P2p { flow.via.as_deref() } else { Some(HOST) };
        let (from, to) = (self.node(source)?, self.node(target)?);
        let name = format!("{source} to {target}");
        // A drive moves payload itself; otherwise the device that is not host memory does.
        let is_pulled = !self.is_drive(source) && (source == HOST || self.is_drive(target));
        // By datasheets alone, the two transfers of a block overlap.
        let depth = match flow.path {
            Path::P2p | Path::HostPipelined | Path::HostCufile => flow.depth,
            _ if self.evaluator.values.view() == View::Plain => 2,
            Path::HostSerial | Path::HostPageCache | Path::HostMapped => 1,
        };
        let mut spec = match middle {
            Some(middle) => FlowSpec::relay(name, from, self.node(middle)?, to),
            None if is_pulled => FlowSpec::read(name, to, from),
            None => FlowSpec::write(name, from, to),
        }
        .with(flow.block, depth);
        let (memory, middle) = (spec.memory, middle.unwrap_or(target));
        for (leg, ends) in spec.legs_mut().zip([[source, middle], [middle, target]]) {
            self.leg(leg, memory, ends)?;
        }
        spec.first.latency.0 += self.start(&self.scenario.starts)?.0;
        Ok(spec)
    }

    /// Sets the limits of both ends of a leg, and of the root complexes between peers.
    fn leg(&mut self, leg: &mut Leg, memory: NodeIndex, ends: [&str; 2]) -> Result<(), StudyError> {
        let [from, to] = ends;
        let (source, target) = (self.device(from), self.device(to));
        let (is_from_drive, is_to_drive) = (self.is_drive(from), self.is_drive(to));
        if is_from_drive || leg.op == Op::Read {
            let rate = self.rate(&source.read)?;
            let mixed = source.mixed.map(|name| self.evaluator.values.get(&name)).transpose()?;
            self.endpoint(from, |end| {
                end.mixed = mixed.unwrap_or(end.mixed);
                *if is_from_drive { &mut end.posts } else { &mut end.memory.read } = rate;
            })?;
        }
        let rate = self.rate(&target.write)?;
        self.endpoint(to, |end| {
            *if is_to_drive { &mut end.fetches } else { &mut end.memory.write } = rate;
        })?;
        let engine = if from == HOST { target.dma_in } else { SideShape::default() };
        leg.bound = self.rate(&engine)?;
        let starts = [source.read.start, target.write.start, engine.start];
        leg.latency = self.start(starts.iter().flatten())?;
        let bridge = self.device("host-bridge");
        let path = self.topology.path(leg.initiator, memory);
        let path = path.map_err(|source| StudyError::new(&self.fabric.name, source))?;
        for node in self.topology.peer_roots(&path) {
            let rate = self.rate(if leg.op == Op::Write { &bridge.write } else { &bridge.read })?;
            if let NodeKind::RootComplex(root) = &mut self.topology.node_mut(node).kind {
                *if leg.op == Op::Write { &mut root.p2p_write } else { &mut root.p2p_read } = rate;
            }
        }
        Ok(())
    }

    fn device(&self, name: &str) -> DeviceShape {
        let mut all = self.scenario.device.iter().chain(&self.evaluator.source.device);
        all.find(|device| name.starts_with(&device.functions)).cloned().unwrap_or_default()
    }

    fn is_drive(&self, name: &str) -> bool {
        let found = self.fabric.find(name).map(|id| self.fabric.function(id).kind);
        found == Some(FunctionKind::Nvme) && !self.device(name).is_memory
    }

    fn node(&self, name: &str) -> Result<NodeIndex, StudyError> {
        let found = self.topology.find(if name == HOST { "host0" } else { name });
        found.ok_or_else(|| StudyError::new(name, "no such function"))
    }

    fn endpoint(
        &mut self,
        name: &str,
        set: impl FnOnce(&mut ModelEndpoint),
    ) -> Result<(), StudyError> {
        let node = self.node(name)?;
        if let NodeKind::Endpoint(endpoint) = &mut self.topology.node_mut(node).kind {
            set(endpoint);
        }
        Ok(())
    }

    /// The ceiling of one direction of a device; `None` without one.
    fn rate(&self, side: &SideShape) -> Result<Option<ByteRate>, StudyError> {
        let values = self.evaluator.values;
        let mut rate = f64::INFINITY;
        if let Some(name) = &side.rate {
            rate = values.ceiling(name)?;
        }
        // Little's law on the reads that the narrowest part of the path keeps in flight.
        if let Some((bytes, time)) = &side.in_flight {
            rate = rate.min(values.ceiling(bytes)? / values.loss(time, 0.0)?);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        Ok(rate.is_finite().then_some(ByteRate(rate as u64)))
    }

    fn start<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<Picos, StudyError> {
        let times = names.into_iter().map(|name| self.evaluator.values.loss(name, 0.0));
        let seconds = times.sum::<Result<f64, _>>()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        Ok(Picos((seconds * 1e12) as u64))
    }
}

/// A number between 0 and `most`, rounded down.
fn whole(number: f64, most: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let whole = number.clamp(0.0, f64::from(most)) as u32;
    whole
}

/// The limiting resource of a flow.
#[derive(Debug, Clone)]
pub(super) struct LimitingResource {
    /// Its kind: `drive`, `link`, `memory`, `root complex`, `depth`, or a stage.
    pub(super) kind: String,
    /// The resource, in words.
    pub(super) text: String,
}

impl LimitingResource {
    /// Names a resource of a topology, or the depth of the flow where no resource is full.
    pub(super) fn new(topology: &Topology, what: Option<ResourceOrigin>) -> Self {
        let kind = match what {
            Some(ResourceOrigin::Link(..) | ResourceOrigin::Buffer(..)) => "link",
            Some(ResourceOrigin::Medium(..)) => "drive",
            Some(
                ResourceOrigin::Memory(..) | ResourceOrigin::Wire(..) | ResourceOrigin::Answers(..),
            ) => "memory",
            Some(ResourceOrigin::Tags(_)) => "tags",
            Some(ResourceOrigin::Peers(..) | ResourceOrigin::PeersBuffer(..)) => "root complex",
            Some(ResourceOrigin::Walkers(_)) => "IOMMU",
            Some(ResourceOrigin::Stage(_)) => "stage",
            Some(ResourceOrigin::Processors(_) | ResourceOrigin::Copies(_)) => "processors",
            None => "depth",
        };
        let text = what.map_or_else(|| kind.to_owned(), |what| resource_name(topology, what));
        Self { kind: kind.to_owned(), text }
    }
}
