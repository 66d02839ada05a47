//! RDMA devices: plain data, no files, no decisions.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fabric, FunctionId};

/// An RDMA device, as `ibv_devinfo` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Kernel name: `mlx5_0`, `rxe0`.
    pub name: String,
    /// Its PCI function; `None` for a software device (`rdma_rxe`, `siw`), which does no DMA: the kernel
    /// gives it no P2P memory (`pci_p2pdma_distance_many`, Linux 7.2 `drivers/pci/p2pdma.c`).
    pub function: Option<FunctionId>,
    /// Its ports, in order of number.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device, in the words of `/sys/class/infiniband`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Number, from 1.
    #[serde(rename = "port")]
    pub number: u32,
    /// Logical state: `ACTIVE`, `DOWN`.
    pub state: Option<String>,
    /// Physical state: `LinkUp`, `Disabled`.
    pub physical_state: Option<String>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// Network interface of its addresses.
    pub netdev: Option<String>,
    /// False if that interface is in another network namespace; null where that is unknown.
    pub netdev_is_here: Option<bool>,
    /// Its GIDs, without empty entries of the table.
    pub gids: Vec<RdmaGid>,
}

/// An entry of a port's GID table: an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaGid {
    /// Position in the table.
    pub index: u32,
    /// The address as IPv6 writes it, `::ffff:10.0.0.1`; replaced in a capture.
    #[serde(rename = "gid")]
    pub address: String,
    /// `RoCE v2`, `IB/RoCE v1`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl Fabric {
    /// RDMA devices on a network controller: its own, and those in software on its interfaces.
    pub fn rdma_devices_of(&self, nic: FunctionId) -> impl Iterator<Item = &RdmaDevice> {
        let names = &self.function(nic).kernel_names;
        let is_on_it =
            |port: &RdmaPort| port.netdev.as_ref().is_some_and(|one| names.contains(one));
        self.rdma_devices.iter().filter(move |device| match device.function {
            Some(function) => function == nic,
            None => device.ports.iter().any(is_on_it),
        })
    }

    /// The RDMA device, and its port, with an IP address: RoCE and iWARP devices list each of theirs as a GID (Linux
    /// 7.2 `drivers/infiniband/core/roce_gid_mgmt.c`).
    pub fn rdma_port_at(&self, address: IpAddr) -> Option<(&RdmaDevice, &RdmaPort)> {
        let wanted = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let is_it = |gid: &RdmaGid| gid.address.parse() == Ok(wanted);
        self.rdma_ports().find(|(_, port)| port.gids.iter().any(is_it))
    }

    /// The ports of all RDMA devices.
    pub fn rdma_ports(&self) -> impl Iterator<Item = (&RdmaDevice, &RdmaPort)> {
        let devices = self.rdma_devices.iter();
        devices.flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }
}

impl RdmaGid {
    /// Returns whether the address reaches no further than its link.
    pub fn is_of_link(&self) -> bool {
        self.address.parse().is_ok_and(|address: Ipv6Addr| address.is_unicast_link_local())
    }
}

/// As `ibv_devinfo -v` numbers it: `GID[1] ::ffff:10.0.0.1, RoCE v2`.
impl fmt::Display for RdmaGid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GID[{}] {}", self.index, self.address)?;
        self.kind.as_ref().map_or(Ok(()), |kind| write!(f, ", {kind}"))
    }
}

impl RdmaPort {
    /// State of a port that carries traffic.
    pub const ACTIVE: &'static str = "ACTIVE";

    /// Returns whether the port is known to carry no traffic.
    pub fn is_down(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state != Self::ACTIVE)
    }
}
