//! RDMA devices, in the folder `infiniband` of their PCI function or of `sys/devices/virtual`.

use std::net::Ipv6Addr;
use std::path::Path;

use super::tree::Tree;
use crate::{FunctionId, RdmaDevice, RdmaGid, RdmaPort};

/// Folder of devices without a parent: software RDMA (`rdma_rxe`, `siw`).
pub(super) const SOFTWARE: &str = "sys/devices/virtual/infiniband";
/// Start of the word for an address in a capture.
pub(crate) const REPLACED_ADDRESS: &str = "address-";

/// The devices in a folder that show ports, in order of name.
pub(super) fn devices(tree: &Tree, at: &Path, function: Option<FunctionId>) -> Vec<RdmaDevice> {
    let device = |name: String| {
        let ports = at.join(&name).join("ports");
        let mut numbers = numbers(tree.directories(&ports));
        numbers.sort_unstable();
        let parent = tree.word(&at.join(&name).join("parent"));
        let read = |number| port(tree, &ports.join(u32::to_string(&number)), number, &parent);
        RdmaDevice { name, function, ports: numbers.into_iter().map(read).collect() }
    };
    let devices = tree.directories(at).into_iter().map(device);
    devices.filter(|device| !device.ports.is_empty()).collect()
}

fn numbers(names: Vec<String>) -> Vec<u32> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn port(tree: &Tree, at: &Path, number: u32, parent: &Option<String>) -> RdmaPort {
    // `4: ACTIVE` (`state_show`, Linux 7.2 `drivers/infiniband/core/sysfs.c`).
    let state = |name: &str| {
        let text = tree.word(&at.join(name))?;
        Some(text.split_once(": ").map_or(text.as_str(), |(_, word)| word).to_owned())
    };
    let gids = gids(tree, at);
    let first = gids.first().map(|gid| at.join(format!("gid_attrs/ndevs/{}", gid.index)));
    let netdev = first.and_then(|path| tree.word(&path)).or_else(|| parent.clone());
    let here = tree.names(Path::new("sys/class/net")).unwrap_or_default();
    let is_here = |name: &String| (!here.is_empty()).then(|| here.contains(name));
    RdmaPort {
        number,
        state: state("state"),
        physical_state: state("phys_state"),
        link_layer: tree.word(&at.join("link_layer")),
        netdev_is_here: netdev.as_ref().and_then(is_here),
        netdev,
        gids,
    }
}

fn gids(tree: &Tree, at: &Path) -> Vec<RdmaGid> {
    let folder = at.join("gids");
    let mut indices = numbers(tree.names(&folder).unwrap_or_default());
    indices.sort_unstable();
    let gid = |index: u32| {
        let address = address(&tree.word(&folder.join(index.to_string()))?)?;
        let kind = tree.word(&at.join(format!("gid_attrs/types/{index}")));
        Some(RdmaGid { index, address, kind })
    };
    indices.into_iter().filter_map(gid).collect()
}

/// An address as IPv6 writes it; `None` for an empty entry.
fn address(text: &str) -> Option<String> {
    match text.parse::<Ipv6Addr>() {
        Ok(address) => (!address.is_unspecified()).then(|| address.to_string()),
        Err(_) => text.starts_with(REPLACED_ADDRESS).then(|| text.to_owned()),
    }
}

/// Returns whether a text of a GID table is an address.
pub(crate) fn is_address(text: &str) -> bool {
    address(text).is_some()
}
