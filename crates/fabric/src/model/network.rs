//! Drives of other machines: plain data, no files, no decisions.

use super::Namespace;

/// A controller of NVMe over Fabrics: a drive that another machine serves. It is not a PCI function.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteDrive {
    /// Kernel name, `nvme5`.
    pub name: String,
    /// Its location in the network.
    pub location: NetworkLocation,
    /// State of the connection, `live` when all is well.
    pub state: Option<String>,
    /// Its namespaces as block devices.
    pub namespaces: Vec<Namespace>,
}

/// Location of a controller of NVMe over Fabrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkLocation {
    /// `tcp`, `rdma`, `fc` or `loop`.
    pub transport: String,
    /// Address of the other machine (`traddr`); `None` for `loop`.
    pub host: Option<String>,
    /// Port at that address (`trsvcid`).
    pub port: Option<String>,
    /// NQN of the subsystem; `None` if the kernel does not say.
    pub subsystem: Option<String>,
    /// Interface that the connection was told to use (`host_iface`); `None` if the route chose one.
    pub interface: Option<String>,
}

impl NetworkLocation {
    /// Returns address and port, as in `10.0.0.1:4420`.
    pub fn address(&self) -> Option<String> {
        self.host.as_deref().map(|host| host_and_port(host, self.port.as_deref()))
    }
}

/// Joins an address and a port; one of IPv6 gets brackets (RFC 3986, section 3.2.2).
pub fn host_and_port(host: &str, port: Option<&str>) -> String {
    match port {
        None => host.to_owned(),
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ipv6_with_port_gets_brackets() {
        assert_eq!(host_and_port("10.0.0.1", Some("4420")), "10.0.0.1:4420");
        assert_eq!(host_and_port("fd00::1", Some("4420")), "[fd00::1]:4420");
        assert_eq!(host_and_port("fd00::1", None), "fd00::1");
    }
}
