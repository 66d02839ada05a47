//! What flows of a workload are on the model: who issues requests to which memory, and what the
//! processor has to do for each block.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use peerlane_fabric::{Fabric, Function, FunctionId, Kind};
use peerlane_results::{CaseSpec, Flow, Order, Path, Route};
use peerlane_units::{ByteRate, Bytes};

use super::of_devices::{device, memory_of};
use super::own::Own;
use super::setting::{Setting, SettingError, count, time, whole};
use crate::devices::drive::{beside_medium, commands};
use crate::devices::host::{
    OF_A_COPY, Traffic, copies, copies_of_one, fault_cost, processor_ceiling, traffic,
    traffic_of_one,
};
use crate::model::{Arrival, FlowSpec, NodeIndex, NodeKind, Op, Store, Topology, Work};
use crate::parameters::ParameterError;
use crate::way::as_f64;

/// Why a flow cannot be modelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlowError {
    /// A name that the machine does not have.
    #[error("the machine {machine} has no {name}")]
    NoSuchEnd {
        /// The machine.
        machine: String,
        /// What was typed.
        name: String,
    },
    /// A port or a switch, which holds no data.
    #[error(
        "{name} of the machine {machine} is no end of a transfer: it passes data on and keeps none"
    )]
    NoEnd {
        /// The machine.
        machine: String,
        /// What was typed.
        name: String,
    },
    /// Two ends between which nothing is moved by a device.
    #[error("nothing moves data from {from} to {to}")]
    NoInitiator {
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// A path by which one core moves nothing.
    #[error(
        "one core copies from host to host by `host`, or maps by `host-mapped`, and not by `{path}`"
    )]
    NoCopy {
        /// The path.
        path: Path,
    },
    /// A peer-to-peer path without a memory of a device on it.
    #[error("no device lends memory between {from} and {to}")]
    NoMemory {
        /// Source.
        from: String,
        /// Target.
        to: String,
    },
    /// A block that a drive cannot carry.
    #[error("{name} has blocks of {size} bytes, and {block} is no multiple of that")]
    Block {
        /// The drive.
        name: String,
        /// Its own blocks, in bytes.
        size: u64,
        /// What was asked for, in bytes.
        block: u64,
    },
    /// A number that is missing.
    #[error("a parameter of the model cannot be used")]
    Setting(#[from] SettingError),
}

impl From<ParameterError> for FlowError {
    fn from(error: ParameterError) -> Self {
        Self::Setting(error.into())
    }
}

/// A flow as the engines take it.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// What moves.
    pub(super) spec: FlowSpec,
    /// Payload.
    pub(super) bytes: f64,
    /// The memory between its ends, as a person would type it.
    pub(super) memory: String,
    /// By which route.
    pub(super) route: Route,
    /// Whether its path has slots of its own, whatever depth was asked for.
    pub(super) has_own_slots: bool,
    /// Host-memory bytes for each byte.
    pub(super) traffic: Traffic,
    /// Nanoseconds of processor for each byte.
    pub(super) cpu: f64,
    /// Page faults for each byte.
    pub(super) faults: f64,
    /// Bounds of its own: what they are, and payload a nanosecond.
    pub(super) bounds: Vec<(Own, f64)>,
    /// The drive that it is written to, and the cache in front of that one's medium.
    pub(super) cache: Option<(NodeIndex, WriteCache)>,
}

/// What takes writes faster than the medium behind it, until it is full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WriteCache {
    /// Bytes that fit into it.
    pub(super) bytes: f64,
    /// Share of its rate that the drive keeps from then on.
    pub(super) kept: f64,
}

/// What a drive does of blocks of a size.
struct OfDrive {
    /// Bytes a second, were its commands alone the limit.
    most: f64,
    /// Commands that a block becomes.
    commands: f64,
    /// Seconds before its first packet.
    wait: f64,
    /// Of one that is written.
    cache: Option<WriteCache>,
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// A drive, which issues requests.
    Drive(FunctionId, NodeIndex),
    /// Memory of a device.
    Memory(NodeIndex),
    /// Host memory.
    Host,
    /// Nothing is stored.
    Null,
}

/// The flows of a case.
pub(super) fn plan(
    fabric: &Fabric,
    topology: &Topology,
    setting: &Setting<'_>,
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
    case.flows.iter().map(|flow| planner.flow(flow)).collect()
}

struct Planner<'a> {
    /// The host memory below each root complex.
    hosts: BTreeMap<NodeIndex, NodeIndex>,
    fabric: &'a Fabric,
    /// Its functions by their own names, and the ends that were looked up by what was typed.
    functions: HashMap<&'a str, &'a Function>,
    ends: RefCell<HashMap<String, End>>,
    topology: &'a Topology,
    setting: &'a Setting<'a>,
    /// Whether flows go on until a time is over, whatever their bytes are.
    has_time: bool,
}

impl Planner<'_> {
    fn end(&self, typed: &str) -> Result<End, FlowError> {
        let unknown =
            || FlowError::NoSuchEnd { machine: self.fabric.name.clone(), name: typed.to_owned() };
        match typed {
            "host" => return Ok(End::Host),
            "null" => return Ok(End::Null),
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
        let end = if memory_of(typed).is_none() && function.kind == Kind::Nvme {
            End::Drive(id, node)
        } else {
            End::Memory(node)
        };
        self.ends.borrow_mut().insert(typed.to_owned(), end);
        Ok(end)
    }

    fn flow(&self, flow: &Flow) -> Result<Planned, FlowError> {
        let (source, target) = (self.end(&flow.source)?, self.end(&flow.target)?);
        if (source, target) == (End::Host, End::Host) {
            return super::processor::plan(flow, self.topology, self.setting);
        }
        self.check_block(flow, [source, target])?;
        let near = [source, target].into_iter().find_map(|end| match end {
            End::Drive(_, node) | End::Memory(node) => Some(node),
            End::Host | End::Null => None,
        });
        let none = || FlowError::NoInitiator { from: flow.source.clone(), to: flow.target.clone() };
        let near = near.ok_or_else(none)?;
        let host = self.host(near);
        let via = match &flow.via {
            // What goes by host memory passes no other.
            Some(via) if flow.path == Path::P2p => match self.end(via)? {
                End::Drive(_, node) | End::Memory(node) => Some(node),
                End::Host => Some(host),
                End::Null => None,
            },
            _ => None,
        };
        let name = format!("{} to {}", flow.source, flow.target);
        let mut spec = match ((source, target), flow.path) {
            ((End::Drive(_, from), End::Drive(_, to)), Path::P2p) => {
                let between = via.or_else(|| self.lent(from, to)).ok_or_else(|| {
                    FlowError::NoMemory { from: flow.source.clone(), to: flow.target.clone() }
                })?;
                FlowSpec::relay(name, from, between, to)
            }
            ((End::Drive(_, from) | End::Memory(from), End::Memory(to)), Path::P2p) => {
                FlowSpec::write(name, from, to)
            }
            ((End::Memory(from), End::Drive(_, to)), Path::P2p) => FlowSpec::read(name, to, from),
            // By host memory, whatever both ends are: what is one writes it there, the other reads it out of there.
            ((End::Drive(_, from) | End::Memory(from), End::Drive(_, to) | End::Memory(to)), _) => {
                FlowSpec::relay(name, from, host, to)
            }
            ((End::Drive(_, from) | End::Memory(from), End::Host | End::Null), _) => {
                FlowSpec::write(name, from, via.unwrap_or(host))
            }
            ((End::Host | End::Null, End::Drive(_, to) | End::Memory(to)), _) => {
                FlowSpec::read(name, to, via.unwrap_or(host))
            }
            _ => return Err(none()),
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

    /// Refuses a block that a drive would refuse.
    fn check_block(&self, flow: &Flow, ends: [End; 2]) -> Result<(), FlowError> {
        for (name, end) in [&flow.source, &flow.target].into_iter().zip(ends) {
            let End::Drive(id, _) = end else { continue };
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

    /// Latencies and bounds of drives and processor.
    fn finish(
        &self,
        flow: &Flow,
        ends: [End; 2],
        mut spec: FlowSpec,
        host: NodeIndex,
    ) -> Result<Planned, FlowError> {
        let block = as_f64(spec.request);
        let (mut bounds, mut total_commands, mut waits) = (Vec::new(), 0.0, [0.0; 2]);
        let mut cache = None;
        for ((end, op), wait) in ends.into_iter().zip([Op::Write, Op::Read]).zip(&mut waits) {
            let legs = spec.legs_mut().filter(|leg| leg.op == op);
            match end {
                End::Drive(id, node) => {
                    let drive = self.drive(flow, id, op, block)?;
                    // A drive whose memory others read carries none out.
                    let most = ByteRate(whole(drive.most).max(1));
                    legs.for_each(|leg| leg.commands = Some(most));
                    bounds.push((Own::commands(node, flow.order), drive.most / 1e9));
                    *wait = drive.wait;
                    total_commands += drive.commands;
                    cache = drive.cache.map(|cache| (node, cache)).or(cache);
                }
                End::Memory(_) => legs.for_each(|leg| leg.store = Store::Memory),
                End::Host | End::Null => {}
            }
        }
        if let Some(second) = &mut spec.second {
            spec.first.latency = time(waits[0]);
            second.latency = time(waits[1]);
        } else {
            // A memory or nothing is at the other end, which does not wait for a command.
            spec.first.latency = time(waits[0] + waits[1]);
        }
        // Nanoseconds of processor a byte: commands, which overlap with what devices do, and what it does with the bytes
        // itself, which is one more stage of a block.
        let copies = if spec.second.is_some() { copies } else { copies_of_one };
        let copies = copies(flow.path);
        let copied = self.copying(flow.path, copies)?;
        let each = total_commands.max(1.0) * self.setting.get("host.command")?;
        let submitted = 1e9 / processor_ceiling(1.0, block, each, 0.0);
        spec.work = Some(Box::new(Work {
            at: host,
            submit: time(each),
            copy: time(copied * block / 1e9),
            traffic: Bytes(whole(OF_A_COPY * copies * block)),
        }));
        bounds.push((Own::Processor, 1.0 / submitted));
        let least = bounds.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
        spec.first.bound = Some(ByteRate(whole(least * 1e9).max(1)));
        spec.arrival = Arrival::Closed;
        if let Some(limit) = flow.limit {
            let rate = ByteRate(limit.0.max(1));
            bounds.push((Own::Limit, as_f64(Bytes(rate.0)) / 1e9));
            spec.arrival = Arrival::Paced { rate };
        }
        let by_host = spec.memory == host;
        let faults = match flow.path {
            Path::HostMapped => 1.0 / self.setting.get("host.window")?,
            _ => 0.0,
        };
        let memory = if by_host { "host".to_owned() } else { self.memory_name(spec.memory) };
        Ok(Planned {
            bytes: as_f64(flow.bytes),
            memory,
            route: if by_host { Route::Host } else { Route::P2p },
            has_own_slots: !matches!(flow.path, Path::P2p | Path::HostPipelined | Path::HostCufile),
            traffic: if spec.second.is_some() { traffic } else { traffic_of_one }(flow.path),
            cpu: submitted + copied,
            faults,
            bounds,
            cache,
            spec,
        })
    }

    /// What a drive does of blocks that are read from it, or written.
    fn drive(
        &self,
        flow: &Flow,
        id: FunctionId,
        op: Op,
        block: f64,
    ) -> Result<OfDrive, ParameterError> {
        let function = self.fabric.function(id);
        let side = self.setting.side(function, op)?;
        let most = match flow.order {
            Order::Sequential => side.commands,
            Order::Random => self.setting.random_commands(function, op)?,
        };
        let largest = match largest_of(function) {
            Some(largest) => largest,
            None => self.setting.get("drive.largest")?,
        };
        let parts = commands(block, largest);
        let command = block / parts;
        let most = most * command;
        // What the table says of a command alone, or of as much as was measured, less what the medium takes of it.
        let known = block.min(self.setting.measured_to(function, op)?.max(command));
        let cache = match op {
            Op::Write => None,
            Op::Read => Some(WriteCache {
                bytes: self.setting.of_drive(function, "write.cache")?,
                kept: self.setting.of_drive(function, "write.sustained")?.min(1.0),
            }),
        };
        let wait = beside_medium(&side, known, side.rate.min(most));
        Ok(OfDrive { most, commands: parts, wait, cache })
    }

    /// Nanoseconds in which the processor copies a byte, and maps it where a path does that.
    fn copying(&self, path: Path, copies: f64) -> Result<f64, ParameterError> {
        let mut byte = copies / self.setting.get("host.copy")?;
        if path == Path::HostMapped {
            byte += fault_cost(self.setting.get("host.window")?, self.setting.get("host.fault")?);
        }
        Ok(byte * 1e9)
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
        let links = |one, other| self.topology.path(one, other).map_or(usize::MAX / 2, |p| p.len());
        let far = |&node: &NodeIndex| (links(from, node) + links(node, to), links(node, to));
        [to, from].into_iter().find(|&node| lends(node)).or_else(|| candidates.min_by_key(far))
    }

    fn memory_name(&self, node: NodeIndex) -> String {
        let name = &self.topology.node(node).name;
        let kind = self.functions.get(name.as_str());
        match kind.map(|function| function.kind) {
            Some(Kind::Nvme) => format!("cmb:{name}"),
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

/// Whether data can come from a function, or go to it: ports and bridges pass them on.
pub(super) fn is_end(function: &Function) -> bool {
    match function.kind {
        Kind::Nvme | Kind::Gpu | Kind::Fpga | Kind::Nic => true,
        Kind::Other => lends_memory(function),
        Kind::RootPort | Kind::UpstreamPort | Kind::DownstreamPort | Kind::OtherBridge => false,
    }
}

/// Whether others can move data into a function's memory.
pub(crate) fn lends_memory(function: &Function) -> bool {
    function.p2pmem.is_some() || function.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some())
}

/// The largest command that a drive takes, where that is known: what the kernel says, or MDTS in pages of
/// 4 KiB, with 0 for no limit (NVM Express base specification 2.0, Identify Controller data structure).
pub(super) fn largest_of(function: &Function) -> Option<f64> {
    let namespaces = function.nvme.iter().flat_map(|nvme| &nvme.namespaces);
    let limits = namespaces.filter_map(|namespace| namespace.limits.max_hw_request).map(as_f64);
    let pages = function.lab.mdts.filter(|&mdts| mdts > 0);
    let largest = pages.map(|mdts| 4096.0 * f64::from(mdts).exp2());
    limits.chain(largest).reduce(f64::min).map(|least| least.max(4096.0))
}
