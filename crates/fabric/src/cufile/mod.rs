//! `/etc/cufile.json`: JSON with comments. Only keys that bear on the route are kept.
//!
//! NVIDIA installs the file with comments of both kinds. A fault in it is a value, never an error.

mod json;
mod write;

use crate::{CufileConfiguration, CufileValue, Fabric};

pub use write::text;

/// The part of a key's value that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptValue {
    /// All of it.
    Whole,
    /// The number of entries of a list, which are addresses or identifiers.
    Length,
}

/// Keys that force, forbid or allow a route, by dotted names.
///
/// Spelling after the published libraries 1.11 to 1.20 (`strings libcufile.so.0`), which have all
/// except `use_compat_mode`, as gdscheck prints it, and the lists called `blacklist` in files of
/// older releases.
#[rustfmt::skip]
pub const KEYS: &[(&str, KeptValue)] = {
    use KeptValue::{Length, Whole};
    &[
    ("blacklist.devices", Length),
    ("blacklist.drivers", Length),
    ("blacklist.filesystems", Length),
    ("blacklist.mounts", Length),
    ("block.nvme.use_pci_p2pdma", Whole),
    ("block.nvmeof.use_pci_p2pdma", Whole),
    ("block.raid.use_pci_p2pdma", Whole),
    ("block.raid1.use_pci_p2pdma", Whole),
    ("block.raid10.use_pci_p2pdma", Whole),
    ("denylist.devices", Whole),
    ("denylist.drivers", Whole),
    ("denylist.filesystems", Whole),
    ("denylist.fsids", Length),
    ("denylist.mounts", Whole),
    ("execution.parallel_io", Whole),
    ("fs.beegfs.posix_gds_min_kb", Whole),
    ("fs.beegfs.use_pci_p2pdma", Whole),
    ("fs.generic.posix_unaligned_writes", Whole),
    ("fs.gpfs.gds_async_support", Whole),
    ("fs.gpfs.gds_write_support", Whole),
    ("fs.gpfs.use_pci_p2pdma", Whole),
    ("fs.lustre.posix_gds_min_kb", Whole),
    ("fs.lustre.use_pci_p2pdma", Whole),
    ("fs.nfs.use_pci_p2pdma", Whole),
    ("fs.panfs.use_pci_p2pdma", Whole),
    ("fs.scatefs.posix_gds_min_kb", Whole),
    ("fs.scatefs.use_pci_p2pdma", Whole),
    ("fs.virtiofs.use_pci_p2pdma", Whole),
    ("fs.weka.rdma_write_support", Whole),
    ("miscellaneous.enable_static_routing", Whole),
    ("properties.allow_compat_mode", Whole),
    ("properties.force_compat_mode", Whole),
    ("properties.gds_fallback_io", Whole),
    ("properties.gds_rdma_write_support", Whole),
    ("properties.posix_io_mode", Whole),
    ("properties.rdma_dev_addr_list", Length),
    ("properties.rdma_dynamic_routing", Whole),
    ("properties.rdma_dynamic_routing_order", Whole),
    ("properties.rdma_peer_type", Whole),
    ("properties.use_compat_mode", Whole),
    ("properties.use_pci_p2pdma", Whole),
    ("properties.vanilla_posix_io_mode", Whole),
    ("sparse.p2p_compat_enable", Whole),
    ]
};

/// Reads the text of the file.
pub fn read(text: &str) -> CufileConfiguration {
    match json::read(text) {
        Ok(found) => CufileConfiguration {
            settings: found.settings,
            problem: found.trailing_comma.map(|line| {
                format!(
                    "line {line}: a comma before the closing bracket, which cuFile's reader refuses"
                )
            }),
        },
        Err(fault) => CufileConfiguration {
            problem: Some(fault.to_string()),
            ..CufileConfiguration::default()
        },
    }
}

/// Most entries of a list that are counted.
const MOST_ENTRIES: i64 = 4096;

/// The kept part of a key's value; `None` for keys that do not bear on the route.
fn kept(key: &str) -> Option<KeptValue> {
    KEYS.iter().find(|(name, _)| *name == key).map(|(_, kept)| *kept)
}

/// Returns whether keys of the list lie below an object of this name.
fn has_keys(object: &str) -> bool {
    KEYS.iter().any(|(name, _)| name.strip_prefix(object).is_some_and(|rest| rest.starts_with('.')))
}

/// Start of the name of the library's file, before its version.
const LIBRARY: &str = "libcufile.so.";

/// Major and minor version in the name of the library's file, `libcufile.so.1.16.0`; `None` for other names,
/// `libcufile.so.0` among them.
pub(crate) fn version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix(LIBRARY)?.split('.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.all(|number| number.parse::<u32>().is_ok()).then_some((major, minor))
}

impl Fabric {
    /// Major and minor version of the installed cuFile, by the file that `libcufile.so.0` points to; `None`
    /// where it points to none.
    pub fn cufile_version(&self) -> Option<(u32, u32)> {
        let names = self.libraries.iter().flatten();
        names.filter_map(|name| version(name)).next()
    }
}

#[cfg(test)]
mod tests;
