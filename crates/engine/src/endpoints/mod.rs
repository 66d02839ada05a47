//! The two ends of a copy: its source and its target.
//!
//! [`Notation`] parses a typed end. `inspect` looks at that end and returns its kind, the limits of
//! its requests, and the reasons why peer-to-peer requests cannot work on it. Nothing is opened for
//! writing, and nothing is created. On a machine that is only described an endpoint is a drive of
//! the description.

pub(crate) mod cards;
pub mod connection;
mod described;
mod end;
mod error;
mod gpu;
pub(crate) mod guard;
pub(crate) mod lane;
mod layer;
mod live;
pub(crate) mod machine;
mod notation;
mod obstacles;
pub(crate) mod open;
mod passthrough;
mod remote;
pub mod suggestion;

use std::path::{Path, PathBuf};

use peerlane_fabric::{BlockDevice, Fabric, FunctionId};
use peerlane_reach::PEER_REQUEST_MAX;
use peerlane_results::EndpointFacts;
use peerlane_units::Bytes;

pub(crate) use described::strip_device_directory;
pub use end::EndError;
pub(crate) use end::{look, look_to_read};
pub use error::EndpointError;
pub use gpu::find_gpu;
pub use lane::LaneError;
pub(crate) use layer::Layer;
pub use layer::network_facts;
pub(crate) use live::has_flag;
pub use notation::{GpuName, Notation, NotationError};
pub(crate) use obstacles::no_function;
pub(crate) use passthrough::Passthrough;
pub(crate) use remote::RemoteTransport;
pub use remote::{NVME_PORT, RemoteName, RemoteNameError};

use crate::io::failure::Role;
use crate::io::system::System;

/// A peer-to-peer page is a segment of its own (Linux 7.2 `lib/iov_iter.c`).
const PEER_SEGMENT: u64 = 4096;
/// Most bytes of one request through host memory; the kernel's own default
/// (Linux 7.2 `block/blk-settings.c`, `BLK_DEF_MAX_SECTORS_CAP`).
const HOST_REQUEST_MAX: Bytes = Bytes::mib(4);
/// Assumed if nothing tells.
const HOST_REQUEST_DEFAULT: Bytes = Bytes::mib(1);

/// One end of a copy, looked at.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Facts of it, for a plan.
    pub facts: EndpointFacts,
    /// The controller whose DMA engine moves its payload; `None` if there is none to be judged.
    pub initiator: Option<FunctionId>,
    /// Further controllers that serve its payload, if it is spread over several drives.
    pub(crate) further: Vec<FunctionId>,
    /// Its state on this machine; `None` on a described one.
    pub(crate) live: Option<Live>,
}

/// An endpoint of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    /// Absolute, links resolved.
    pub(crate) path: PathBuf,
    pub(crate) node: PathNode,
    /// The block device itself, or the one below the file system; `None` if there is none.
    pub(crate) device: Option<BlockDevice>,
    /// The kind of that device.
    pub(crate) layer: Option<Layer>,
    /// True when it can be opened with `O_DIRECT`, as far as can be told without opening it.
    pub(crate) is_direct: bool,
    /// Set for a passthrough node: it is a device like its block device, which everything but moving
    /// payload goes by.
    pub(crate) passthrough: Option<Passthrough>,
}

impl Live {
    /// The node that guards check and other programs open for the same bytes: the block device of a
    /// passthrough node, else the path itself.
    pub(crate) fn guarded_path(&self) -> &Path {
        self.passthrough.as_ref().map_or(&self.path, |passthrough| &passthrough.block)
    }
}

/// Kind of the object at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathNode {
    /// A block device.
    Block,
    /// A regular file, by device number and inode.
    File { device: (u32, u32), inode: u64 },
    /// Nothing yet; its directory is there.
    NewFile,
}

/// Looks at an endpoint.
///
/// # Errors
/// When it is not there, is nothing that payload can come from or go to, or cannot be looked at.
pub(crate) fn inspect(
    system: &System,
    fabric: &Fabric,
    notation: &Notation,
    role: Role,
) -> Result<Endpoint, EndpointError> {
    let Notation::Path(path) = notation else {
        return Err(EndpointError::NotPayload { notation: notation.clone() });
    };
    if fabric.is_this_machine() {
        live::inspect(system, fabric, path, role)
    } else {
        described::inspect(fabric, path)
    }
}

/// True when an end is a multipath head, on a kernel whose heads take no peer-to-peer pages.
pub(crate) fn is_old_head(fabric: &Fabric, end: &Endpoint) -> bool {
    let device = end.live.as_ref().and_then(|live| live.device.as_ref());
    device.is_some_and(|device| obstacles::is_old_head(device, &fabric.kernel))
}

/// Most bytes of a request through host memory.
fn request_host(max_request: Option<Bytes>) -> Bytes {
    max_request.unwrap_or(HOST_REQUEST_DEFAULT).min(HOST_REQUEST_MAX)
}

/// Most bytes of a peer-to-peer request that the kernel neither splits nor hands to a worker.
fn request_p2p(limits: peerlane_fabric::QueueLimits) -> Bytes {
    let segments = limits.max_segments.map_or(PEER_REQUEST_MAX, |segments| {
        Bytes(u64::from(segments).saturating_mul(PEER_SEGMENT))
    });
    let request = limits.max_request.unwrap_or(PEER_REQUEST_MAX);
    PEER_REQUEST_MAX.min(segments).min(request)
}

/// Model and serial of the drive at `function`.
fn drive_name(fabric: &Fabric, function: FunctionId) -> Option<String> {
    let nvme = fabric.function(function).nvme.as_ref()?;
    let parts: Vec<&str> = [nvme.model.as_deref(), nvme.serial.as_deref()]
        .into_iter()
        .flatten()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}
