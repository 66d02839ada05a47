//! RDMA devices in words, as `rdma link` and `ibv_devinfo` name their parts.

use std::net::IpAddr;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, RdmaDevice, RdmaGid, RdmaPort};

use crate::drivers::carries_nvme;

/// A port of an RDMA device, or a network controller without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaLine<'a> {
    /// The line.
    pub text: String,
    /// Addresses of the port.
    pub gids: &'a [RdmaGid],
}

impl RdmaLine<'_> {
    /// The line with the first address that reaches beyond its link.
    pub fn with_address(&self) -> String {
        let gid = self.gids.iter().find(|gid| !gid.is_of_link()).or(self.gids.first());
        gid.map_or_else(|| self.text.clone(), |gid| format!("{}, {gid}", self.text))
    }
}

/// The ports of all RDMA devices, then controllers that lack a device.
pub fn rdma_lines(fabric: &Fabric) -> Vec<RdmaLine<'_>> {
    let mut lines: Vec<RdmaLine<'_>> = fabric
        .rdma_ports()
        .map(|(device, port)| RdmaLine { text: port_line(fabric, device, port), gids: &port.gids })
        .collect();
    let nics = fabric.iter().filter(|(_, one)| one.kind == FunctionKind::Nic).map(|(id, _)| id);
    let lacking = nics.filter_map(|nic| without_device(fabric, nic));
    lines.extend(lacking.map(|text| RdmaLine { text, gids: &[] }));
    lines
}

/// Returns the line of the port with an address if no host can connect through it.
pub fn unusable_port(fabric: &Fabric, address: IpAddr) -> Option<String> {
    let (device, port) = fabric.rdma_port_at(address)?;
    let is_unusable = port.is_down() || port.netdev_is_here == Some(false);
    is_unusable.then(|| port_line(fabric, device, port))
}

fn port_line(fabric: &Fabric, device: &RdmaDevice, port: &RdmaPort) -> String {
    let place = match device.function {
        Some(id) => fabric.function(id).address_or_name(),
        None => "software, no DMA".to_owned(),
    };
    let mut parts = vec![format!("{} ({place}) port {}", device.name, port.number)];
    for (word, value) in [
        ("state ", &port.state),
        ("physical state ", &port.physical_state),
        ("", &port.link_layer),
        ("netdev ", &port.netdev),
    ] {
        parts.extend(value.as_ref().map(|value| format!("{word}{value}")));
    }
    let mut text = parts.join(", ");
    let netdev = port.netdev.as_deref().unwrap_or("NETDEV");
    if port.netdev_is_here == Some(false) {
        text += " in another network namespace: connections need that one (`ip netns`)";
    } else if port.is_down() {
        text += &format!(": no connection goes through it (`ip link set {netdev} up`)");
    }
    text
}

/// A controller without an RDMA device, on a machine that has some, or whose driver would have one.
fn without_device(fabric: &Fabric, nic: FunctionId) -> Option<String> {
    let function = fabric.function(nic);
    let netdev = function.kernel_names.first()?;
    if !fabric.is_this_machine() || fabric.rdma_devices_of(nic).next().is_some() {
        return None;
    }
    let start = format!("{netdev} ({}) has no RDMA device", function.address_or_name());
    if let Some(driver) = function.driver.name().filter(|driver| carries_nvme(driver)) {
        return Some(format!(
            "{start}: the RDMA module of {driver} is not loaded, or the device is in another network \
             namespace (`rdma system`)"
        ));
    }
    let count = fabric.rdma_devices.len();
    let command = format!("`rdma link add rxe{count} type rxe netdev {netdev}`");
    (count > 0).then(|| format!("{start}: {command} makes one in software"))
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::Origin;

    use super::*;

    fn machine(function: Option<FunctionId>, port: RdmaPort) -> Fabric {
        let device = RdmaDevice { name: "rxe0".to_owned(), function, ports: vec![port] };
        let nics = "a nic @0000:41:00.0 driver = 'virtio-pci'; kernel_names = ['eth0']\n\
                    b nic @0000:42:00.0 driver = 'mlx5_core'; kernel_names = ['eth1']";
        let fabric = peerlane_testing::machine(nics);
        Fabric { rdma_devices: vec![device], origin: Origin::ThisMachine, ..fabric }
    }

    fn port() -> RdmaPort {
        let gid = |index, address: &str| RdmaGid {
            index,
            address: address.to_owned(),
            kind: Some("RoCE v2".to_owned()),
        };
        let word = |text: &str| Some(text.to_owned());
        RdmaPort {
            number: 1,
            state: word("ACTIVE"),
            physical_state: word("LinkUp"),
            link_layer: word("Ethernet"),
            netdev: word("eth0"),
            netdev_is_here: Some(true),
            gids: vec![gid(0, "fe80::5054:ff:fe00:1"), gid(1, "::ffff:10.0.0.1")],
        }
    }

    #[test]
    fn port_has_state_netdev_and_address() {
        let fabric = machine(None, port());
        let lines = rdma_lines(&fabric);
        assert_eq!(
            lines[0].with_address(),
            "rxe0 (software, no DMA) port 1, state ACTIVE, physical state LinkUp, \
             Ethernet, netdev eth0, GID[1] ::ffff:10.0.0.1, RoCE v2"
        );
        let fabric = machine(Some(FunctionId(0)), port());
        let hardware = rdma_lines(&fabric);
        assert!(hardware[0].text.starts_with("rxe0 (0000:41:00.0) port 1,"), "{hardware:?}");
    }

    #[test]
    fn unusable_port_has_a_reason() {
        let said = |port| rdma_lines(&machine(None, port))[0].text.clone();
        let down = said(RdmaPort { state: Some("DOWN".to_owned()), ..port() });
        assert!(down.ends_with("no connection goes through it (`ip link set eth0 up`)"), "{down}");
        let moved = said(RdmaPort { netdev_is_here: Some(false), ..port() });
        assert!(moved.contains("netdev eth0 in another network namespace"), "{moved}");
        let at = "10.0.0.1".parse().unwrap();
        let down = RdmaPort { state: Some("DOWN".to_owned()), ..port() };
        let found = unusable_port(&machine(None, down), at).unwrap();
        assert!(found.starts_with("rxe0 (software, no DMA) port 1, state DOWN"), "{found}");
        assert_eq!(unusable_port(&machine(None, port()), at), None);
    }

    #[test]
    fn controller_without_device_is_named() {
        let fabric = machine(None, port());
        let lines = rdma_lines(&fabric);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let start = "eth1 (0000:42:00.0) has no RDMA device: the RDMA module of mlx5_core";
        assert!(lines[1].text.starts_with(start), "{lines:?}");
        let elsewhere = RdmaPort { netdev: Some("eth9".to_owned()), ..port() };
        let fabric = machine(None, elsewhere);
        let lines = rdma_lines(&fabric);
        assert!(
            lines[1]
                .text
                .ends_with("`rdma link add rxe1 type rxe netdev eth0` makes one in software"),
            "{lines:?}"
        );
        let bare = Fabric { rdma_devices: Vec::new(), ..machine(None, port()) };
        let lines = rdma_lines(&bare);
        assert_eq!((lines.len(), lines[0].text.starts_with("eth1")), (1, true), "{lines:?}");
        assert_eq!(rdma_lines(&Fabric { origin: Origin::Description, ..bare }), Vec::new());
    }
}
