//! Exports of the kernel's NVMe target (`nvmet`): as configfs below a given root lists them, and new ones.
//!
//! The NVMe target opens a device without an exclusive claim (`nvmet_bdev_ns_enable`). Its exports
//! are therefore invisible to `O_EXCL`, to `holders` and to the mount table. Configfs is the only
//! place that lists them.
//!
//! Left out on purpose:
//!
//! - LIO, the SCSI target. Its `iblock` opens a device exclusively, so the kernel itself refuses a
//!   second exclusive open.
//! - The hosts that may connect to exports of others, and keys. The `hosts` folder is never read.
//!
//! An empty list means that nothing is exported; [`NvmeTarget::Unknown`] means that it is
//! unknown. A caller that guards data must not confuse the two.
#![forbid(unsafe_code)]

mod error;
mod exports;
mod identity;
mod location;
mod number;
mod reader;
mod root;
mod serve;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use error::{ReadError, UnknownReason};
pub use exports::{Export, ExportKind, ExportPort, ExportedNamespace, Exports};
pub use identity::{IdentifyError, StorageIdentity, identify};
pub use serve::{
    AllowedHosts, ExportRequest, Listen, NSID, NotedExport, Nqn, NqnError, PayloadMemory,
    ServeError, ServedExport, has_rdma, noted, remove, serve, sweep,
};

use location::Location;
use root::NvmetRoot;

/// The NVMe target of a machine.
#[derive(Debug)]
pub enum NvmeTarget {
    /// The kernel has no NVMe target: nothing is exported.
    Absent,
    /// The exports are unknown.
    Unknown(UnknownReason),
    /// The configuration was read, perhaps with gaps: [`Exports::gaps`].
    Configured(Exports),
}

/// Reads the NVMe target of the machine whose `sys/` and `proc/` lie below `root`.
///
/// Never panics and follows no symbolic links. An unreadable part becomes a value with its reason.
pub fn read(root: &Path) -> NvmeTarget {
    let root = NvmetRoot::new(root);
    let unknown = |error| NvmeTarget::Unknown(UnknownReason::Unreadable(error));
    match location::locate(&root) {
        Ok(Location::Folder(folder)) => {
            reader::read(&root, &folder).map_or_else(unknown, NvmeTarget::Configured)
        }
        Ok(Location::Absent) => NvmeTarget::Absent,
        Ok(Location::Unknown(reason)) => NvmeTarget::Unknown(reason),
        Err(error) => unknown(error),
    }
}
