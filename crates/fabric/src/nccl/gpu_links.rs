//! Links between GPUs: NVLink, directly or by NVSwitches, and XGMI of AMD.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::address;
use super::error::NcclError;
use crate::{Bdf, Function, FunctionId, FunctionKind, GpuLink};

/// Most GPUs with links of one machine: 72 are in one domain of NVLink today (GB200 NVL72).
pub(super) const MOST_GPUS: usize = 512;
/// Class of an NPU of IBM, the link of a GPU to the processor (`PCI_BRIDGE_CLASS` of NCCL).
const CLASS_NPU: &str = "0x068001";
/// Class of a bridge of another kind, as NVSwitches have.
const CLASS_OTHER_BRIDGE: &str = "0x0680";

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    /// `<nvlink>`.
    NvLink,
    /// `<xgmi>`.
    Xgmi,
}

impl ElementKind {
    /// The kind by the name of an element.
    pub(super) fn from_tag(tag: &str) -> Option<Self> {
        match tag {
            "nvlink" => Some(Self::NvLink),
            "xgmi" => Some(Self::Xgmi),
            _ => None,
        }
    }
}

/// An element `<nvlink>` or `<xgmi>` of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GpuLinkElement {
    pub(super) kind: ElementKind,
    /// The GPU.
    pub(super) gpu: FunctionId,
    /// PCI address of the other end.
    pub(super) target: String,
    /// Number of links.
    pub(super) count: Option<u32>,
    /// Class of the other end.
    pub(super) class: Option<String>,
}

impl GpuLinkElement {
    /// Returns whether an NVSwitch is at the other end, which NCCL assumes where it cannot read the class.
    /// XGMI has no switches: RCCL writes that class for a GPU that is not in this virtual machine.
    fn is_to_switch(&self) -> bool {
        self.kind == ElementKind::NvLink
            && self.class.as_deref().is_none_or(|class| {
                class.starts_with(CLASS_OTHER_BRIDGE) && class != CLASS_NPU || class.is_empty()
            })
    }
}

/// The libraries that looked for links of a GPU, as its element `<gpu>` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Searched {
    /// NCCL, for NVLink.
    Nccl,
    /// RCCL, for XGMI.
    Rccl,
}

/// Links of a machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GpuLinks {
    pub(super) nvlinks: Option<Vec<GpuLink>>,
    pub(super) xgmi: Option<Vec<GpuLink>>,
}

impl GpuLinks {
    /// Joins the elements. A kind without elements is known to be absent where the library that writes them
    /// looked at every GPU. Files of clouds list GPUs alone, and say nothing of links.
    ///
    /// # Errors
    /// When there are too many GPUs with links.
    pub(super) fn new(
        functions: &[Function],
        elements: &[GpuLinkElement],
        searched: &BTreeMap<FunctionId, Searched>,
    ) -> Result<Self, NcclError> {
        let is_gpu = |id: &FunctionId| functions[id.0].kind == FunctionKind::Gpu;
        let gpus: Vec<FunctionId> = (0..functions.len()).map(FunctionId).filter(is_gpu).collect();
        let of = |kind, library| {
            let pairs = pairs(functions, elements, kind)?;
            let is_searched = |gpu| searched.get(gpu) == Some(&library);
            // In some virtual machines NVML names the GPU itself as the other end.
            let is_hidden = |link: &GpuLinkElement| {
                link.kind == kind && address(&link.target) == functions[link.gpu.0].address
            };
            let are_shown =
                !gpus.is_empty() && gpus.iter().all(is_searched) && !elements.iter().any(is_hidden);
            Ok((are_shown || !pairs.is_empty()).then_some(pairs))
        };
        Ok(Self {
            nvlinks: of(ElementKind::NvLink, Searched::Nccl)?,
            xgmi: of(ElementKind::Xgmi, Searched::Rccl)?,
        })
    }
}

type Pair = (FunctionId, FunctionId);

/// Every pair of GPUs that links of a kind connect.
fn pairs(
    functions: &[Function],
    elements: &[GpuLinkElement],
    kind: ElementKind,
) -> Result<Vec<GpuLink>, NcclError> {
    let links = || elements.iter().filter(|link| link.kind == kind);
    let gpus: BTreeSet<FunctionId> = links().map(|link| link.gpu).collect();
    if gpus.len() > MOST_GPUS {
        return Err(NcclError::TooLarge { most: MOST_GPUS, what: "GPUs with links between them" });
    }
    let at: BTreeMap<Bdf, FunctionId> =
        gpus.iter().filter_map(|&id| Some((functions[id.0].address?, id))).collect();
    let mut found: BTreeMap<Pair, Option<u32>> = BTreeMap::new();
    let mut switches: BTreeMap<&str, BTreeMap<FunctionId, Option<u32>>> = BTreeMap::new();
    for link in links() {
        match address(&link.target).and_then(|target| at.get(&target)) {
            Some(&other) if other != link.gpu => {
                let pair = (link.gpu.min(other), link.gpu.max(other));
                // Each of the two lists the links.
                let count = found.entry(pair).or_insert(link.count);
                *count = lesser(*count, link.count);
            }
            Some(_) => {}
            None if link.is_to_switch() => {
                switches.entry(&link.target).or_default().insert(link.gpu, link.count);
            }
            None => {}
        }
    }
    for ends in switches.values() {
        for (position, (&one, &count)) in ends.iter().enumerate() {
            for (&other, &others) in ends.iter().skip(position + 1) {
                let more = lesser(count, others);
                let sum = found.entry((one, other)).or_insert(Some(0));
                *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
            }
        }
    }
    Ok(found.into_iter().map(|(gpus, links)| GpuLink { gpus, links }).collect())
}

/// The lesser of two numbers of links; `None` where one is unknown.
fn lesser(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.zip(other).map(|(one, other)| one.min(other))
}
