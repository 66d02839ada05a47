//! What moves: one initiator against a memory, or two that relay through it.

use peerlane_units::{ByteRate, Bytes};

use super::{NodeIndex, NodeKind, Picos, Topology};
use crate::way::{as_f64, picos};

/// What an initiator does to a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Posts writes into it: a drive carries out an NVMe read.
    Write,
    /// Reads from it: a drive carries out an NVMe write.
    Read,
}

impl Op {
    /// What an initiator does to its own memory meanwhile: it reads what it posts, and writes what it fetches.
    pub(crate) fn at_initiator(self) -> Self {
        match self {
            Self::Write => Self::Read,
            Self::Read => Self::Write,
        }
    }
}

/// What of an initiator the payload comes from, or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Store {
    /// The medium of a drive; of a device without one, nothing that takes time.
    Medium,
    /// The memory that others reach, too.
    Memory,
}

/// What one initiator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Who issues the requests.
    pub initiator: NodeIndex,
    /// What it does to the memory.
    pub op: Op,
    /// What of itself it posts from, or fetches into.
    pub store: Store,
    /// Most bytes a second that it moves for this flow; `None` for as fast as it goes.
    pub bound: Option<ByteRate>,
    /// Most bytes a second that the initiator's medium does of such commands, where that is less than its rate, and no limit
    /// where it is more: commands a second times their size. A byte of a drive that is read and written at once costs that time.
    pub commands: Option<ByteRate>,
    /// From the start of a command to its first packet; commands overlap in it.
    pub latency: Picos,
}

impl Leg {
    /// As fast as it goes and without latency, from or to a medium.
    pub fn new(initiator: NodeIndex, op: Op) -> Self {
        let (store, latency) = (Store::Medium, Picos::ZERO);
        Self { initiator, op, store, bound: None, commands: None, latency }
    }
}

/// What processors do of a transfer: one thread of it, on one processor at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The host memory that copies read and write, beside the processors.
    pub at: NodeIndex,
    /// Time of a processor for the commands of a block; devices go on meanwhile.
    pub submit: Picos,
    /// Time of a processor in which it copies a block, before its last leg begins.
    pub copy: Picos,
    /// Bytes that copies of a block read and write in host memory.
    pub traffic: Bytes,
}

impl Work {
    /// Nanoseconds of a processor for each byte of commands of so many.
    pub(crate) fn per_byte(&self, request: Bytes) -> f64 {
        picos(self.submit.0.saturating_add(self.copy.0)) / as_f64(request)
    }
}

/// When commands begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Each as soon as one before it is done, so that `depth` are under way.
    Closed,
    /// The same, but no sooner than the commands before it take at this rate, as a limit makes a program wait before it
    /// begins a block: a command that has begun is as fast as it goes.
    Paced {
        /// Most bytes a second.
        rate: ByteRate,
    },
    /// At random moments, independent of each other, at this rate of bytes; at most `depth` are under
    /// way and the others wait. Latency counts from the moment.
    Open {
        /// Bytes a second that are asked for.
        rate: ByteRate,
    },
}

/// A transfer. With a second leg it is a relay: `first` fills a slot of the memory, `second` empties
/// it, and `depth` slots join them. Host memory makes it a bounce, one slot makes it serial. Either leg may
/// be what the owner of the memory does itself, between its medium and its slots: that crosses no link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// A name for people.
    pub name: String,
    /// The memory that is written or read.
    pub memory: NodeIndex,
    /// Who does it.
    pub first: Leg,
    /// Who goes on with a slot when `first` is done with it.
    pub second: Option<Leg>,
    /// Bytes of one command.
    pub request: Bytes,
    /// Commands under way.
    pub depth: u32,
    /// What processors do of it; `None` for nothing that others could miss.
    pub work: Option<Box<Work>>,
    /// When commands begin.
    pub arrival: Arrival,
    /// Begins this long after the run.
    pub start: Picos,
    /// Ends after so many bytes, where the run goes to the end.
    pub bytes: Bytes,
}

/// What an egress buffer of a switch or a root complex holds on a machine with these flows, in bytes on the wire: two of the largest read
/// requests, so that their answers, which come in a row, keep no other output idle; 1 KiB at least, and 8 KiB at most (a request is no longer than 4 KiB: PCIe
/// base specification, "Device control register").
///
/// Chips hold more than that of requests of 512 bytes: the PEX 8532 has 10,240 bytes of egress packet RAM for a port (PLX data book, table
/// 8-1), PolarFire devices a replay buffer of 8 KiB (Microchip). But those keep kinds of packets apart, and here requests wait for
/// all that is before them.
pub fn egress(topology: &Topology, flows: &[FlowSpec]) -> Bytes {
    let readers = flows.iter().flat_map(FlowSpec::legs).filter(|leg| leg.op == Op::Read);
    let largest = readers.map(|leg| match &topology.node(leg.initiator).kind {
        NodeKind::Endpoint(endpoint) => endpoint.mrrs.0.min(4096),
        _ => 0,
    });
    Bytes(2 * largest.fold(512, u64::max))
}

impl FlowSpec {
    /// Posts writes from `initiator` into `memory`: 128 KiB a command, 16 under way, 1 GiB.
    pub fn write(name: impl Into<String>, initiator: NodeIndex, memory: NodeIndex) -> Self {
        Self::of(name, memory, Leg::new(initiator, Op::Write), None)
    }

    /// Reads `memory` from `initiator`: 128 KiB a command, 16 under way, 1 GiB.
    pub fn read(name: impl Into<String>, initiator: NodeIndex, memory: NodeIndex) -> Self {
        Self::of(name, memory, Leg::new(initiator, Op::Read), None)
    }

    /// Writes from `source` into slots of `memory` that `target` reads: 128 KiB each, 16 slots, 1 GiB.
    pub fn relay(
        name: impl Into<String>,
        source: NodeIndex,
        memory: NodeIndex,
        target: NodeIndex,
    ) -> Self {
        let second = Leg::new(target, Op::Read);
        Self::of(name, memory, Leg::new(source, Op::Write), Some(second))
    }

    fn of(name: impl Into<String>, memory: NodeIndex, first: Leg, second: Option<Leg>) -> Self {
        Self {
            name: name.into(),
            memory,
            first,
            second,
            request: Bytes::kib(128),
            depth: 16,
            work: None,
            arrival: Arrival::Closed,
            start: Picos::ZERO,
            bytes: Bytes::mib(1024),
        }
    }

    /// With commands of `request` bytes, `depth` of them under way.
    #[must_use]
    pub fn with(mut self, request: Bytes, depth: u32) -> Self {
        self.request = request;
        self.depth = depth;
        self
    }

    /// Whether a leg of this transfer is what a drive does with slots in its own memory.
    pub fn is_own(&self, leg: &Leg) -> bool {
        self.second.is_some() && leg.initiator == self.memory
    }

    /// Both legs, in order.
    pub fn legs(&self) -> impl Iterator<Item = &Leg> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The same, to be changed.
    pub fn legs_mut(&mut self) -> impl Iterator<Item = &mut Leg> {
        std::iter::once(&mut self.first).chain(&mut self.second)
    }
}
