//! Links between GPUs as elements: NVLinks from GPU to GPU or from each GPU to NVSwitches, and XGMI.
//!
//! A fabric knows links between pairs and no NVSwitch. Where a GPU would need more NVLinks than there are on one, the
//! pairs share them by NVSwitches.

use std::collections::BTreeMap;

use super::super::gpu_links::MOST_GPUS;
use super::Element;
use crate::gpu::Generation;
use crate::{Fabric, Function, FunctionId, FunctionKind, GpuLink};

/// Address that NVML gives for an NVSwitch out of sight, as in a virtual machine.
const HIDDEN_SWITCH: &str = "fffffff:ffff:ff";
/// Class of an NVSwitch (`PCI_NVSWITCH_CLASS` of NCCL).
const CLASS_SWITCH: &str = "0x068000";

type Pairs = BTreeMap<(FunctionId, FunctionId), u32>;
pub(super) type Elements = BTreeMap<FunctionId, Vec<Element>>;

/// The NVLinks of each GPU.
///
/// # Errors
/// The reason why not all NVLinks can be written.
pub(super) fn nvlinks(
    fabric: &Fabric,
    is_listed: &dyn Fn(FunctionId) -> bool,
) -> Result<Elements, &'static str> {
    let pairs = counted_pairs(fabric, fabric.nvlinks.as_deref().unwrap_or_default(), is_listed)?;
    let mut sums: BTreeMap<FunctionId, u32> = BTreeMap::new();
    for (&(one, other), &count) in &pairs {
        for end in [one, other] {
            let sum = sums.entry(end).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    if sums.len() > MOST_GPUS {
        return Err("there are too many GPUs");
    }
    if sums.iter().all(|(&gpu, &sum)| sum <= most_links(fabric, gpu)) {
        return Ok(direct(fabric, &pairs, "nvlink"));
    }
    switched(&pairs, sums.into_keys().collect())
        .ok_or("a GPU has more than there are on one, and NVSwitches would join other pairs too")
}

/// XGMI of each GPU, which has no switches.
///
/// # Errors
/// The reason why not all of it can be written.
pub(super) fn xgmi(
    fabric: &Fabric,
    is_listed: &dyn Fn(FunctionId) -> bool,
) -> Result<Elements, &'static str> {
    let pairs = counted_pairs(fabric, fabric.xgmi.as_deref().unwrap_or_default(), is_listed)?;
    Ok(direct(fabric, &pairs, "xgmi"))
}

/// The number of links of each pair.
fn counted_pairs(
    fabric: &Fabric,
    links: &[GpuLink],
    is_listed: &dyn Fn(FunctionId) -> bool,
) -> Result<Pairs, &'static str> {
    let is_gpu = |id: FunctionId| is_listed(id) && fabric.function(id).kind == FunctionKind::Gpu;
    let mut pairs = Pairs::new();
    for link in links {
        let (one, other) = link.gpus;
        if one == other || !is_gpu(one) || !is_gpu(other) {
            return Err("an end is not a GPU of the text");
        }
        let count = link.links.ok_or("their number is unknown")?;
        if pairs.insert((one.min(other), one.max(other)), count).is_some() {
            return Err("a pair is there twice");
        }
    }
    Ok(pairs)
}

fn direct(fabric: &Fabric, pairs: &Pairs, tag: &'static str) -> Elements {
    let mut found = Elements::new();
    let mut ends: Vec<(FunctionId, &Function, u32)> = pairs
        .iter()
        .flat_map(|(&(one, other), &count)| [(one, other, count), (other, one, count)])
        .map(|(gpu, target, count)| (gpu, fabric.function(target), count))
        .collect();
    ends.sort_by_key(|(_, target, _)| target.address);
    for (gpu, target, count) in ends {
        let class = target.class.map_or_else(|| "0x03".to_owned(), |c| format!("{c:#08x}"));
        let element = Element::new(tag)
            .with("target", target.address)
            .with("count", Some(count))
            .with("tclass", Some(class));
        found.entry(gpu).or_default().push(element);
    }
    found
}

/// Links to NVSwitches, if every pair has as many as every other.
fn switched(pairs: &Pairs, gpus: Vec<FunctionId>) -> Option<Elements> {
    let count = *pairs.values().next()?;
    let is_complete = pairs.len() == gpus.len() * (gpus.len() - 1) / 2;
    let is_alike = pairs.values().all(|&other| other == count);
    let element = Element::new("nvlink")
        .with("target", Some(HIDDEN_SWITCH))
        .with("count", Some(count))
        .with("tclass", Some(CLASS_SWITCH));
    (is_complete && is_alike)
        .then(|| gpus.into_iter().map(|gpu| (gpu, vec![element.clone()])).collect())
}

/// Most NVLinks of one GPU: as many as NCCL looks for (`ncclTopoGetXmlFromGpu`).
fn most_links(fabric: &Fabric, gpu: FunctionId) -> u32 {
    match Generation::from_function(fabric.function(gpu)) {
        Some(generation) if generation < Generation::Volta => 4,
        Some(generation) if generation < Generation::Ampere => 6,
        Some(generation) if generation < Generation::Hopper => 12,
        _ => 18,
    }
}
