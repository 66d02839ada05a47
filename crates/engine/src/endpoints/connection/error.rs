//! Errors of connecting a drive of another machine.

use std::io;
use std::net::SocketAddr;

use peerlane_units::Nanos;
use rustix::io::Errno;

use super::host::HostNameError;
use crate::endpoints::{RemoteName, RemoteNameError, RemoteTransport};

/// Error of connecting a drive of another machine. Nothing is connected then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The text names no drive.
    #[error("cannot understand the name of the drive")]
    Name(#[from] RemoteNameError),
    /// The kernel has no NVMe over Fabrics host.
    #[error("cannot connect {drive}: the kernel has no host of NVMe over Fabrics")]
    NoKernelHost {
        /// The drive.
        drive: Box<RemoteName>,
    },
    /// No RDMA device.
    #[error("cannot connect {drive}: this machine has no RDMA device")]
    NoRdma {
        /// The drive.
        drive: Box<RemoteName>,
    },
    /// The host has no address.
    #[error("cannot find the address of {host}")]
    Address {
        /// Its name.
        host: String,
        /// Answer of the resolver.
        source: io::Error,
    },
    /// sysfs is mounted read-only: nothing could disconnect the drive.
    #[error("cannot connect drives: /sys is read-only here")]
    ReadOnlySysfs,
    /// The names of this host.
    #[error(transparent)]
    HostName(#[from] HostNameError),
    /// `/dev/nvme-fabrics` cannot be opened.
    #[error("cannot open /dev/nvme-fabrics")]
    Open {
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel did not connect.
    #[error("cannot connect {drive} as host {host}")]
    Refused {
        /// The drive.
        drive: Box<RemoteName>,
        /// The address that was tried last.
        address: Option<SocketAddr>,
        /// NQN of this host.
        host: String,
        /// The system's answer.
        source: io::Error,
    },
    /// `/dev` cannot be watched.
    #[error("cannot watch /dev for the disk")]
    Nodes {
        /// The system's answer.
        source: io::Error,
    },
    /// The namespace did not appear.
    #[error("{drive} has no namespace {}: no disk appeared in {waited}", drive.namespace())]
    NoNamespace {
        /// The drive.
        drive: Box<RemoteName>,
        /// Time waited.
        waited: Nanos,
    },
    /// A signal came first.
    #[error("interrupted while connecting")]
    Interrupted,
}

impl ConnectError {
    /// Returns advice with a command.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoKernelHost { drive } => {
                Some(format!("modprobe nvme-{}", drive.transport().as_str()))
            }
            Self::NoRdma { .. } => {
                Some("`rdma link show` lists RDMA devices; ?transport=tcp needs none".to_owned())
            }
            Self::Address { host, .. } => Some(format!("getent hosts {host}")),
            Self::ReadOnlySysfs => {
                Some("run it outside the container, or with /sys writable".to_owned())
            }
            Self::Open { source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("only root connects drives: docs/privileges.md".to_owned())
            }
            Self::Refused { drive, address, host, source } => {
                Some(refusal_hint(drive, *address, host, source))
            }
            Self::NoNamespace { .. } => {
                Some("`nvme list-ns` on the other machine; ?ns=N names another".to_owned())
            }
            _ => None,
        }
    }

    /// True if this machine cannot connect any drive so.
    pub fn is_not_possible(&self) -> bool {
        matches!(self, Self::NoKernelHost { .. } | Self::NoRdma { .. })
    }
}

/// The far side's status is in the kernel's log only; the call has one errno for all of them.
fn refusal_hint(
    drive: &RemoteName,
    address: Option<SocketAddr>,
    host: &str,
    source: &io::Error,
) -> String {
    let transport = drive.transport().as_str();
    let errno = Errno::from_io_error(source);
    match errno {
        Some(Errno::IO | Errno::ACCESS | Errno::PERM) => format!(
            "`dmesg | tail` has the other machine's answer: an unknown NQN, or a host that is not \
             allowed (`peerlane export DRIVE --allow {host}` there)"
        ),
        Some(Errno::INVAL | Errno::NODEV) if drive.transport() == RemoteTransport::Tcp => {
            format!("modprobe nvme-{transport}; `dmesg | tail` has the kernel's reason")
        }
        Some(Errno::NODEV) => "`ip route get` shows the interface to that address, `rdma link show` \
                               whether it has an RDMA device; `dmesg | tail` has the kernel's reason"
            .to_owned(),
        Some(
            Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
            | Errno::AGAIN,
        )
        | None => {
            let at = address.map_or_else(|| drive.host().to_owned(), |address| address.to_string());
            format!(
                "nothing that speaks NVMe answers at {at}: `ip route get` shows the route, `peerlane \
                 export --list` there shows what listens"
            )
        }
        _ => "`dmesg | tail` has the kernel's reason".to_owned(),
    }
}
