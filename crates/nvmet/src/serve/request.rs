//! What is to be exported, to whom, and by which way.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Longest NQN in bytes (`NVMF_NQN_FIELD_LEN` less its end, include/linux/nvme.h).
const NQN_MAX: usize = 223;

/// An export that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// NQN of the subsystem.
    pub subsystem: Nqn,
    /// The block device: absolute, links resolved.
    pub device: PathBuf,
    /// UUID of the namespace, by which a host knows it again.
    pub uuid: String,
    /// Memory that payload waits in.
    pub memory: PayloadMemory,
    /// Where hosts connect.
    pub listen: Listen,
    /// Who may connect.
    pub hosts: Hosts,
}

/// A name of a subsystem or host that configfs takes as a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nqn(String);

/// Why a text is no NQN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no NQN: at most {NQN_MAX} printable characters, without spaces, commas and slashes"
)]
pub struct NqnError {
    text: String,
}

impl Nqn {
    /// Takes a name: it is a folder of configfs, and a value among others that commas part.
    ///
    /// # Errors
    /// When it cannot be both.
    pub fn new(text: &str) -> Result<Self, NqnError> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b',');
        let is_folder = !text.is_empty() && !text.starts_with('.');
        if is_folder && text.len() <= NQN_MAX && text.bytes().all(is_plain) {
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
    /// That of the host.
    Host,
    /// Whatever P2P memory the kernel finds near both; it refuses the export where there is none.
    AnyP2p,
    /// That of the device at this PCI address.
    P2p(String),
}

impl PayloadMemory {
    /// The attribute, as it is written and as it reads back.
    pub(crate) fn attribute(&self) -> &str {
        match self {
            Self::Host => "0",
            Self::AnyP2p => "1",
            Self::P2p(address) => address,
        }
    }
}

/// Where hosts connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// By TCP.
    Tcp(SocketAddr),
    /// By an RDMA device that has this address.
    Rdma(SocketAddr),
    /// Only from this machine itself.
    Loop,
}

impl Listen {
    /// The transport, as `addr_trtype` has it.
    pub fn transport(self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Rdma(_) => "rdma",
            Self::Loop => "loop",
        }
    }

    /// The address and port, where there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Rdma(address) => Some(address),
            Self::Loop => None,
        }
    }

    /// The kernel's module of the transport.
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

/// Who may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Everybody who reaches the address.
    Any,
    /// Those that say these names. A name is no secret.
    These(Vec<Nqn>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folders_and_values() {
        for name in ["lab", "nqn.2014-08.org.nvmexpress:uuid:1f-2", &"x".repeat(223)] {
            assert_eq!(Nqn::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a,b", "a b", "a\nb", "é", &"x".repeat(224)] {
            assert!(Nqn::new(name).is_err(), "{name:?}");
        }
    }
}
