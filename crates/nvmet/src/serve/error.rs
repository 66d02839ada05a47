//! Why an export could not be made or removed.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use super::wanted::{Listen, PayloadMemory};
use crate::error::{ReadError, UnknownReason};

/// Why an export could not be made or removed. Nothing is left of one that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// This kernel has no NVMe target.
    #[error("cannot export: this kernel has no NVMe target loaded")]
    NoTarget,
    /// Its configuration cannot be found.
    #[error("cannot export")]
    Unknown(#[source] UnknownReason),
    /// A list of it cannot be read.
    #[error("cannot export")]
    Read(#[source] ReadError),
    /// There is no RDMA device: the kernel would take the port, and nobody could connect.
    #[error("cannot export by RDMA: this machine has no RDMA device ({} is empty)", folder.display())]
    NoRdma {
        /// Where devices are listed.
        folder: PathBuf,
    },
    /// The transport copies payload through host memory whatever `p2pmem` says, and says nothing.
    #[error(
        "cannot use P2P memory over {transport}: the kernel takes it, and copies payload through host memory"
    )]
    MemoryNotUsed {
        /// The transport.
        transport: &'static str,
    },
    /// A subsystem has the name.
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
        /// The memory that was asked for.
        memory: PayloadMemory,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel does not listen there.
    #[error("cannot listen by {}{}", listen.transport(), at(*listen))]
    Listen {
        /// The address.
        listen: Listen,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// An attribute took a text and shows another.
    #[error("cannot export: {} reads {found:?} after {wanted:?} was written", path.display())]
    OtherAnswer {
        /// Below the folder `nvmet` of configfs.
        path: PathBuf,
        /// What was written.
        wanted: String,
        /// What it reads.
        found: String,
    },
    /// Any other step.
    #[error("cannot {action} {} of the NVMe target", path.display())]
    Step {
        /// What was tried.
        action: &'static str,
        /// Below the folder `nvmet` of configfs.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The note of the export cannot be kept, by which a later run would remove it.
    #[error("cannot keep a note of the export in {}", path.display())]
    Note {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The program that made it still serves it.
    #[error("cannot remove {subsystem}: process {process} serves it")]
    Served {
        /// Its NQN.
        subsystem: String,
        /// Number of the process.
        process: u32,
    },
    /// Nothing of this name was left.
    #[error("cannot remove {subsystem}: no export of Peerlane has this name")]
    NotOurs {
        /// Its NQN.
        subsystem: String,
    },
}

impl MakeError {
    /// What to do about it, with a command.
    pub fn hint(&self) -> Option<String> {
        let errno = |source: &io::Error| Errno::from_io_error(source);
        let hint = match self {
            Self::NoTarget => "modprobe nvmet",
            Self::Unknown(reason) => reason.hint()?,
            Self::NoRdma { .. } => {
                "`rdma link show` lists RDMA devices; --transport tcp needs none"
            }
            Self::MemoryNotUsed { .. } => "leave --p2pmem out, or take --transport rdma",
            Self::NameTaken { subsystem } => {
                return Some(format!(
                    "ls /sys/kernel/config/nvmet/subsystems; take another --name than {subsystem}"
                ));
            }
            Self::Memory { .. }
            | Self::Enable { memory: PayloadMemory::P2p(_) | PayloadMemory::AnyP2p, .. } => {
                "`dmesg | tail` says why; `peerlane topo` lists P2P memories and who reaches them"
            }
            Self::Listen { listen, source } => match (errno(source)?, listen.address()) {
                (Errno::ADDRINUSE, Some(address)) => {
                    return Some(format!(
                        "`ss -ltn` lists ports in use; take another one: --listen {}",
                        std::net::SocketAddr::new(address.ip(), address.port().wrapping_add(1))
                    ));
                }
                (Errno::ADDRNOTAVAIL, _) => "`ip address` lists addresses of this machine",
                (Errno::INVAL, _) => return Some(format!("modprobe {}", listen.module())),
                _ => "dmesg | tail",
            },
            Self::Step { source, .. } | Self::Note { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                "exports are made by root"
            }
            Self::Enable { .. } | Self::OtherAnswer { .. } | Self::Step { .. } => "dmesg | tail",
            Self::Served { process, .. } => return Some(format!("kill {process}")),
            Self::NotOurs { .. } => "peerlane export --list",
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
