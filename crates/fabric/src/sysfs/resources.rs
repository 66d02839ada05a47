//! What else a function has: the names that other subsystems give it, and the state of a card.

use std::path::Path;

use super::tree::Tree;
use crate::Kind;

/// Interfaces of a NIC, and what a GPU has in `/dev/dri`.
pub(super) fn kernel_names(tree: &Tree, at: &Path, kind: Kind) -> Vec<String> {
    let folders: &[&str] = match kind {
        Kind::Nic => &["net", "infiniband"],
        Kind::Gpu => &["drm"],
        _ => return Vec::new(),
    };
    let mut names = Vec::new();
    for folder in folders {
        let found = tree.directories(&at.join(folder));
        for name in &found {
            tree.watch_folder(&at.join(folder).join(name));
        }
        // Connectors (`card0-DP-1`) are entries beside the cards.
        names.extend(found.into_iter().filter(|name| !name.contains('-')));
    }
    names
}

/// Whether the `xocl` driver lends the card's memory to peers; its device is below the function.
pub(super) fn fpga_p2p(tree: &Tree, at: &Path) -> Option<bool> {
    let is_device = |name: &String| name.starts_with("p2p.");
    let device = tree.directories(at).into_iter().find(is_device)?;
    tree.flag(&at.join(device).join("p2p_enable"))
}
