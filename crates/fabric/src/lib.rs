//! A machine as data: host bridges, ports, functions, links and memories.
//!
//! A [`Fabric`] comes from `/sys` below a given root, or from a text. Each fact is known or unknown;
//! crate `reach` decides on them. Discovery opens nothing outside the root it was given, and nothing
//! here moves data.
#![forbid(unsafe_code)]

pub mod assume;
mod bdf;
pub mod capture;
pub mod content;
pub mod cufile;
mod device_memory;
mod find;
pub mod gpu;
mod link;
pub mod lspci;
mod machine_file;
mod model;
pub mod nccl;
mod notation;
mod pairing;
pub mod pci_names;
mod provider_kind;
mod stack;
mod sysfs;
mod tunnel;

pub use bdf::{Bdf, BdfError};
pub use device_memory::{Memory, MemoryKind};
pub use link::LinkSpeedError;
pub use machine_file::{MachineFileError, OUTLINE_MAX, Problem};
pub use model::{
    Acs, Bar, BridgeId, CmbRegisters, Cpu, CufileConfiguration, CufileValue, DriverBinding,
    Environment, Fabric, FailingRequest, FailureCount, Function, FunctionId, FunctionKind, GpuLink,
    HostBridge, InjectedError, Integrity, IommuMode, Kernel, LabBoot, LabDrive, LineNumbers, Link,
    LinkSpeed, Module, Mount, Namespace, NetworkLocation, NvidiaDriver, NvmeController, Origin,
    P2pMem, Parent, Partition, PeerAccess, PeerCapability, QueueLimits, Rates, RdmaDevice, RdmaGid,
    RdmaPort, RemoteDrive, RootBus, StackedDevice, Temperature, UnassignedBar, host_and_port,
};
pub use pairing::{Dna, Pairing};
pub use provider_kind::{ProviderKind, strip as strip_form};
pub use stack::Stack;
pub use sysfs::snapshot::{NoPlace, Snapshot, TreeEntry};
pub use sysfs::{
    BlockDevice, DiscoverError, ParentDisk, PassthroughNode, block_name, kernel_has_p2pdma,
    passthrough_name,
};
