//! A machine as data: host bridges, ports, functions, links and memories, and who reaches whom.
//!
//! A [`Fabric`] comes from `/sys` below a given root, or from a TOML file. [`reach::decide`] mirrors
//! the Linux kernel's peer-to-peer decision as a pure function that returns its reasons. Discovery
//! opens nothing outside the root it was given, and nothing here moves data.
#![forbid(unsafe_code)]

mod allow_list;
mod bdf;
pub mod capture;
mod fact;
pub mod gpu;
mod link;
mod machine_file;
mod matrix;
mod model;
pub mod names;
mod pairing;
pub mod reach;
mod stack;
mod sysfs;

pub use bdf::{Bdf, BdfError};
pub use fact::Fact;
pub use link::LinkSpeedError;
pub use machine_file::{MachineFileError, OUTLINE_MAX, Problem};
pub use matrix::{Cell, Detail, Matrix, Memory, MemoryKind, Peers, grouped, representatives};
pub use model::{
    Acs, Bar, BridgeId, CmbRegisters, Cpu, DriverBinding, Environment, Fabric, FailingRequest,
    FailureCount, Function, FunctionId, HostBridge, InjectedError, Integrity, IommuMode, Kernel,
    Kind, LabBoot, LabDrive, Lines, Link, LinkSpeed, Module, Mount, Namespace, NvLink,
    NvmeController, Origin, P2pMem, Parent, Partition, QueueLimits, Rates, RootBus, StackedDevice,
    Temperature, UnassignedBar,
};
pub use pairing::{Dna, Pairing};
pub use reach::{Decisions, MapType, Reach};
pub use stack::Stack;
pub use sysfs::snapshot::{Entry, NoPlace, Snapshot};
pub use sysfs::{
    BlockDevice, DiscoverError, NoPackets, Packets, ParentDisk, PassthroughNode, block_name,
    passthrough_name,
};
