//! The ends of a copy, and the memory between them.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointKind {
    /// A block device.
    BlockDevice,
    /// The passthrough node of an NVMe namespace (`/dev/ng0n1`): the bytes of its block device by
    /// commands that no block layer looks at.
    Passthrough,
    /// A regular file, there or to be made.
    File,
    /// Memory of a GPU, which has no blocks.
    Gpu,
}

/// Known properties of one end of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointFacts {
    /// As typed, made absolute and with links resolved.
    pub path: String,
    /// Kind of the endpoint.
    pub kind: EndpointKind,
    /// Capacity or file size; zero for a file to be made.
    pub size: Bytes,
    /// Smallest unit of direct I/O: length and offset are multiples of it.
    pub block: Bytes,
    /// Most bytes that one request carries through host memory.
    pub request_host: Bytes,
    /// Most bytes that one request carries peer to peer; `None` where that cannot be.
    pub request_p2p: Option<Bytes>,
    /// Block device below it (`nvme0n1`); `None` where there is none.
    pub device: Option<String>,
    /// PCI address of the controller below it.
    pub address: Option<String>,
    /// Model and serial of the drive, where it has them.
    pub drive: Option<String>,
    /// File system type for a file.
    pub file_system: Option<String>,
    /// Reason why peer-to-peer requests cannot work on this endpoint, whatever the memory.
    pub refusal: Option<String>,
    /// Change that would make them possible; `None` where nothing would.
    pub way_out: Option<String>,
    /// Its location in the network, for a namespace of NVMe over Fabrics.
    pub network: Option<NetworkFacts>,
}

impl EndpointFacts {
    /// The function that serves this end; `None` where the fabric has none by its names.
    pub fn function(&self, fabric: &Fabric) -> Option<FunctionId> {
        [self.address.as_deref(), self.device.as_deref(), Some(self.path.as_str())]
            .into_iter()
            .flatten()
            .find_map(|name| fabric.find_device(name))
    }
}

/// Location of a namespace of NVMe over Fabrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkFacts {
    /// `tcp`, `rdma`, `fc` or `loop`.
    pub transport: String,
    /// Address and port: `10.0.0.1:4420`; `None` for `loop`.
    pub address: Option<String>,
    /// NQN of the subsystem; `None` if the kernel does not say.
    pub subsystem: Option<String>,
}

/// Kinds of memory between read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Host memory: a bounce buffer.
    Host,
    /// The controller memory buffer of an NVMe drive, or other memory published to the kernel.
    P2pmem,
    /// Memory of a GPU.
    Gpu,
}

/// The memory between read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFacts {
    /// As a person types it: `cmb:nvme2`, `host`.
    pub name: String,
    /// Kind of the memory.
    pub kind: MemoryKind,
    /// PCI address of its owner.
    pub address: Option<String>,
    /// Bytes in the pool.
    pub size: Option<Bytes>,
    /// Bytes free when it was looked at.
    pub available: Option<Bytes>,
}
