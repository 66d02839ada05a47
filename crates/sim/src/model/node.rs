//! Nodes of a topology: root complexes, switches, endpoints and host memories.

use peerlane_units::{ByteRate, Bytes};

use super::{Op, Picos, Store};

/// A place where links meet or end.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique in its topology: the name of the function, or of the host bridge, in the fabric.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// The top of a tree.
    RootComplex(RootComplex),
    /// A switch inside a tree.
    Switch(Switch),
    /// A leaf that initiates requests, holds memory, or both.
    Endpoint(Endpoint),
    /// Host memory: a leaf below a root complex.
    HostMemory(HostMemory),
}

/// How much a queue that waits for one output holds up what goes elsewhere, in 65536ths: all of it
/// where packets share one first-in-first-out queue and its credits, nothing where each output has a
/// queue and credits of its own. Between them it is the share of commands that use the common queue.
///
/// No public measurement of a PCIe switch fixes it; [`Coupling::SHARED`] is the cautious guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coupling(u32);

impl Coupling {
    /// One queue for all outputs.
    pub const SHARED: Self = Self(1 << 16);
    /// A queue for each output.
    pub const ISOLATED: Self = Self(0);

    /// A share between 0 (isolated) and 1 (shared); what lies outside is taken as the nearer of them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1")]
    pub fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * 65536.0) as u32)
    }

    /// The share in 65536ths.
    pub const fn in_65536ths(self) -> u32 {
        self.0
    }

    /// The share between 0 and 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 65536.0
    }
}

/// The top of a tree, where host memory and peers in other trees are reached.
#[derive(Debug, Clone, PartialEq)]
pub struct RootComplex {
    /// Most that writes between peers carry through it, all together; `None` for as much as links carry.
    pub p2p_write: Option<ByteRate>,
    /// Most that completions between peers carry through it.
    pub p2p_read: Option<ByteRate>,
    /// Payload of the pieces into which it cuts writes and completions between peers; `None` where it
    /// passes them as they are.
    pub split: Option<Bytes>,
    /// Whether it passes reads between peers. Some client processors pass writes only.
    pub forwards_reads: bool,
    /// How waiting for one output holds up others.
    pub hol: Coupling,
    /// From the first byte of a packet in to the first byte out.
    pub latency: Picos,
    /// What translation costs packets that pass it; `None` where there is none, or it always hits.
    pub iommu: Option<Iommu>,
}

impl Default for RootComplex {
    fn default() -> Self {
        Self {
            p2p_write: None,
            p2p_read: None,
            split: None,
            forwards_reads: true,
            hol: Coupling::SHARED,
            latency: Picos::nanos(150),
            iommu: None,
        }
    }
}

/// Address translation whose working set exceeds its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iommu {
    /// Translations that miss, in thousandths.
    pub miss_per_mille: u32,
    /// Bytes that one translation covers: the page size.
    pub bytes_per_translation: Bytes,
    /// Time of one page-table walk.
    pub walk: Picos,
    /// Walks at the same time.
    pub walkers: u32,
}

/// A switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Cut-through latency: 105 ns for a PEX88000 (Linley newsletter), 83 ns in an FITEE 2026 study.
    pub latency: Picos,
    /// How waiting for one output holds up others.
    pub hol: Coupling,
    /// Turns that an input gets in a row, by the link through which it comes in; one for links that are
    /// not named. PCIe base specification, "Port arbitration".
    pub weights: Vec<(super::LinkIndex, u32)>,
    /// Whether its ports send traffic between peers up to the root complex (ACS redirect).
    pub redirects: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            latency: Picos::nanos(105),
            hol: Coupling::SHARED,
            weights: Vec::new(),
            redirects: false,
        }
    }
}

/// A device: what it can have outstanding, and the memory that it lends.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Read requests that it can have outstanding: 32 plain, 256 extended, 768 with 10-bit tags.
    pub tags: u32,
    /// Most bytes that one of its read requests asks for.
    pub mrrs: Bytes,
    /// Most payload of one of its packets; the path may allow less.
    pub mps: Bytes,
    /// Most that it posts as an initiator, all flows together: the medium of a drive, read.
    pub posts: Option<ByteRate>,
    /// Most that it fetches as an initiator, all flows together: the medium of a drive, written.
    pub fetches: Option<ByteRate>,
    /// Where its medium is read and written at once, the most that the shares of both rates add up to: 1 for a
    /// medium that does one thing after the other, 2 for one that does both at full rate, less than 1 where
    /// changing between them, or garbage collection, takes time. No law where one of the rates is not limited.
    pub mixed: f64,
    /// Memory that others can reach.
    pub memory: Memory,
}

impl Endpoint {
    /// Bytes a second at which it gives what it posts, or takes what it fetches; `None` for as fast as they go.
    pub(crate) fn rate_of_store(&self, store: Store, op: Op) -> Option<ByteRate> {
        match (store, op) {
            (Store::Medium, Op::Write) => self.posts,
            (Store::Medium, Op::Read) => self.fetches,
            (Store::Memory, op) => self.memory.rate(op.at_initiator()),
        }
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            tags: 256,
            mrrs: Bytes(512),
            mps: Bytes(256),
            posts: None,
            fetches: None,
            mixed: 1.0,
            memory: Memory::default(),
        }
    }
}

/// Memory that packets are written into and read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Most bytes a second written, alone; `None` for as fast as they come.
    pub write: Option<ByteRate>,
    /// Most bytes a second read, alone.
    pub read: Option<ByteRate>,
    /// Whether reads and writes take from each other, as on one DRAM bus: shares of both rates then sum
    /// to one at most.
    pub is_shared: bool,
    /// From the last byte of a write to its being seen.
    pub write_latency: Picos,
    /// From a read request to the first byte of its completion.
    pub read_latency: Picos,
    /// Payload of one completion, unless the path allows less: the read completion boundary at least
    /// (64 or 128 bytes at a root complex), the maximum payload at most.
    pub completion: Bytes,
}

impl Memory {
    /// Most bytes a second of what is done to it, alone.
    pub(crate) fn rate(&self, op: Op) -> Option<ByteRate> {
        match op {
            Op::Write => self.write,
            Op::Read => self.read,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            write: None,
            read: None,
            is_shared: true,
            write_latency: Picos::nanos(100),
            read_latency: Picos::nanos(400),
            completion: Bytes(256),
        }
    }
}

/// Host memory below a root complex.
#[derive(Debug, Clone, PartialEq)]
pub struct HostMemory {
    /// What packets find; its rates are what the channels deliver, not their peak.
    pub memory: Memory,
    /// Processors beside it, for the transfers of devices below its root complex; `None` for as many as are asked for.
    pub cores: Option<u32>,
}

impl Default for HostMemory {
    fn default() -> Self {
        let memory =
            Memory { read_latency: Picos::nanos(250), completion: Bytes(64), ..Memory::default() };
        Self { memory, cores: None }
    }
}

impl NodeKind {
    /// Whether its outputs have egress buffers ([`egress`](super::egress)).
    pub fn has_egress(&self) -> bool {
        matches!(self, Self::RootComplex(_) | Self::Switch(_))
    }

    /// The memory of this node; `None` for what only forwards.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Self::Endpoint(endpoint) => Some(&endpoint.memory),
            Self::HostMemory(host) => Some(&host.memory),
            Self::RootComplex(_) | Self::Switch(_) => None,
        }
    }

    /// How waiting for one output of this node holds up others.
    pub fn hol(&self) -> Coupling {
        match self {
            Self::RootComplex(root) => root.hol,
            Self::Switch(switch) => switch.hol,
            Self::Endpoint(_) | Self::HostMemory(_) => Coupling::SHARED,
        }
    }

    /// From the first byte of a packet in to the first byte out.
    pub fn latency(&self) -> Picos {
        match self {
            Self::RootComplex(root) => root.latency,
            Self::Switch(switch) => switch.latency,
            Self::Endpoint(_) | Self::HostMemory(_) => Picos::ZERO,
        }
    }
}
