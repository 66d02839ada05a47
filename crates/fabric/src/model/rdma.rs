//! RDMA devices: plain data, no files, no decisions.

use super::{Fabric, FunctionId};

/// An RDMA device, as `ibv_devinfo` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Kernel name: `mlx5_0`, `rxe0`.
    pub name: String,
    /// Its PCI function; `None` for a software device (`rdma_rxe`, `siw`), which does no DMA.
    pub function: Option<FunctionId>,
    /// Its ports, in order of number.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device, in the words of `/sys/class/infiniband`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RdmaPort {
    /// Number, from 1.
    pub number: u32,
    /// Logical state: `ACTIVE`, `DOWN`.
    pub state: Option<String>,
    /// Physical state: `LinkUp`, `Disabled`.
    pub physical_state: Option<String>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// Network interface of its addresses.
    pub netdev: Option<String>,
    /// False if that interface is in another network namespace; `None` where that cannot be seen.
    pub netdev_is_here: Option<bool>,
    /// Its GIDs, without empty entries of the table.
    pub gids: Vec<RdmaGid>,
}

/// An entry of a port's GID table: an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaGid {
    /// Position in the table.
    pub index: u32,
    /// The address as IPv6 writes it, `::ffff:10.0.0.1`; replaced in a capture.
    pub address: String,
    /// `RoCE v2`, `IB/RoCE v1`.
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
}

impl RdmaPort {
    /// State of a port that carries traffic.
    pub const ACTIVE: &'static str = "ACTIVE";

    /// Returns whether the port is known to carry no traffic.
    pub fn is_down(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state != Self::ACTIVE)
    }
}
