//! Exports as values, and the one behind a local NVMe disk.

use std::fmt;
use std::path::PathBuf;

use peerlane_fabric::host_and_port;

use crate::error::ReadError;
use crate::identity::{IdentifyError, StorageIdentity, identify};

/// Everything that the NVMe target of a machine exports or is prepared to export.
#[derive(Debug, Default)]
pub struct Exports {
    /// The exports by subsystem and namespace.
    pub all: Vec<Export>,
    /// The parts that could not be read. With any, there may be exports that are not listed.
    pub gaps: Vec<ReadError>,
}

/// A namespace, or a whole controller, in a subsystem of the NVMe target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// NQN of the subsystem; bytes that are not UTF-8 are replaced.
    pub subsystem: String,
    /// The kind of export, with its own attributes.
    pub kind: ExportKind,
    /// Device or file as configfs names it: perhaps a link, perhaps relative, perhaps gone since.
    /// `None` when no path was set, or it could not be read.
    pub device_path: Option<PathBuf>,
    /// True when the export is enabled; `None` when that could not be read.
    pub is_enabled: Option<bool>,
    /// Ports of the subsystem. Without one, no host can connect, unless a port is among the gaps.
    pub ports: Vec<ExportPort>,
    /// True when the path is one of this machine.
    pub(crate) is_on_this_machine: bool,
}

/// The kind of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportKind {
    /// One block device or file as one namespace.
    Namespace(ExportedNamespace),
    /// All namespaces of an NVMe controller (`/dev/nvme0`), by its own commands.
    Passthru,
}

/// Attributes of an exported namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedNamespace {
    /// Namespace identifier, unique in the subsystem.
    pub nsid: u32,
    /// UUID that hosts see; the kernel draws one unless it is set.
    pub uuid: Option<String>,
    /// NGUID that hosts see, in the form of a UUID; `None` unless it is set.
    pub nguid: Option<String>,
    /// True when hosts may reserve the namespace (`resv_enable`); `false` before Linux 6.13.
    pub has_reservations: bool,
}

/// A port of the NVMe target. Attributes that were not set or could not be read are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPort {
    /// Number of the port, from the name of its folder.
    pub number: u16,
    /// Transport: `tcp`, `rdma`, `fc`, `loop` or `pci`.
    pub transport: String,
    /// Transport address, such as an IP address.
    pub address: String,
    /// Transport service, such as a TCP port.
    pub service: String,
}

impl Exports {
    /// Returns the export that a local NVMe disk shows, if it shows one of this machine.
    ///
    /// `nqn`, `nsid` and `wwid` are those of the disk in sysfs: `device/subsysnqn`, `nsid`, `wwid`.
    /// A disk with another UUID than the namespace is that of another machine with the same NQN.
    /// A passthru export shows every namespace of its controller, with identifiers of the drive or
    /// none, so the NQN alone decides.
    pub fn shown_by(&self, nqn: &str, nsid: u32, wwid: Option<&str>) -> Option<&Export> {
        let mut shown = self
            .all
            .iter()
            .filter(|export| export.subsystem == nqn && export.kind.can_show(nsid, wwid));
        // Folders `1` and `01` both name namespace 1. Older kernels let both be, and enable one.
        shown.clone().find(|export| export.is_enabled == Some(true)).or_else(|| shown.next())
    }
}

impl Export {
    /// Returns whether hosts may be served now: the export is not known to be disabled.
    pub fn can_serve(&self) -> bool {
        self.is_enabled != Some(false)
    }

    /// Identifies the device or file behind the export, following links.
    ///
    /// The kernel resolved the path when the export was enabled. A path that leads elsewhere since,
    /// or in the mount namespace of the caller, is not detected.
    ///
    /// # Errors
    /// When there is no absolute path of this machine, or it leads to no device or regular file.
    pub fn identify(&self) -> Result<StorageIdentity, IdentifyError> {
        let path = self.device_path.as_deref().ok_or(IdentifyError::NoPath)?;
        if !self.is_on_this_machine {
            return Err(IdentifyError::OtherMachine { path: path.to_owned() });
        }
        identify(path)
    }
}

impl ExportKind {
    fn can_show(&self, nsid: u32, wwid: Option<&str>) -> bool {
        let Self::Namespace(namespace) = self else { return true };
        // The kernel prefers the UUID (`wwid_show`, drivers/nvme/host/sysfs.c).
        let uuid = wwid.and_then(|wwid| wwid.strip_prefix("uuid."));
        let is_other = match (uuid, namespace.uuid.as_deref()) {
            (Some(disk), Some(export)) => !disk.eq_ignore_ascii_case(export),
            _ => false,
        };
        namespace.nsid == nsid && !is_other
    }
}

impl fmt::Display for ExportPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, address, service, .. } = self;
        f.write_str(if transport.is_empty() { "unknown transport" } else { transport })?;
        match (address.is_empty(), service.is_empty()) {
            (true, true) => Ok(()),
            (_, true) => write!(f, " {address}"),
            _ => write!(f, " {}", host_and_port(address, Some(service))),
        }
    }
}
