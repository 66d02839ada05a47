//! A request for an export: device, hosts, memory and address.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Longest NQN in bytes (`NVMF_NQN_SIZE`, include/linux/nvme.h).
const MAX_NQN_BYTES: usize = 223;

/// A request for an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRequest {
    /// NQN of the subsystem.
    pub subsystem: Nqn,
    /// The block device: absolute, links resolved.
    pub device: PathBuf,
    /// UUID of the namespace, its identity for hosts.
    pub uuid: String,
    /// Memory between drive and network.
    pub memory: PayloadMemory,
    /// Transport and address for hosts.
    pub listen: Listen,
    /// Hosts allowed to connect.
    pub hosts: AllowedHosts,
}

/// NVMe Qualified Name of a subsystem or host, usable as a folder of configfs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nqn(String);

/// A text that is not an NQN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an NQN: write at most {MAX_NQN_BYTES} printable characters without spaces, commas and slashes"
)]
pub struct NqnError {
    text: String,
}

impl Nqn {
    /// Checks a name. It becomes a folder of configfs, and a value in a comma-separated list.
    ///
    /// # Errors
    /// [`NqnError`] when it cannot be both.
    pub fn new(text: &str) -> Result<Self, NqnError> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b',');
        let is_folder = !text.is_empty() && !text.starts_with('.');
        if is_folder && text.len() <= MAX_NQN_BYTES && text.bytes().all(is_plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(NqnError { text: text.to_owned() })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Memory between the drive and the network, as `p2pmem` names it (`nvmet_ns_p2pmem_store`,
/// drivers/nvme/target/configfs.c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadMemory {
    /// Host memory.
    Host,
    /// P2P memory chosen by the kernel, which refuses the export if it finds none.
    AnyP2p,
    /// P2P memory of the device at this PCI address.
    P2p(String),
}

impl PayloadMemory {
    /// The text of the attribute, written and read.
    pub(crate) fn attribute(&self) -> &str {
        match self {
            Self::Host => "0",
            Self::AnyP2p => "1",
            Self::P2p(address) => address,
        }
    }
}

/// Transport and address for hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// TCP at this address.
    Tcp(SocketAddr),
    /// An RDMA device with this address.
    Rdma(SocketAddr),
    /// This machine only.
    Loop,
}

impl Listen {
    /// The names of all transports.
    pub const TRANSPORTS: [&str; 3] = ["tcp", "rdma", "loop"];

    /// A transport by its name, with the address that it needs; `None` without one.
    pub fn new(transport: &str, address: Option<SocketAddr>) -> Option<Self> {
        match transport {
            "tcp" => address.map(Self::Tcp),
            "rdma" => address.map(Self::Rdma),
            "loop" => Some(Self::Loop),
            _ => None,
        }
    }

    /// The transport in the words of `addr_trtype`.
    pub fn transport(self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Rdma(_) => "rdma",
            Self::Loop => "loop",
        }
    }

    /// Address and port; `None` for loop.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Rdma(address) => Some(address),
            Self::Loop => None,
        }
    }

    /// Kernel module of the transport.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Tcp(_) => "nvmet_tcp",
            Self::Rdma(_) => "nvmet_rdma",
            Self::Loop => "nvme_loop",
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.transport())?;
        self.address().map_or(Ok(()), |address| write!(f, " {address}"))
    }
}

/// Hosts allowed to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Every host that reaches the address.
    Any,
    /// Hosts with these names. A name is not a secret.
    These(Vec<Nqn>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folder_names_are_nqns() {
        for name in ["lab", "nqn.2014-08.org.nvmexpress:uuid:1f-2", &"x".repeat(223)] {
            assert_eq!(Nqn::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a,b", "a b", "a\nb", "é", &"x".repeat(224)] {
            assert!(Nqn::new(name).is_err(), "{name:?}");
        }
    }
}
