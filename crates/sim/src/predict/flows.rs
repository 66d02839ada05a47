//! Flows of a workload on the model: initiators, memories, and the work of the processor for each block.
//!
//! A flow between two machines is a flow to the nearest network controller of one, and a flow from that of the other. The
//! network between them has no limit but their wires.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind};
use peerlane_results::{CaseSpec, Flow, FlowStage, Order, Path, Route};
use peerlane_units::{ByteRate, Bytes};

use super::device_names::{device, is_end, largest_command, lends_memory, memory_of};
use super::error::FlowError;
use super::names::Limiter;
use super::setting::{ParameterSetting, count, time, whole};
use crate::devices::drive::beside_medium;
use crate::devices::host::{OF_A_COPY, Traffic, copies, traffic};
use crate::model::{
    Arrival, FlowSpec, ModelEndpoint, NodeIndex, NodeKind, Op, PayloadStore, Picos, ProcessorWork,
    StageWork, Topology, as_f64,
};
use crate::parameters::ParameterError;

/// A flow as the engines take it.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// Its legs, memory and depth.
    pub(super) spec: FlowSpec,
    /// The memory between its ends, as a person would type it.
    pub(super) memory: String,
    /// Its route.
    pub(super) route: Route,
    /// True if its path has slots of its own, whatever depth was asked for.
    pub(super) has_own_slots: bool,
    /// Host-memory bytes for each byte.
    pub(super) traffic: Traffic,
    /// Nanoseconds of processor for each byte.
    pub(super) cpu: f64,
    /// Page faults for each byte.
    pub(super) faults: f64,
    /// Bounds of its own, payload a nanosecond.
    pub(super) bounds: Vec<(Limiter, f64)>,
}

impl Planned {
    /// Payload.
    pub(super) fn bytes(&self) -> f64 {
        as_f64(self.spec.bytes)
    }
}

/// The work of a drive for blocks of one size.
struct DriveWork {
    /// Bytes a second, were its commands alone the limit.
    most: f64,
    /// Commands that a block becomes.
    commands: f64,
    /// Seconds before its first packet.
    wait: f64,
}

/// The transport between two machines whose receiver copies payload: `via` of a flow. The default is [`RDMA`].
const TCP: &str = "tcp";
/// The transport whose network controllers read and write memory themselves.
const RDMA: &str = "rdma";

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PredictedEnd {
    /// A drive, which issues requests.
    Drive(FunctionId, NodeIndex),
    /// Memory of a device.
    Memory(NodeIndex),
    /// The wire of a network controller, which issues requests.
    Network(NodeIndex),
    /// Host memory.
    Host,
    /// Nothing is stored.
    Null,
}

impl PredictedEnd {
    /// The device; `None` for host memory and nothing.
    fn device(self) -> Option<NodeIndex> {
        match self {
            Self::Drive(_, node) | Self::Memory(node) | Self::Network(node) => Some(node),
            Self::Host | Self::Null => None,
        }
    }
}

/// The flows of a case.
pub(super) fn plan(
    fabric: &Fabric,
    topology: &Topology,
    setting: &ParameterSetting<'_>,
    case: &CaseSpec,
) -> Result<Vec<Planned>, FlowError> {
    let is_host = |node: NodeIndex| matches!(topology.node(node).kind, NodeKind::HostMemory(_));
    let links = topology.links().iter().filter(|link| is_host(link.lower));
    let hosts = links.map(|link| (link.upper, link.lower)).collect();
    let functions = fabric.functions.iter().map(|function| (function.name.as_str(), function));
    let planner = Planner {
        hosts,
        fabric,
        functions: functions.collect(),
        ends: RefCell::default(),
        topology,
        setting,
        has_time: case.time_ns.is_some(),
    };
    let timed = |flow: &Flow| {
        let mut planned = planner.flow(flow)?;
        planned.spec.start = Picos::nanos(flow.start_ns.0);
        planned.spec.bytes = flow.bytes;
        Ok(planned)
    };
    case.flows.iter().map(timed).collect()
}

/// Adds the units that work on blocks of a case, each a node without links.
pub(super) fn add_stages(case: &CaseSpec, topology: &mut Topology) {
    for name in case.flows.iter().filter_map(|flow| flow.stage.as_ref()).map(stage_node) {
        if topology.find(&name).is_none() {
            topology.add(name, NodeKind::Endpoint(ModelEndpoint::default()));
        }
    }
}

fn stage_node(stage: &FlowStage) -> String {
    format!("stage {}", stage.name)
}

struct Planner<'a> {
    /// The host memory below each root complex.
    hosts: BTreeMap<NodeIndex, NodeIndex>,
    fabric: &'a Fabric,
    /// Its functions by their own names, and the ends that were looked up by what was typed.
    functions: HashMap<&'a str, &'a Function>,
    ends: RefCell<HashMap<String, PredictedEnd>>,
    topology: &'a Topology,
    setting: &'a ParameterSetting<'a>,
    /// True if flows end by time, whatever their bytes are.
    has_time: bool,
}

impl Planner<'_> {
    fn end(&self, typed: &str) -> Result<PredictedEnd, FlowError> {
        let unknown =
            || FlowError::NoSuchEnd { machine: self.fabric.name.clone(), name: typed.to_owned() };
        match typed {
            "host" => return Ok(PredictedEnd::Host),
            "null" => return Ok(PredictedEnd::Null),
            _ => {}
        }
        if let Some(&end) = self.ends.borrow().get(typed) {
            return Ok(end);
        }
        let id = device(self.fabric, typed).ok_or_else(unknown)?;
        let function = self.fabric.function(id);
        if !is_end(function) {
            let (machine, name) = (self.fabric.name.clone(), typed.to_owned());
            return Err(FlowError::NoEnd { machine, name });
        }
        let node = self.topology.find(&function.name).ok_or_else(unknown)?;
        let end = match function.kind {
            FunctionKind::Nvme if memory_of(typed).is_none() => PredictedEnd::Drive(id, node),
            FunctionKind::Nic => PredictedEnd::Network(node),
            _ => PredictedEnd::Memory(node),
        };
        self.ends.borrow_mut().insert(typed.to_owned(), end);
        Ok(end)
    }

    fn flow(&self, flow: &Flow) -> Result<Planned, FlowError> {
        let (source, target) = (self.end(&flow.source)?, self.end(&flow.target)?);
        let is_between_drives = match (source, target) {
            (PredictedEnd::Drive(_, from), PredictedEnd::Drive(_, to)) => {
                self.is_one_machine(from, to)
            }
            _ => false,
        };
        if let Some(stage) = flow.stage.as_ref().filter(|_| !is_between_drives) {
            let (from, to) = (flow.source.clone(), flow.target.clone());
            return Err(FlowError::Stage { stage: stage.name.clone(), from, to });
        }
        if let Some(stage) = flow.stage.as_ref().filter(|stage| stage.rate.is_none()) {
            return Err(FlowError::StageRate { stage: stage.name.clone() });
        }
        if (source, target) == (PredictedEnd::Host, PredictedEnd::Host) {
            return super::processor::plan(flow, self.topology, self.setting);
        }
        self.check_block(flow, [source, target])?;
        let [from, to] = [source, target].map(PredictedEnd::device);
        let none = || FlowError::NoInitiator { from: flow.source.clone(), to: flow.target.clone() };
        let host = self.host(from.or(to).ok_or_else(none)?);
        let has_network =
            [source, target].iter().any(|end| matches!(end, PredictedEnd::Network(_)));
        if let Some(ends) = from.zip(to).filter(|&(from, to)| !self.is_one_machine(from, to)) {
            // Payload begins and ends in memory or on a medium.
            return if has_network { Err(none()) } else { self.between_machines(flow, ends) };
        }
        let via = match flow.via.as_deref() {
            Some(via @ (TCP | RDMA)) if !has_network => {
                let problem = "neither end is a network controller or in another machine";
                return Err(FlowError::Transport { via: via.to_owned(), problem });
            }
            Some(TCP) if flow.path == Path::P2p => {
                let problem = "payload goes through host memory: take the path `host`";
                return Err(FlowError::Transport { via: TCP.to_owned(), problem });
            }
            Some(TCP | RDMA) => None,
            // A host path passes no other memory.
            Some(via) if flow.path == Path::P2p => match self.end(via)? {
                PredictedEnd::Drive(_, node) | PredictedEnd::Memory(node) => Some(node),
                PredictedEnd::Host => Some(host),
                PredictedEnd::Network(_) | PredictedEnd::Null => None,
            },
            _ => None,
        };
        let name = format!("{} to {}", flow.source, flow.target);
        let mut spec = match (from, to) {
            // By host memory: one end writes there, the other reads.
            (Some(from), Some(to)) if flow.path != Path::P2p => {
                FlowSpec::relay(name, from, host, to)
            }
            (Some(from), Some(to)) => match (source, target) {
                (_, PredictedEnd::Memory(_)) => FlowSpec::write(name, from, to),
                (PredictedEnd::Memory(_), _) => FlowSpec::read(name, to, from),
                _ => {
                    let between = via.or_else(|| self.lent(from, to)).ok_or_else(|| {
                        FlowError::NoMemory { from: flow.source.clone(), to: flow.target.clone() }
                    })?;
                    FlowSpec::relay(name, from, between, to)
                }
            },
            (Some(_), None) | (None, Some(_)) if flow.path == Path::P2p && via.is_none() => {
                let (from, to) = (flow.source.clone(), flow.target.clone());
                return Err(FlowError::HostMemory { from, to });
            }
            (Some(from), None) => FlowSpec::write(name, from, via.unwrap_or(host)),
            (None, Some(to)) => FlowSpec::read(name, to, via.unwrap_or(host)),
            (None, None) => return Err(none()),
        };
        spec.request = flow.block.max(Bytes(1));
        let most = match flow.path {
            Path::P2p | Path::HostPipelined | Path::HostCufile => flow.depth,
            Path::HostSerial => 1,
            // The kernel reads ahead, or writes behind.
            Path::HostPageCache | Path::HostMapped => count(self.setting.get("host.overlap")?),
        };
        spec.depth = self.depth(flow, most);
        self.finish(flow, [source, target], spec, host)
    }

    /// A flow from one machine to another: by the nearest network controller of each.
    fn between_machines(
        &self,
        flow: &Flow,
        (from, to): (NodeIndex, NodeIndex),
    ) -> Result<Planned, FlowError> {
        if !matches!(flow.path, Path::P2p | Path::HostPipelined) {
            return Err(FlowError::NotBetweenMachines { path: flow.path });
        }
        let nic = |near| {
            let name = || self.topology.node(near).name.clone();
            self.nic(near).ok_or_else(|| FlowError::NoNetwork { near: name() })
        };
        let (out, into) = (nic(from)?, nic(to)?);
        let via = |near| match flow.via.as_deref() {
            Some(via) if ![TCP, RDMA].contains(&via) => {
                let memory = self.end(via)?.device();
                let is_here = memory.is_none_or(|memory| self.is_one_machine(memory, near));
                Ok::<_, FlowError>(is_here.then(|| via.to_owned()))
            }
            transport => Ok(transport.map(str::to_owned)),
        };
        let mut sent = self.flow(&Flow { target: out, via: via(from)?, ..flow.clone() })?;
        let mut received = self.flow(&Flow { source: into, via: via(to)?, ..flow.clone() })?;
        received.spec.first.latency.0 += time(self.setting.get("network.latency")?).0;
        sent.spec.name = format!("{} to {}", flow.source, flow.target);
        sent.spec.beyond = Some(Box::new(received.spec));
        sent.memory = format!("{} and {}", sent.memory, received.memory);
        if received.route == Route::Host {
            sent.route = Route::Host;
        }
        sent.traffic.least += received.traffic.least;
        sent.traffic.most += received.traffic.most;
        sent.cpu += received.cpu;
        sent.bounds.extend(received.bounds);
        Ok(sent)
    }

    /// The network controller of a machine nearest to a node.
    fn nic(&self, near: NodeIndex) -> Option<String> {
        let nics =
            self.fabric.functions.iter().filter(|function| function.kind == FunctionKind::Nic);
        let far = |nic: &&Function| {
            let path = self.topology.path(self.topology.find(&nic.name)?, near);
            path.ok().map(|path| path.len())
        };
        let nics = nics.filter_map(|nic| Some((far(&nic)?, &nic.name)));
        nics.min_by_key(|&(far, _)| far).map(|(_, name)| name.clone())
    }

    /// True if two nodes are of one machine: its name is the part of the name of a host memory before a slash.
    fn is_one_machine(&self, one: NodeIndex, other: NodeIndex) -> bool {
        let machine = |node| {
            let host = &self.topology.node(self.host(node)).name;
            host.split_once('/').map(|(machine, _)| machine)
        };
        machine(one) == machine(other)
    }

    /// Refuses a block that a drive would refuse.
    fn check_block(&self, flow: &Flow, ends: [PredictedEnd; 2]) -> Result<(), FlowError> {
        for (name, end) in [&flow.source, &flow.target].into_iter().zip(ends) {
            let PredictedEnd::Drive(id, _) = end else { continue };
            let sizes = self.fabric.function(id).nvme.iter().flat_map(|nvme| &nvme.namespaces);
            // Which of several is meant, no name says: the least demanding one.
            let Some(size) = sizes.map(|one| one.limits.logical_block).min() else { continue };
            if !flow.block.is_multiple_of(size) {
                let (name, size, block) = (name.clone(), size.0, flow.block.0);
                return Err(FlowError::Block { name, size, block });
            }
        }
        Ok(())
    }

    /// Blocks in flight: no more than there are.
    fn depth(&self, flow: &Flow, asked: u32) -> u32 {
        let blocks = flow.bytes.0.div_ceil(flow.block.0.max(1));
        let most = if self.has_time { u64::MAX } else { blocks.max(1) };
        u32::try_from(most).unwrap_or(u32::MAX).min(asked).max(1)
    }

    /// Adds latencies and bounds of drives and processor.
    fn finish(
        &self,
        flow: &Flow,
        ends: [PredictedEnd; 2],
        mut spec: FlowSpec,
        host: NodeIndex,
    ) -> Result<Planned, FlowError> {
        let block = as_f64(spec.request);
        let (mut bounds, mut commands, mut waits) = (Vec::new(), 0.0, [0.0; 2]);
        for ((end, op), wait) in ends.into_iter().zip([Op::Write, Op::Read]).zip(&mut waits) {
            let legs = spec.legs_mut().filter(|leg| leg.op == op);
            match end {
                PredictedEnd::Drive(id, node) => {
                    let drive = self.drive(flow, id, op, block)?;
                    // A drive whose memory others read carries out no commands.
                    let most = ByteRate(whole(drive.most).max(1));
                    legs.for_each(|leg| leg.commands = Some(most));
                    bounds.push((Limiter::commands(node, flow.order), drive.most / 1e9));
                    *wait = drive.wait;
                    commands += drive.commands;
                }
                PredictedEnd::Memory(_) | PredictedEnd::Network(_) => {
                    legs.for_each(|leg| leg.store = PayloadStore::Memory);
                }
                PredictedEnd::Host | PredictedEnd::Null => {}
            }
        }
        if let Some(second) = &mut spec.second {
            spec.first.latency = time(waits[0]);
            second.latency = time(waits[1]);
        } else {
            // The other end is a memory or nothing, which waits for no command.
            spec.first.latency = time(waits[0] + waits[1]);
        }
        // What a network controller receives lies in buffers of the kernel.
        let is_received = spec.first.op == Op::Write && matches!(ends[0], PredictedEnd::Network(_));
        let received = match flow.via.as_deref() {
            Some(TCP) if is_received => self.setting.get("network.copies")?,
            _ => 0.0,
        };
        spec.stage = flow.stage.as_ref().and_then(|stage| self.stage(stage, block));
        let copies = copies(flow.path, devices(&spec)) + received;
        let (submitted, copied) = self.work(flow, &mut spec, commands, host, copies)?;
        let least = bounds.iter().map(|(_, rate)| *rate).fold(1.0 / submitted, f64::min);
        spec.first.bound = Some(ByteRate(whole(least * 1e9).max(1)));
        bounds.push((Limiter::Processor, 1.0 / (submitted + copied)));
        spec.arrival = Arrival::Closed;
        if let Some(limit) = flow.limit {
            let rate = ByteRate(limit.0.max(1));
            bounds.push((Limiter::Cap, as_f64(Bytes(rate.0)) / 1e9));
            spec.arrival = Arrival::Paced { rate };
        }
        let by_host = spec.memory == host;
        let faults = match flow.path {
            Path::HostMapped => 1.0 / self.setting.get("host.window")?,
            _ => 0.0,
        };
        let mut traffic = traffic(flow.path, devices(&spec));
        traffic.most += OF_A_COPY * received;
        Ok(Planned {
            memory: if by_host { "host".to_owned() } else { self.memory_name(spec.memory) },
            route: if by_host { Route::Host } else { Route::P2p },
            has_own_slots: !matches!(flow.path, Path::P2p | Path::HostPipelined | Path::HostCufile),
            traffic,
            cpu: submitted + copied,
            faults,
            bounds,
            spec,
        })
    }

    /// Adds the work of the processor. Returns its nanoseconds a byte: for commands, which overlap with the work of devices,
    /// and for copies, which are one more stage of a block.
    fn work(
        &self,
        flow: &Flow,
        spec: &mut FlowSpec,
        commands: f64,
        host: NodeIndex,
        copies: f64,
    ) -> Result<(f64, f64), ParameterError> {
        let block = as_f64(spec.request);
        let mut copied = copies / self.setting.get("host.copy")?;
        if flow.path == Path::HostMapped {
            let window = self.setting.get("host.window")?;
            copied += self.setting.get("host.fault")? / window;
        }
        let each = commands.max(1.0) * self.setting.get("host.command")?;
        spec.work = Some(Box::new(ProcessorWork {
            at: host,
            submit: time(each),
            copy: time(copied * block),
            traffic: Bytes(whole(OF_A_COPY * copies * block)),
        }));
        Ok((each / block * 1e9, copied * 1e9))
    }

    /// The work of a unit on each block: blocks start up side by side, and stream at the rate of the unit.
    fn stage(&self, stage: &FlowStage, block: f64) -> Option<StageWork> {
        let streamed = time(block / as_f64(Bytes(stage.rate?.0.max(1))));
        let latency = Picos(Picos::nanos(stage.start_ns.0).0.saturating_add(streamed.0));
        let busy = streamed.max(Picos(latency.0 / u64::from(stage.at_once.max(1))));
        Some(StageWork { at: self.topology.find(&stage_node(stage))?, latency, busy })
    }

    /// The work of a drive for blocks that are read from it, or written.
    fn drive(
        &self,
        flow: &Flow,
        id: FunctionId,
        op: Op,
        block: f64,
    ) -> Result<DriveWork, ParameterError> {
        let function = self.fabric.function(id);
        let side = self.setting.side(function, op)?;
        let most = match flow.order {
            Order::Sequential => side.commands,
            Order::Random => self.setting.random_commands(&function.name, op)?,
        };
        let largest = match largest_command(function) {
            Some(largest) => largest,
            None => self.setting.get("drive.largest")?,
        };
        // NVM Express base specification 2.0, MDTS; the block layer splits at the lower of that and its own limit.
        let parts = (block / largest).ceil().max(1.0);
        let command = block / parts;
        let most = most * command;
        // The time of one command alone, or of the largest that was measured, less that of the medium.
        let known = block.min(self.setting.measured_to(&function.name, op)?.max(command));
        let wait = beside_medium(&side, known, side.rate.min(most));
        Ok(DriveWork { most, commands: parts, wait })
    }

    /// The memory of a device between two drives: that of the target, of the source, or of the one that lies
    /// nearest to both; of several, of the one nearest to the target.
    fn lent(&self, from: NodeIndex, to: NodeIndex) -> Option<NodeIndex> {
        let lends = |node: NodeIndex| {
            let name = self.topology.node(node).name.as_str();
            self.functions.get(name).is_some_and(|function| lends_memory(function))
        };
        let others = self.fabric.functions.iter().filter(|function| lends_memory(function));
        let candidates = others.filter_map(|function| self.topology.find(&function.name));
        let candidates = candidates.filter(|&node| self.is_one_machine(node, from));
        let links = |one, other| self.topology.path(one, other).map_or(usize::MAX / 2, |p| p.len());
        let far = |&node: &NodeIndex| (links(from, node) + links(node, to), links(node, to));
        [to, from].into_iter().find(|&node| lends(node)).or_else(|| candidates.min_by_key(far))
    }

    fn memory_name(&self, node: NodeIndex) -> String {
        let name = &self.topology.node(node).name;
        let kind = self.functions.get(name.as_str());
        match kind.map(|function| function.kind) {
            Some(FunctionKind::Nvme) => format!("cmb:{name}"),
            _ => name.clone(),
        }
    }

    /// The host memory nearest to a node: that of its root complex.
    fn host(&self, near: NodeIndex) -> NodeIndex {
        let mut top = near;
        while let Some(link) = self.topology.link_above(top) {
            top = self.topology.link(link).upper;
        }
        self.hosts.get(&top).copied().unwrap_or(near)
    }
}

/// Devices at the ends of a transfer; the other end of one is host memory.
fn devices(spec: &FlowSpec) -> u8 {
    1 + u8::from(spec.second.is_some())
}
