//! Flows: one initiator and a memory, or two initiators that relay through it.

use peerlane_units::{ByteRate, Bytes};

use super::{NodeIndex, NodeKind, Picos, Topology, as_f64, per_nano, picos};

/// Operation of an initiator on a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Posted writes: a drive carries out an NVMe read.
    Write,
    /// Reads: a drive carries out an NVMe write.
    Read,
}

impl Op {
    /// The operation on the initiator's own memory: it reads bytes that it posts, and writes bytes that it fetches.
    pub(crate) fn at_initiator(self) -> Self {
        match self {
            Self::Write => Self::Read,
            Self::Read => Self::Write,
        }
    }
}

/// Source or target of the payload inside an initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PayloadStore {
    /// The medium of a drive; free of cost on a device without one.
    Medium,
    /// The memory that other devices reach.
    Memory,
}

/// The part of one initiator in a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Issuer of the requests.
    pub initiator: NodeIndex,
    /// Operation on the memory.
    pub op: Op,
    /// Its own end of the payload.
    pub store: PayloadStore,
    /// Limit in bytes a second; `None` without one.
    pub bound: Option<ByteRate>,
    /// Bytes a second of the medium with commands of this size (IOPS times size), where that is below its rate. It is the
    /// cost of a byte on a medium that several flows share.
    pub commands: Option<ByteRate>,
    /// Time from the start of a command to its first packet; commands overlap in it.
    pub latency: Picos,
}

impl Leg {
    /// A leg from or to a medium, without limits or latency.
    pub fn new(initiator: NodeIndex, op: Op) -> Self {
        let (store, latency) = (PayloadStore::Medium, Picos::ZERO);
        Self { initiator, op, store, bound: None, commands: None, latency }
    }
}

/// Processor work of a transfer, by one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorWork {
    /// Host memory of the copies, next to the processors.
    pub at: NodeIndex,
    /// Processor time for the commands of a block, while devices go on.
    pub submit: Picos,
    /// Processor time for the copy of a block, before its last leg.
    pub copy: Picos,
    /// Host-memory bytes of the copies of a block.
    pub traffic: Bytes,
}

impl ProcessorWork {
    /// Processor nanoseconds for each byte, with requests of a size.
    pub(crate) fn per_byte(&self, request: Bytes) -> f64 {
        picos(self.submit.0.saturating_add(self.copy.0)) / as_f64(request)
    }

    /// Nanoseconds of host memory for each byte that a copy reads or writes: the mean of both; `None` where memory has no
    /// limit, or reads and writes do not share it.
    pub(crate) fn memory_time(&self, topology: &Topology) -> Option<f64> {
        let memory = topology.node(self.at).kind.memory().filter(|memory| memory.is_shared)?;
        let (write, read) = memory.write.zip(memory.read)?;
        Some((1.0 / per_nano(write.0) + 1.0 / per_nano(read.0)) / 2.0)
    }
}

/// Work of a unit on each block of a relay, between its legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageWork {
    /// The unit, a node without links.
    pub at: NodeIndex,
    /// Time of a block alone.
    pub latency: Picos,
    /// Time of the unit that a block takes from others.
    pub busy: Picos,
}

/// Arrival process of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Closed loop: `depth` commands in flight, each new one on a completion.
    Closed,
    /// Closed loop, paced: a command starts no earlier than its predecessors take at this rate. Commands in flight are not
    /// slowed down.
    Paced {
        /// Limit in bytes a second.
        rate: ByteRate,
    },
}

/// A transfer. With a second leg it is a relay: `first` fills slots of the memory, `second` empties them, and there are
/// `depth` slots. A leg of the owner of the memory moves data between its medium and its slots, and crosses no link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// Printed name.
    pub name: String,
    /// The memory.
    pub memory: NodeIndex,
    /// The first leg.
    pub first: Leg,
    /// The second leg of a relay.
    pub second: Option<Leg>,
    /// The rest of a transfer in another machine, beyond a network; its depth is that of the first part.
    pub beyond: Option<Box<Self>>,
    /// Bytes of a command.
    pub request: Bytes,
    /// Commands in flight.
    pub depth: u32,
    /// Processor work; `None` where it is negligible.
    pub work: Option<Box<ProcessorWork>>,
    /// Work of a unit between both legs.
    pub stage: Option<StageWork>,
    /// Arrival process of commands.
    pub arrival: Arrival,
    /// Start, from the start of the run.
    pub start: Picos,
    /// Bytes to move.
    pub bytes: Bytes,
}

/// Wire bytes of an egress buffer of a switch or root complex: two of the largest read requests of these flows, 1 to 8 KiB
/// (a request has 4 KiB at most: PCIe base specification, "Device control register").
///
/// The answers of two requests come in a row without idling another output. Chips hold more: 10,240 bytes of egress packet
/// RAM for a port (PEX 8532, PLX data book, table 8-1), 8 KiB of replay buffer (PolarFire, Microchip). Those keep kinds of
/// packets apart, and here requests wait for all packets before them.
pub fn egress(topology: &Topology, flows: &[FlowSpec]) -> Bytes {
    let readers = flows.iter().flat_map(FlowSpec::legs).filter(|leg| leg.op == Op::Read);
    let largest = readers.map(|leg| match &topology.node(leg.initiator).kind {
        NodeKind::Endpoint(endpoint) => endpoint.mrrs.0.min(4096),
        _ => 0,
    });
    Bytes(2 * largest.fold(512, u64::max))
}

impl FlowSpec {
    /// Writes of `initiator` into `memory`: 1 GiB, 128 KiB a command, 16 in flight.
    pub fn write(name: impl Into<String>, initiator: NodeIndex, memory: NodeIndex) -> Self {
        Self {
            name: name.into(),
            memory,
            first: Leg::new(initiator, Op::Write),
            second: None,
            beyond: None,
            request: Bytes::kib(128),
            depth: 16,
            work: None,
            stage: None,
            arrival: Arrival::Closed,
            start: Picos::ZERO,
            bytes: Bytes::mib(1024),
        }
    }

    /// Reads of `initiator` from `memory`: 1 GiB, 128 KiB a command, 16 in flight.
    pub fn read(name: impl Into<String>, initiator: NodeIndex, memory: NodeIndex) -> Self {
        let first = Leg::new(initiator, Op::Read);
        Self { first, ..Self::write(name, initiator, memory) }
    }

    /// A relay from `source` through `memory` to `target`: 1 GiB, 16 slots of 128 KiB.
    pub fn relay(
        name: impl Into<String>,
        source: NodeIndex,
        memory: NodeIndex,
        target: NodeIndex,
    ) -> Self {
        let second = Some(Leg::new(target, Op::Read));
        Self { second, ..Self::write(name, source, memory) }
    }

    /// The same flow with commands of `request` bytes, `depth` of them in flight.
    #[must_use]
    pub fn with(mut self, request: Bytes, depth: u32) -> Self {
        self.request = request;
        self.depth = depth;
        self
    }

    /// True for a leg of a relay between a drive and slots in its own memory.
    pub fn is_own(&self, leg: &Leg) -> bool {
        self.second.is_some() && leg.initiator == self.memory
    }

    /// The parts of a transfer in each machine that it crosses, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |part| part.beyond.as_deref())
    }

    /// Both legs, in order.
    pub fn legs(&self) -> impl Iterator<Item = &Leg> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// Both legs, mutable.
    pub(crate) fn legs_mut(&mut self) -> impl Iterator<Item = &mut Leg> {
        std::iter::once(&mut self.first).chain(&mut self.second)
    }
}
