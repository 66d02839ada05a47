//! The driver of a function, as a tree shows it.
//!
//! Sysfs says it by a link. On the running machine a missing link means that no driver is bound. Trees of
//! other tools may lack every link, so there the absence counts only where something else confirms it: the
//! function's `uevent`, or links of other functions in the same tree.

use std::path::Path;

use super::nvme::NvmeName;
use super::tree::Tree;
use crate::DriverBinding;

/// Folders that are below a function only while a driver is bound to it.
const MADE_BY_DRIVERS: [&str; 7] =
    ["drm", "infiniband", "msi_irqs", "net", "nvme", "uio", "vfio-dev"];

/// Reads the driver of the function at `at` in a captured tree; `None` where nothing says whether one is bound.
pub(super) fn captured(tree: &Tree, at: &Path) -> Option<DriverBinding> {
    if let Some(bound) = bound(tree, at) {
        return Some(bound);
    }
    // A tool that follows links makes folders of them.
    let link = at.join("driver");
    let is_folder = tree.is_directory(&link);
    if is_folder {
        tree.watch_folder(&link);
    }
    if is_folder || is_at_work(tree, at) {
        return Some(DriverBinding::Unknown);
    }
    event(tree, at).contains('=').then_some(DriverBinding::Unbound)
}

/// Reads the driver of the function at `at` of the running machine.
pub(super) fn live(tree: &Tree, at: &Path) -> DriverBinding {
    bound(tree, at).unwrap_or(DriverBinding::Unbound)
}

/// The driver that link or event names.
fn bound(tree: &Tree, at: &Path) -> Option<DriverBinding> {
    let name = tree.link_name(&at.join("driver")).or_else(|| {
        let event = event(tree, at);
        let name = event.lines().find_map(|line| line.strip_prefix("DRIVER="))?;
        Some(name.trim().to_owned())
    });
    name.map(DriverBinding::Bound)
}

/// The variables that the kernel sends with a function's events (`dev_uevent()` in drivers/base/core.c).
fn event(tree: &Tree, at: &Path) -> String {
    tree.text(&at.join("uevent")).unwrap_or_default()
}

/// Returns whether a function has something that only a driver makes.
fn is_at_work(tree: &Tree, at: &Path) -> bool {
    let is_made = |name: &&str| {
        let below = at.join(name);
        match *name {
            // Older kernels keep the folder of controllers empty.
            "nvme" => tree
                .directories(&below)
                .iter()
                .any(|name| NvmeName::parse(name) == Some(NvmeName::Controller)),
            _ => tree.is_directory(&below),
        }
    };
    let Some(found) = MADE_BY_DRIVERS.into_iter().find(is_made) else { return false };
    let found = at.join(found);
    tree.watch_folder(&found);
    // Captures keep some of these by their content alone.
    for name in tree.directories(&found) {
        tree.watch_folder(&found.join(name));
    }
    true
}
