//! Errors of making and removing exports.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::io::Errno;

use super::request::{Listen, PayloadMemory};
use crate::error::{ReadError, UnknownReason};

/// Error of making or removing an export. A failed export leaves nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No NVMe target is loaded.
    #[error("cannot export: this kernel has no NVMe target loaded")]
    NoTarget,
    /// Its configuration cannot be found.
    #[error("cannot export")]
    Unknown(#[source] UnknownReason),
    /// A list of it cannot be read.
    #[error("cannot export")]
    Read(#[source] ReadError),
    /// No RDMA device: the kernel accepts the port, and no host can connect.
    #[error("cannot export by RDMA: this machine has no RDMA device ({} is empty)", folder.display())]
    NoRdma {
        /// The list of RDMA devices.
        folder: PathBuf,
    },
    /// A loopback address: the kernel binds it to no RDMA device (`rdma_bind_addr`, Linux 7.2
    /// `drivers/infiniband/core/cma.c`), and no host can connect.
    #[error(
        "cannot listen by rdma at {address}: no host can connect to a loopback address by RDMA"
    )]
    LoopbackByRdma {
        /// The address.
        address: SocketAddr,
    },
    /// The transport copies payload through host memory, whatever `p2pmem` says.
    #[error(
        "cannot use P2P memory over {transport}: the kernel accepts it and copies payload through host memory"
    )]
    MemoryNotUsed {
        /// The transport.
        transport: &'static str,
    },
    /// The name belongs to another subsystem.
    #[error("cannot export as {subsystem}: there is a subsystem of this name")]
    NameTaken {
        /// Its NQN.
        subsystem: String,
    },
    /// The kernel refuses the memory.
    #[error("cannot use P2P memory {}", name(memory))]
    Memory {
        /// The memory.
        memory: PayloadMemory,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses the device, or the memory for it.
    #[error("cannot enable the namespace of {}", device.display())]
    Enable {
        /// The device.
        device: PathBuf,
        /// The requested memory.
        memory: PayloadMemory,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses the address.
    #[error("cannot listen by {}{}", listen.transport(), at(*listen))]
    Listen {
        /// The address.
        listen: Listen,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// An attribute reads another text than was written.
    #[error("cannot export: {} reads {found:?} after {wanted:?} was written", path.display())]
    OtherAnswer {
        /// Below the folder `nvmet` of configfs.
        path: PathBuf,
        /// The written text.
        wanted: String,
        /// The text read back.
        found: String,
    },
    /// Any other step.
    #[error("cannot {action} {} of the NVMe target", path.display())]
    Step {
        /// The step.
        action: &'static str,
        /// Below the folder `nvmet` of configfs.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The note of an export; later runs remove leftovers by it.
    #[error("cannot {action} the note of an export {}", path.display())]
    Note {
        /// The step.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A running program serves it.
    #[error("cannot remove {subsystem}: process {process} serves it")]
    Served {
        /// Its NQN.
        subsystem: String,
        /// Number of the process.
        process: u32,
    },
    /// No note has this name.
    #[error("cannot remove {subsystem}: no export of Peerlane has this name")]
    NotOurs {
        /// Its NQN.
        subsystem: String,
    },
}

/// Advice where no RDMA device has an address.
const RDMA_LINKS: &str = "`rdma link show` lists RDMA devices with their interfaces, `ip address` the \
                          addresses of those";

impl ServeError {
    /// Returns advice for a person, with a command.
    pub fn hint(&self) -> Option<String> {
        let errno = |source: &io::Error| Errno::from_io_error(source);
        let hint = match self {
            Self::NoTarget => "modprobe nvmet",
            Self::Unknown(reason) => reason.hint()?,
            Self::NoRdma { .. } => {
                "`rdma link show` lists RDMA devices; --transport tcp needs none"
            }
            Self::LoopbackByRdma { .. } => RDMA_LINKS,
            Self::MemoryNotUsed { .. } => "leave --p2pmem out, or take --transport rdma",
            Self::NameTaken { subsystem } => {
                return Some(format!(
                    "ls /sys/kernel/config/nvmet/subsystems; take another --name than {subsystem}"
                ));
            }
            Self::Memory { .. }
            | Self::Enable { memory: PayloadMemory::P2p(_) | PayloadMemory::AnyP2p, .. } => {
                "`dmesg | tail` says why; --p2pmem off uses host memory; `peerlane topo` lists P2P memories"
            }
            Self::Listen { listen, source } => match (errno(source)?, listen.address()) {
                (Errno::ADDRINUSE, Some(address)) => {
                    return Some(format!(
                        "`ss -ltn` lists ports in use; take another one: --listen {}",
                        SocketAddr::new(address.ip(), address.port().wrapping_add(1))
                    ));
                }
                (Errno::NODEV, _) => RDMA_LINKS,
                (Errno::ADDRNOTAVAIL, _) => "`ip address` lists addresses of this machine",
                (Errno::INVAL, _) => return Some(format!("modprobe {}", listen.module())),
                _ => "dmesg | tail",
            },
            Self::Step { source, .. } | Self::Note { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                "run it as root: `sudo peerlane export --list`"
            }
            Self::Enable { .. } | Self::OtherAnswer { .. } | Self::Step { .. } => "dmesg | tail",
            Self::Served { process, .. } => return Some(format!("kill {process}")),
            Self::NotOurs { .. } => "peerlane export --list",
            Self::Note { action: "read", path, .. } => {
                return Some(format!("`cat {0}` shows it; `rm {0}` drops it", path.display()));
            }
            Self::Read(_) | Self::Note { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn name(memory: &PayloadMemory) -> &str {
    match memory {
        PayloadMemory::P2p(address) => address,
        PayloadMemory::AnyP2p => "of any device",
        PayloadMemory::Host => "of none",
    }
}

fn at(listen: Listen) -> String {
    listen.address().map_or_else(String::new, |address| format!(" at {address}"))
}
