//! What else a function has: memory windows, and the names that other subsystems give it.

use std::path::Path;

use peerlane_units::Bytes;

use super::tree::Tree;
use crate::{Bar, Kind};

/// Base address registers of an endpoint; what follows are ROM, SR-IOV and bridge windows.
const BARS: usize = 6;
/// Flags of `include/linux/ioport.h`.
const IORESOURCE_MEM: u64 = 0x200;
const IORESOURCE_PREFETCH: u64 = 0x2000;

/// The memory windows of an endpoint, in order; what a bridge has moves no payload.
pub(super) fn bars(tree: &Tree, at: &Path, kind: Kind) -> Vec<Bar> {
    if matches!(
        kind,
        Kind::RootPort | Kind::UpstreamPort | Kind::DownstreamPort | Kind::OtherBridge
    ) {
        return Vec::new();
    }
    let text = tree.text(&at.join("resource")).unwrap_or_default();
    let mut bars = Vec::new();
    for (line, index) in text.lines().take(BARS).zip(0u8..) {
        let Some((size, flags)) = window(line) else { continue };
        if flags & IORESOURCE_MEM != 0 {
            bars.push(Bar {
                index,
                size,
                is_prefetchable: flags & IORESOURCE_PREFETCH != 0,
                largest: largest(tree, &at.join(format!("resource{index}_resize"))),
            });
        }
    }
    bars
}

/// Size and flags of a line `start end flags`; `None` for a window that is not there.
fn window(line: &str) -> Option<(Bytes, u64)> {
    let mut numbers =
        line.split_whitespace().map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if flags == 0 || end == 0 {
        return None;
    }
    Some((Bytes(end.checked_sub(start)?.checked_add(1)?), flags))
}

/// The largest of the sizes that a window can be given: bit n stands for 2^n MiB.
fn largest(tree: &Tree, file: &Path) -> Option<Bytes> {
    let sizes = u64::from_str_radix(&tree.word(file)?, 16).ok()?;
    1u64.checked_shl(sizes.checked_ilog2()?.checked_add(20)?).map(Bytes)
}

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
