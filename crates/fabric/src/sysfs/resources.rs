//! Further facts of a function: names that other subsystems give it, and the state of a card.

use std::path::{Path, PathBuf};

use super::tree::Tree;
use crate::{Bdf, FunctionKind};

/// Interfaces of a NIC, and nodes of a GPU in `/dev/dri`.
pub(super) fn kernel_names(tree: &Tree, at: &Path, kind: FunctionKind) -> Vec<String> {
    let folders: &[&str] = match kind {
        FunctionKind::Nic => &["net", "infiniband"],
        FunctionKind::Gpu => &["drm"],
        _ => return Vec::new(),
    };
    // The interface of a virtio device is below that, which is below the function.
    let is_virtio = |name: &String| name.starts_with("virtio") && kind == FunctionKind::Nic;
    let virtio = tree.directories(at).into_iter().filter(is_virtio);
    let folders = folders.iter().map(PathBuf::from);
    let mut names = Vec::new();
    for folder in folders.chain(virtio.map(|name| Path::new(&name).join("net"))) {
        let found = tree.directories(&at.join(&folder));
        for name in &found {
            tree.watch_folder(&at.join(&folder).join(name));
        }
        // Connectors (`card0-DP-1`) are entries beside the cards.
        names.extend(found.into_iter().filter(|name| !name.contains('-')));
    }
    names
}

/// Returns whether the `xocl` driver lends the card's memory to peers; its device is below the
/// function.
pub(super) fn fpga_p2p(tree: &Tree, at: &Path) -> Option<bool> {
    let is_device = |name: &String| name.starts_with("p2p.");
    let device = tree.directories(at).into_iter().find(is_device)?;
    tree.flag(&at.join(device).join("p2p_enable"))
}

/// Number of GPU instances (MIG) of an NVIDIA GPU, as the driver lists them; `None` where it lists
/// none of any GPU (`osRmCapRegisterGpu` and `osRmCapRegisterSmcPartition` of its open modules,
/// 595.45).
pub(super) fn mig_instances(tree: &Tree, address: Bdf) -> Option<u32> {
    let about = format!("proc/driver/nvidia/gpus/{address}/information");
    let text = tree.text(Path::new(&about)).ok()?;
    let minor: u32 = text.lines().find_map(minor_number)?;
    let folder = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig");
    let folder = Path::new(&folder);
    if !tree.is_directory(folder) {
        return None;
    }
    tree.watch_folder(folder);
    let is_instance = |name: &String| {
        let number = name.strip_prefix("gi").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    let instances: Vec<String> = tree.directories(folder).into_iter().filter(is_instance).collect();
    for name in &instances {
        tree.watch_folder(&folder.join(name));
    }
    u32::try_from(instances.len()).ok()
}

/// The minor number of a GPU's device node, in a line of `information`.
pub(crate) fn minor_number(line: &str) -> Option<u32> {
    line.strip_prefix("Device Minor:")?.trim().parse().ok()
}
