//! Drives of other machines by name: `nvme://HOST[:PORT]/NQN[?ns=N&transport=tcp|rdma]`.
//!
//! A name is found among the drives that are connected; [`crate::endpoints::connection`] connects them.

use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use peerlane_fabric::{NetworkLocation, RemoteDrive};
use peerlane_nvmet::{Nqn, NqnError};

use crate::io::system::System;

const SCHEME: &str = "nvme://";
const SCHEME_NAME: &str = "nvme:";
/// Port of NVMe over Fabrics (IANA, service `nvme`).
pub const NVME_PORT: u16 = 4420;

/// A namespace of another machine, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteName {
    /// DNS name or address, IPv6 without brackets.
    host: String,
    port: u16,
    transport: RemoteTransport,
    subsystem: Nqn,
    namespace: u32,
}

/// Transport of NVMe over Fabrics between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteTransport {
    /// NVMe over TCP.
    Tcp,
    /// NVMe over RDMA.
    Rdma,
}

impl RemoteTransport {
    /// The transport in the words of the kernel.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}

/// A text that begins with `nvme://` and names no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteNameError {
    /// The host or the NQN is missing.
    #[error("`{0}` has no valid host or no NQN: write nvme://10.0.0.1/NQN")]
    Incomplete(String),
    /// The part behind the host is not a port.
    #[error("`{0}` is not a port")]
    Port(String),
    /// An IPv6 address without brackets.
    #[error("`{0}` needs brackets: nvme://[{0}]/NQN")]
    Brackets(String),
    /// The name of the subsystem.
    #[error(transparent)]
    Subsystem(#[from] NqnError),
    /// An option that does not exist, or a value that it does not take.
    #[error("`{0}` is not an option of a remote drive: ?ns=1&transport=tcp")]
    Option(String),
}

impl RemoteName {
    /// Returns true for a text in this notation, valid or not.
    pub fn is_one(text: &str) -> bool {
        text.get(..SCHEME_NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME_NAME))
    }

    /// NQN of the subsystem.
    pub fn subsystem(&self) -> &Nqn {
        &self.subsystem
    }

    /// Namespace identifier, from 1.
    pub fn namespace(&self) -> u32 {
        self.namespace
    }

    /// The transport.
    pub fn transport(&self) -> RemoteTransport {
        self.transport
    }

    /// DNS name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Addresses of the host, at least one.
    ///
    /// # Errors
    /// The answer of the resolver.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }

    /// Finds the disk of this name among the connected drives, on a live connection if there is one.
    pub(crate) fn find(&self, system: &System) -> Option<String> {
        let addresses: Vec<IpAddr> = self.addresses().ok()?.iter().map(SocketAddr::ip).collect();
        let controllers = system.names("sys/class/nvme");
        let mut found: Vec<RemoteDrive> = controllers
            .iter()
            .filter_map(|name| RemoteDrive::read(system.root(), name))
            .filter(|drive| self.is_at(&drive.location, &addresses))
            .collect();
        // The newest is the one that this run made.
        let number = |name: &str| name.trim_start_matches("nvme").parse::<u32>().ok();
        found.sort_by_key(|drive| (!drive.is_live(), Reverse(number(&drive.name))));
        found.iter().find_map(|drive| drive.disk(self.namespace)).map(str::to_owned)
    }

    fn is_at(&self, location: &NetworkLocation, addresses: &[IpAddr]) -> bool {
        // The address of a link has its interface behind it.
        let host = location.host.as_deref().and_then(|host| host.split('%').next());
        let address = host.and_then(|host| host.parse().ok());
        let port = location.port.as_deref().and_then(|port| port.parse().ok());
        location.transport == self.transport.as_str()
            && location.subsystem.as_deref() == Some(self.subsystem.as_str())
            && address.is_some_and(|address| addresses.contains(&address))
            && port == Some(self.port)
    }
}

impl FromStr for RemoteName {
    type Err = RemoteNameError;

    fn from_str(text: &str) -> Result<Self, RemoteNameError> {
        let incomplete = || RemoteNameError::Incomplete(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(incomplete)?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, subsystem) = rest.split_once('/').ok_or_else(incomplete)?;
        let (host, port) = host_and_port(host)?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'[' | b']' | b'@');
        if host.is_empty() || subsystem.is_empty() || !host.bytes().all(is_plain) {
            return Err(incomplete());
        }
        let mut drive = Self {
            host: host.to_owned(),
            port,
            transport: RemoteTransport::Tcp,
            subsystem: Nqn::new(subsystem)?,
            namespace: 1,
        };
        let mut seen = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let key = option.split('=').next();
            if seen.contains(&key) {
                return Err(RemoteNameError::Option(option.to_owned()));
            }
            seen.push(key);
            drive.set(option).ok_or_else(|| RemoteNameError::Option(option.to_owned()))?;
        }
        Ok(drive)
    }
}

impl RemoteName {
    fn set(&mut self, option: &str) -> Option<()> {
        match option.split_once('=')? {
            ("ns", number) => self.namespace = number.parse().ok().filter(|number| *number > 0)?,
            ("transport", "tcp") => self.transport = RemoteTransport::Tcp,
            ("transport", "rdma") => self.transport = RemoteTransport::Rdma,
            _ => return None,
        }
        Some(())
    }
}

fn host_and_port(text: &str) -> Result<(&str, u16), RemoteNameError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) if !host.contains(':') => {
            return Err(RemoteNameError::Incomplete(text.to_owned()));
        }
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None if text.parse::<std::net::Ipv6Addr>().is_ok() => {
            return Err(RemoteNameError::Brackets(text.to_owned()));
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let Some(port) = port else { return Ok((host, NVME_PORT)) };
    match port.parse() {
        Ok(number) if number > 0 => Ok((host, number)),
        _ => Err(RemoteNameError::Port(port.to_owned())),
    }
}

impl fmt::Display for RemoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, subsystem, namespace, transport } = self;
        match host.contains(':') {
            true => write!(f, "{SCHEME}[{host}]:{port}/{subsystem}")?,
            false => write!(f, "{SCHEME}{host}:{port}/{subsystem}")?,
        }
        if *namespace == 1 && *transport == RemoteTransport::Tcp {
            return Ok(());
        }
        write!(f, "?ns={namespace}&transport={}", transport.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::guard::tests::DeviceTree;

    fn read(text: &str) -> RemoteName {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_read_and_printed_back() {
        for (text, printed) in [
            ("nvme://10.0.0.1/lab", "nvme://10.0.0.1:4420/lab"),
            (
                "nvme://storage:5/nqn.2014-08.org.x:uuid:1",
                "nvme://storage:5/nqn.2014-08.org.x:uuid:1",
            ),
            ("nvme://[fd00::1]/lab?ns=1", "nvme://[fd00::1]:4420/lab"),
            ("nvme://[fd00::1]:5/lab?ns=2", "nvme://[fd00::1]:5/lab?ns=2&transport=tcp"),
            ("nvme://h/lab?transport=rdma&ns=3", "nvme://h:4420/lab?ns=3&transport=rdma"),
        ] {
            assert_eq!(read(text).to_string(), printed);
            assert_eq!(read(printed), read(text));
        }
    }

    #[test]
    fn incomplete_names_are_refused() {
        for text in [
            "nvme://",
            "nvme://h",
            "nvme://h/",
            "nvme:///lab",
            "nvme://h:0/lab",
            "nvme://h:x/lab",
            "nvme://fd00::1/lab",
            "nvme://h/a,queue_size=1",
            "nvme://h/a b",
            "nvme://h/lab?ns=0",
            "nvme://h/lab?ns=",
            "nvme://h/lab?transport=fc",
            "nvme://h/lab?host=1",
            "nvme://user@h/lab",
            "nvme://[h/lab",
            "nvme:/h/lab",
            "nvme://[10.0.0.1]/lab",
            "NVME://h/lab",
            "nvme://h/lab?ns=1&ns=2",
            "/dev/nvme0n1",
        ] {
            assert!(text.parse::<RemoteName>().is_err(), "{text}");
        }
    }

    #[test]
    fn connected_drive_is_found_by_name() {
        let tree = DeviceTree::new();
        let disk = |folder: &str| {
            for (file, text) in [("nsid", "1"), ("size", "8"), ("queue/logical_block_size", "512")]
            {
                tree.write(&format!("{folder}/{file}"), text);
            }
        };
        disk("sys/devices/virtual/nvme-subsystem/nvme-subsys5/nvme5n1");
        let controller = |name: &str, port: u16, state: &str, path: &str| {
            let folder = format!("sys/class/nvme/{name}");
            tree.write(&format!("{folder}/transport"), "tcp\n");
            tree.write(&format!("{folder}/address"), &format!("traddr=10.0.0.1,trsvcid={port}\n"));
            tree.write(&format!("{folder}/subsysnqn"), "lab\n");
            tree.write(&format!("{folder}/state"), &format!("{state}\n"));
            disk(&format!("{folder}/{path}"));
        };
        controller("nvme1", 4420, "connecting", "nvme1n1");
        controller("nvme2", 4420, "live", "nvme5c2n1");
        controller("nvme3", 4421, "live", "nvme3n1");
        let find = |text: &str| read(text).find(&tree.system());
        assert_eq!(find("nvme://10.0.0.1/lab").as_deref(), Some("nvme5n1"));
        assert_eq!(find("nvme://10.0.0.1:4421/lab").as_deref(), Some("nvme3n1"));
        for absent in [
            "nvme://10.0.0.2/lab",
            "nvme://10.0.0.1/other",
            "nvme://10.0.0.1/lab?ns=2",
            "nvme://10.0.0.1/lab?transport=rdma",
        ] {
            assert_eq!(find(absent), None, "{absent}");
        }
    }
}
