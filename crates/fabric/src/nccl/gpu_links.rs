//! NVLink connections between GPUs, directly or by NVSwitches.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::address;
use super::error::NcclError;
use crate::{Bdf, Function, FunctionId, NvLink};

/// Most GPUs with NVLink of one machine: 72 are in one domain of NVLink today (GB200 NVL72).
pub(super) const MOST_GPUS: usize = 512;
/// Class of an NPU of IBM, by which a GPU is linked to the processor (`PCI_BRIDGE_CLASS` of NCCL).
const CLASS_NPU: &str = "0x068001";
/// Class of a bridge of another kind, as NVSwitches have.
const CLASS_OTHER_BRIDGE: &str = "0x0680";

/// An element `<nvlink>` of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NvLinkElement {
    /// The GPU.
    pub(super) gpu: FunctionId,
    /// PCI address of the other end.
    pub(super) target: String,
    /// Number of links.
    pub(super) count: Option<u32>,
    /// Class of the other end.
    pub(super) class: Option<String>,
}

impl NvLinkElement {
    /// Returns whether an NVSwitch is at the other end, which NCCL assumes where it cannot read the class.
    fn is_to_switch(&self) -> bool {
        self.class.as_deref().is_none_or(|class| {
            class.starts_with(CLASS_OTHER_BRIDGE) && class != CLASS_NPU || class.is_empty()
        })
    }
}

type Pair = (FunctionId, FunctionId);

/// Every pair of GPUs that NVLink connects.
///
/// # Errors
/// When there are too many of them.
pub(super) fn pairs(
    functions: &[Function],
    links: &[NvLinkElement],
) -> Result<Vec<NvLink>, NcclError> {
    let gpus: BTreeSet<FunctionId> = links.iter().map(|link| link.gpu).collect();
    if gpus.len() > MOST_GPUS {
        return Err(NcclError::TooLarge { most: MOST_GPUS, what: "GPUs with NVLink" });
    }
    let at: BTreeMap<Bdf, FunctionId> =
        gpus.iter().filter_map(|&id| Some((functions[id.0].address?, id))).collect();
    let mut found: BTreeMap<Pair, Option<u32>> = BTreeMap::new();
    let mut switches: BTreeMap<&str, BTreeMap<FunctionId, Option<u32>>> = BTreeMap::new();
    for link in links {
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
    Ok(found.into_iter().map(|(gpus, links)| NvLink { gpus, links }).collect())
}

/// The lesser of two numbers of links; `None` where one is not known.
fn lesser(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.zip(other).map(|(one, other)| one.min(other))
}
