//! Nodes of a topology: root complexes, switches, endpoints and host memories.

use peerlane_units::{ByteRate, Bytes};

use super::{Op, PayloadStore, Picos};

/// A node, where links meet or end.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name, unique in the topology: that of the function or host bridge in the fabric.
    pub name: String,
    /// Kind and parameters.
    pub kind: NodeKind,
}

/// Kind of a node, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// The root of a tree.
    RootComplex(RootComplex),
    /// A switch inside a tree.
    Switch(Switch),
    /// A device: a leaf that initiates requests, has memory, or both.
    Endpoint(ModelEndpoint),
    /// Host memory: a leaf below a root complex.
    HostMemory(HostMemory),
}

/// The root of a tree, with paths to host memory and to other trees.
#[derive(Debug, Clone, PartialEq)]
pub struct RootComplex {
    /// Most bytes a second of all writes between peers; `None` without a limit.
    pub p2p_write: Option<ByteRate>,
    /// Most bytes a second of all completions between peers.
    pub p2p_read: Option<ByteRate>,
    /// Payload to which it splits writes and completions between peers; `None` without splitting.
    pub split: Option<Bytes>,
    /// True where it passes reads between peers. Some client processors pass writes only.
    pub forwards_reads: bool,
    /// True if all outputs share one queue, which blocks its head of line; each has its own otherwise. No public
    /// measurement fixes it: true is the cautious guess.
    pub has_shared_queue: bool,
    /// Time from the first byte of a packet in to the first byte out.
    pub latency: Picos,
    /// Address translation; `None` without one, or where it always hits.
    pub iommu: Option<Iommu>,
}

impl Default for RootComplex {
    fn default() -> Self {
        Self {
            p2p_write: None,
            p2p_read: None,
            split: None,
            forwards_reads: true,
            has_shared_queue: true,
            latency: Picos::nanos(150),
            iommu: None,
        }
    }
}

/// Address translation whose working set exceeds its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iommu {
    /// Misses, in thousandths.
    pub miss_per_mille: u32,
    /// Page size: bytes of one translation.
    pub bytes_per_translation: Bytes,
    /// Time of one page-table walk.
    pub walk: Picos,
    /// Concurrent walks.
    pub walkers: u32,
}

/// A switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Cut-through latency: 105 ns for a PEX88000 (Linley newsletter), 83 ns in an FITEE 2026 study.
    pub latency: Picos,
    /// True if all outputs share one queue, which blocks its head of line; each has its own otherwise. No public
    /// measurement fixes it: true is the cautious guess.
    pub has_shared_queue: bool,
    /// Consecutive turns of an input, by its link; one for other links (PCIe base specification, "Port arbitration").
    pub weights: Vec<(super::LinkIndex, u32)>,
    /// True where its ports send traffic between peers up to the root complex (ACS redirect).
    pub redirects: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            latency: Picos::nanos(105),
            has_shared_queue: true,
            weights: Vec::new(),
            redirects: false,
        }
    }
}

/// A device: its outstanding requests, its medium, and its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEndpoint {
    /// Outstanding read requests: 32, 256 with extended tags, 768 with 10-bit tags.
    pub tags: u32,
    /// Maximum read request size.
    pub mrrs: Bytes,
    /// Maximum payload size; the path may allow less.
    pub mps: Bytes,
    /// Bytes a second of all writes that it initiates: the medium of a drive, read.
    pub posts: Option<ByteRate>,
    /// Bytes a second of all reads that it initiates: the medium of a drive, written.
    pub fetches: Option<ByteRate>,
    /// Utilisation limit of a medium that is read and written at once: 1 for one operation at a time, 2 for both at full
    /// rate, less than 1 where turnaround or garbage collection take time. Without effect unless both rates are limited.
    pub mixed: f64,
    /// Memory that other devices reach; of a network controller, its wire.
    pub memory: TargetMemory,
    /// True for a network controller.
    pub is_network: bool,
}

impl ModelEndpoint {
    /// Bytes a second of a store as source of writes or target of reads; `None` without a limit.
    pub(crate) fn rate_of_store(&self, store: PayloadStore, op: Op) -> Option<ByteRate> {
        match (store, op) {
            (PayloadStore::Medium, Op::Write) => self.posts,
            (PayloadStore::Medium, Op::Read) => self.fetches,
            (PayloadStore::Memory, op) => self.memory.rate(op.at_initiator()),
        }
    }
}

impl Default for ModelEndpoint {
    fn default() -> Self {
        Self {
            tags: 256,
            mrrs: Bytes(512),
            mps: Bytes(256),
            posts: None,
            fetches: None,
            mixed: 1.0,
            memory: TargetMemory::default(),
            is_network: false,
        }
    }
}

/// Memory as the target of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetMemory {
    /// Bytes a second of writes alone; `None` without a limit.
    pub write: Option<ByteRate>,
    /// Bytes a second of reads alone.
    pub read: Option<ByteRate>,
    /// True where reads and writes share one bus: utilisations by both rates then add up to one at most.
    pub is_shared: bool,
    /// Time from the last byte of a write to its visibility.
    pub write_latency: Picos,
    /// Time from a read request to the first byte of its completion.
    pub read_latency: Picos,
    /// Payload of a completion, between the read completion boundary (64 or 128 bytes at a root complex) and the maximum
    /// payload of the path.
    pub completion: Bytes,
}

impl TargetMemory {
    /// Bytes a second of one operation alone.
    pub(crate) fn rate(&self, op: Op) -> Option<ByteRate> {
        match op {
            Op::Write => self.write,
            Op::Read => self.read,
        }
    }
}

impl Default for TargetMemory {
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
    /// The memory, with the sustained rates of its channels.
    pub memory: TargetMemory,
    /// Processors for the transfers of devices below its root complex; `None` without a limit.
    pub cores: Option<u32>,
}

impl Default for HostMemory {
    fn default() -> Self {
        let memory = TargetMemory {
            read_latency: Picos::nanos(250),
            completion: Bytes(64),
            ..TargetMemory::default()
        };
        Self { memory, cores: None }
    }
}

impl NodeKind {
    /// True for nodes with egress buffers ([`egress`](super::egress)).
    pub fn has_egress(&self) -> bool {
        matches!(self, Self::RootComplex(_) | Self::Switch(_))
    }

    /// The memory of the node; `None` for nodes that only forward.
    pub fn memory(&self) -> Option<&TargetMemory> {
        match self {
            Self::Endpoint(endpoint) => Some(&endpoint.memory),
            Self::HostMemory(host) => Some(&host.memory),
            Self::RootComplex(_) | Self::Switch(_) => None,
        }
    }

    /// True for a network controller.
    pub fn is_network(&self) -> bool {
        matches!(self, Self::Endpoint(endpoint) if endpoint.is_network)
    }

    /// True if its outputs share one queue.
    pub fn has_shared_queue(&self) -> bool {
        match self {
            Self::RootComplex(root) => root.has_shared_queue,
            Self::Switch(switch) => switch.has_shared_queue,
            Self::Endpoint(_) | Self::HostMemory(_) => true,
        }
    }

    /// Time from the first byte of a packet in to the first byte out.
    pub fn latency(&self) -> Picos {
        match self {
            Self::RootComplex(root) => root.latency,
            Self::Switch(switch) => switch.latency,
            Self::Endpoint(_) | Self::HostMemory(_) => Picos::ZERO,
        }
    }
}
