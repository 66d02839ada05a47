//! Links between two GPUs, NVLink or XGMI, as far as a description shows them.

use std::collections::BTreeSet;
use std::fmt;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, GpuLink, gpu};

/// The kind of a link between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GpuLinkKind {
    /// NVLink of NVIDIA.
    NvLink,
    /// XGMI of AMD.
    Xgmi,
}

/// Links of one kind between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuLinkState {
    /// They are connected by this number of links; `None` where the number is unknown.
    Links(GpuLinkKind, Option<u32>),
    /// They are connected through other GPUs of one hive; XGMI alone does that.
    Hive(GpuLinkKind),
    /// They are not connected.
    NoLinks(GpuLinkKind),
    /// The description does not show links of this kind, as `/sys` and `lspci` do not.
    NotSeen(GpuLinkKind),
}

impl GpuLinkState {
    /// The kind of the links.
    pub fn kind(self) -> GpuLinkKind {
        match self {
            Self::Links(kind, _) | Self::Hive(kind) | Self::NoLinks(kind) | Self::NotSeen(kind) => {
                kind
            }
        }
    }

    /// Returns whether payload can go by these links.
    pub fn is_linked(self) -> bool {
        matches!(self, Self::Links(..) | Self::Hive(_))
    }
}

impl fmt::Display for GpuLinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NvLink => "NVLink",
            Self::Xgmi => "XGMI",
        })
    }
}

impl fmt::Display for GpuLinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Links(kind, None) => format!("connected by {kind}"),
            Self::Links(kind, Some(links)) => {
                let plural = if *links == 1 { "" } else { "s" };
                match kind {
                    GpuLinkKind::NvLink => format!("connected by {links} {kind}{plural}"),
                    GpuLinkKind::Xgmi => format!("connected by {links} {kind} link{plural}"),
                }
            }
            Self::Hive(kind) => format!("connected by {kind} through other GPUs"),
            Self::NoLinks(kind) => format!("not connected by {kind}"),
            Self::NotSeen(kind) => format!("{kind} unknown (not in this input)"),
        };
        f.pad(&words)
    }
}

/// Returns the links between two functions; `None` unless both are GPUs of NVIDIA, or of AMD, or XGMI is known
/// to connect them.
pub fn gpu_link(
    fabric: &Fabric,
    provider: FunctionId,
    initiator: FunctionId,
) -> Option<GpuLinkState> {
    let are_of = |vendor: u16| {
        let is_one = |one: &Function| one.kind == FunctionKind::Gpu && one.vendor == Some(vendor);
        is_one(fabric.function(provider)) && is_one(fabric.function(initiator))
    };
    if provider == initiator {
        return None;
    }
    let pair = (provider.min(initiator), provider.max(initiator));
    let state = |list: &Option<Vec<GpuLink>>, kind| match list {
        None => GpuLinkState::NotSeen(kind),
        Some(found) => {
            let link = found.iter().find(|link| link.gpus == pair);
            link.map_or(GpuLinkState::NoLinks(kind), |link| GpuLinkState::Links(kind, link.links))
        }
    };
    if are_of(gpu::VENDOR_NVIDIA) {
        return Some(state(&fabric.nvlinks, GpuLinkKind::NvLink));
    }
    let state = match state(&fabric.xgmi, GpuLinkKind::Xgmi) {
        GpuLinkState::NoLinks(kind) if is_one_hive(fabric, pair) => GpuLinkState::Hive(kind),
        state => state,
    };
    (state.is_linked() || are_of(gpu::VENDOR_AMD)).then_some(state)
}

/// Returns whether a chain of links joins two GPUs (`amdgpu_xgmi_same_hive`: the driver asks for the
/// hive, not for a direct link).
fn is_one_hive(fabric: &Fabric, (one, other): (FunctionId, FunctionId)) -> bool {
    let links = fabric.xgmi.as_deref().unwrap_or_default();
    let mut hive = BTreeSet::from([one]);
    let mut next = vec![one];
    while let Some(gpu) = next.pop() {
        let ends = links.iter().filter_map(|link| match link.gpus {
            (near, far) if near == gpu => Some(far),
            (far, near) if near == gpu => Some(far),
            _ => None,
        });
        next.extend(ends.filter(|&far| hive.insert(far)));
    }
    hive.contains(&other)
}
