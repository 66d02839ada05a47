//! Variables of NCCL that follow from the pairs of a machine: those to set, and those to leave
//! alone.
//!
//! Follows `ncclTopoCheckP2p` and `ncclTopoCheckGdr` of NCCL 2.30.7 (`src/graph/paths.cc`).

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, FunctionId, IommuMode, gpu};
use peerlane_reach::{
    DriverAnswer, JudgedPairs, PacketPath, PathClass, RouteState, Use, used_gpu_link,
};
use peerlane_results::NcclSetting;

const PEER_ACCESS: &str = "NCCL 2.30.7, src/graph/paths.cc, ncclTopoCheckP2p";
const GDR: &str = "NCCL 2.30.7, src/graph/paths.cc, ncclTopoCheckGdr";
const DMA_BUF: &str = "NCCL 2.30.7, src/init.cc, dmaBufSupported";
/// The farthest class that NCCL takes by itself.
const DEFAULT: PathClass = PathClass::Pxb;
/// NCCL takes every path on AMD's processors with up to this many GPUs.
const FEW_GPUS: usize = 2;

/// The settings for GPUs of NVIDIA and network controllers; none if neither use is there.
pub(super) fn settings(fabric: &Fabric, judged: &[JudgedPairs]) -> Vec<NcclSetting> {
    let of = |of_use: Use| {
        let is_nvidia = |id: FunctionId| fabric.function(id).vendor == Some(gpu::VENDOR_NVIDIA);
        let own = judged.iter().filter(move |one| one.of_use == of_use);
        own.filter(|one| is_nvidia(one.group.example().0)).collect::<Vec<_>>()
    };
    let mut settings = Vec::new();
    settings.extend(between_gpus(fabric, &of(Use::GpuToGpu)));
    settings.extend(of_network(fabric, &of(Use::NetworkToGpu)));
    settings
}

fn between_gpus(fabric: &Fabric, pairs: &[&JudgedPairs]) -> Option<NcclSetting> {
    let over_pcie: Vec<&JudgedPairs> =
        pairs.iter().copied().filter(|one| !is_linked(fabric, one)).collect();
    let usable: Vec<&JudgedPairs> =
        over_pcie.iter().copied().filter(|one| one.state.is_peer_to_peer()).collect();
    if pairs.is_empty() || over_pcie.is_empty() {
        return None;
    }
    let may_try =
        |one: &&JudgedPairs| one.state.is_peer_to_peer() || one.state == RouteState::Unknown;
    if fabric.iommu == IommuMode::Translating && over_pcie.iter().any(may_try) {
        let because = "the IOMMU translates: stores of one GPU in another may be lost without an error, \
                       or hang, until it is in passthrough mode";
        return Some(set("NCCL_P2P_DISABLE", "1", because.to_owned(), PEER_ACCESS));
    }
    if over_pcie.iter().any(|one| one.state == RouteState::Unknown) {
        return None;
    }
    let Some((farthest, example)) = farthest(fabric, &usable) else {
        let because = "NCCL asks the driver for each pair, which grants none over PCIe, and takes \
                       shared memory by itself";
        return usable
            .is_empty()
            .then(|| unset("NCCL_P2P_DISABLE", because.to_owned(), PEER_ACCESS));
    };
    let default = default_level(fabric);
    if farthest <= default {
        let because = format!("NCCL takes paths up to {} by itself", default.name());
        return Some(unset("NCCL_P2P_LEVEL", because, PEER_ACCESS));
    }
    let (first, second) = (fabric.device_word(example.0), fabric.device_word(example.1));
    let because = format!(
        "NCCL ends at {} by itself, and {first} and {second} are {}; set it when `peerlane plan {first} \
         {second} --probe` has proved them",
        default.name(),
        farthest.name()
    );
    Some(set("NCCL_P2P_LEVEL", farthest.name(), because, PEER_ACCESS))
}

/// The farthest class at which NCCL takes peer access by itself.
fn default_level(fabric: &Fabric) -> PathClass {
    let is_amd = fabric.cpu.vendor.as_deref() == Some("AuthenticAMD");
    if is_amd && fabric.gpus().len() <= FEW_GPUS { PathClass::Sys } else { DEFAULT }
}

fn of_network(fabric: &Fabric, pairs: &[&JudgedPairs]) -> Vec<NcclSetting> {
    // On a superchip no public rule says whether; NCCL leaves such pairs alone unless it is told.
    let is_usable = |one: &&JudgedPairs| {
        let gpu = fabric.function(one.group.example().0);
        one.state.is_peer_to_peer() || (one.state == RouteState::Unknown && gpu::has_c2c(gpu))
    };
    let usable: Vec<&JudgedPairs> = pairs.iter().copied().filter(is_usable).collect();
    let Some((gpu, class)) = nearest_of_the_farthest(fabric, &usable) else { return Vec::new() };
    let mut settings = Vec::new();
    let name = fabric.device_word(gpu);
    if class <= DEFAULT {
        let because = format!("NCCL takes NICs up to {} by itself", DEFAULT.name());
        settings.push(unset("NCCL_NET_GDR_LEVEL", because, GDR));
    } else if gpu::has_c2c(fabric.function(gpu)) {
        let because = format!(
            "the nearest NIC of {name} is {}, and its memory is reached by C2C through the processor \
             (NVIDIA/nccl #1579)",
            class.name()
        );
        settings.push(set("NCCL_NET_GDR_LEVEL", "SYS", because.clone(), GDR));
        settings.push(set("NCCL_NET_GDR_C2C", "1", because, GDR));
    } else {
        let because = format!(
            "NCCL ends at {} by itself, and the nearest NIC of {name} is {}",
            DEFAULT.name(),
            class.name()
        );
        settings.push(set("NCCL_NET_GDR_LEVEL", class.name(), because, GDR));
    }
    settings.extend(usable.first().and_then(|one| dma_buf(fabric, one)));
    settings
}

fn dma_buf(fabric: &Fabric, pairs: &JudgedPairs) -> Option<NcclSetting> {
    let (provider, initiator) = pairs.group.example();
    let rules = peerlane_reach::rules(fabric, provider, initiator);
    let rule = rules.into_iter().find(|rule| rule.mechanism.ends_with("dma-buf"))?;
    let because = match rule.answer {
        DriverAnswer::Possible | DriverAnswer::Expected => {
            "NCCL takes dma-buf by itself, and the driver exports it".to_owned()
        }
        DriverAnswer::Refused => {
            format!("NCCL takes nvidia-peermem where dma-buf is refused: {}", rule.reason)
        }
        DriverAnswer::Conditional | DriverAnswer::NotKnown => return None,
    };
    Some(unset("NCCL_DMABUF_ENABLE", because, DMA_BUF))
}

fn is_linked(fabric: &Fabric, pairs: &JudgedPairs) -> bool {
    let (first, second) = pairs.group.example();
    used_gpu_link(fabric, first, second).is_some()
}

fn class(fabric: &Fabric, (first, second): (FunctionId, FunctionId)) -> Option<PathClass> {
    PacketPath::new(fabric, first, second).class
}

/// The farthest class of these pairs, and one that has it; `None` if a class is unknown.
fn farthest(
    fabric: &Fabric,
    pairs: &[&JudgedPairs],
) -> Option<(PathClass, (FunctionId, FunctionId))> {
    let all = pairs.iter().map(|one| one.group.example());
    let all = all.map(|(memory, other)| {
        Some((class(fabric, (memory, other))?, (memory.min(other), memory.max(other))))
    });
    all.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|(class, _)| *class)
}

/// The GPU whose nearest network controller is the farthest away, and its class.
fn nearest_of_the_farthest(
    fabric: &Fabric,
    pairs: &[&JudgedPairs],
) -> Option<(FunctionId, PathClass)> {
    let mut nearest: BTreeMap<FunctionId, PathClass> = BTreeMap::new();
    for one in pairs {
        let class = class(fabric, one.group.example())?;
        for gpu in one.group.providers() {
            let known = nearest.entry(gpu).or_insert(class);
            *known = class.min(*known);
        }
    }
    nearest.into_iter().max_by_key(|(_, class)| *class)
}

fn set(name: &str, value: &str, because: String, source: &str) -> NcclSetting {
    let (name, source) = (name.to_owned(), source.to_owned());
    NcclSetting { name, value: Some(value.to_owned()), because, source }
}

fn unset(name: &str, because: String, source: &str) -> NcclSetting {
    let (name, source) = (name.to_owned(), source.to_owned());
    NcclSetting { name, value: None, because, source }
}
