//! NVLink between two GPUs, as far as a description shows it.

use std::fmt;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, gpu};

/// NVLink between two NVIDIA GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvLinkState {
    /// They are connected by this number of links; `None` where the number is not known.
    Links(Option<u32>),
    /// They are not connected.
    NoLinks,
    /// The description does not show NVLink, as `/sys` and `lspci` do not.
    NotSeen,
}

impl fmt::Display for NvLinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Links(Some(1)) => f.pad("connected by 1 NVLink"),
            Self::Links(Some(links)) => f.pad(&format!("connected by {links} NVLinks")),
            Self::Links(None) => f.pad("connected by NVLink"),
            Self::NoLinks => f.pad("not connected by NVLink"),
            Self::NotSeen => f.pad("NVLink is not seen from here"),
        }
    }
}

/// Returns the state of NVLink between two functions; `None` unless both are NVIDIA GPUs.
pub fn nvlink(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> Option<NvLinkState> {
    let is_nvidia =
        |one: &Function| one.kind == FunctionKind::Gpu && one.vendor == Some(gpu::VENDOR_NVIDIA);
    let are_two = provider != initiator
        && is_nvidia(fabric.function(provider))
        && is_nvidia(fabric.function(initiator));
    are_two.then(|| match &fabric.nvlinks {
        None => NvLinkState::NotSeen,
        Some(found) => {
            let pair = (provider.min(initiator), provider.max(initiator));
            let link = found.iter().find(|link| link.gpus == pair);
            link.map_or(NvLinkState::NoLinks, |link| NvLinkState::Links(link.links))
        }
    })
}
