//! One function in words: a line for its kind, and lines for its content.

use std::fmt::Write as _;

use super::{Labels, port_kind};
use crate::plain::plain;
use peerlane_fabric::{
    DriverBinding, Fabric, Function, FunctionId, FunctionKind, IommuMode, Link, LinkSpeed,
    MemoryKind, Namespace, NvmeController, Origin, pci_names,
};

/// The machine in one line.
pub(crate) fn heading(fabric: &Fabric) -> String {
    let origin = match &fabric.origin {
        Origin::ThisMachine => "this machine".to_owned(),
        Origin::Tree(path) => format!("tree below {}", path.display()),
        Origin::Text => "pasted text".to_owned(),
        Origin::Description => "description".to_owned(),
        Origin::Assumed => "with a boot configuration taken as in force".to_owned(),
    };
    let iommu = match fabric.iommu {
        IommuMode::Off => "IOMMU off",
        IommuMode::Passthrough => "IOMMU in passthrough mode",
        IommuMode::Translating => "IOMMU translates",
        IommuMode::Unknown => "IOMMU unknown (not in this input)",
    };
    let kernel = match (&fabric.kernel.release, fabric.kernel.has_p2pdma) {
        (Some(release), Some(true)) => format!("Linux {release} with P2PDMA"),
        (Some(release), Some(false)) => format!("Linux {release} without P2PDMA"),
        (Some(release), None) => format!("Linux {release}"),
        (None, _) => "kernel not stated".to_owned(),
    };
    let cpu =
        fabric.cpu.model.as_deref().or(fabric.cpu.vendor.as_deref()).unwrap_or("CPU not stated");
    let product = fabric.product.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    plain(&format!("{} ({origin}): {product}{cpu}, {kernel}, {iommu}", fabric.name))
}

/// Returns whether the text of a machine shows no class of a function; it may be anything then.
pub(super) fn is_unclear(fabric: &Fabric, function: &Function) -> bool {
    function.kind == FunctionKind::Other
        && function.class.is_none()
        && fabric.origin == Origin::Text
}

/// Kind of a function, its location and its speed.
pub(super) fn line(fabric: &Fabric, labels: &Labels, id: FunctionId) -> String {
    let function = fabric.function(id);
    let mut text = function.name.clone();
    if let Some(address) = function.address.map(|address| address.to_string()) {
        if address != function.name {
            let _ = write!(text, " {address}");
        }
    }
    let kind =
        if is_unclear(fabric, function) { "class not shown" } else { port_kind(function.kind) };
    let _ = write!(text, " ({kind})");
    if function.kind == FunctionKind::Gpu && fabric.moves_payload(id) {
        let word = labels.word(id);
        if word != function.name {
            let _ = write!(text, " {word}");
        }
    }
    if !function.kernel_names.is_empty() {
        let _ = write!(text, " {}", function.kernel_names.join(" "));
    }
    if let Some(most) = function.link_below {
        let _ = write!(text, ", up to {}", speed(most));
    }
    if let Some(link) = &function.link {
        let _ = write!(text, ", {}", trained(fabric, id, link));
    }
    if let Some(physical) = function.physical_function {
        let _ = write!(text, ", virtual function of {physical}");
    }
    if let Some(instances) = function.mig_instances.filter(|&count| count > 0) {
        let _ = write!(text, ", {instances} MIG instances");
    }
    let is_endpoint = fabric.moves_payload(id) || function.p2pmem.is_some();
    if is_endpoint {
        place(fabric, id, &mut text);
    } else if redirects(function) {
        text.push_str(", redirects peers (ACS)");
    }
    text
}

/// Tests whether a port sends traffic between peers up to the root complex.
pub(crate) fn redirects(function: &Function) -> bool {
    function.acs.redirects() == Some(true)
}

/// Node, if it differs from that of the host bridge; group; driver.
fn place(fabric: &Fabric, id: FunctionId, text: &mut String) {
    let function = fabric.function(id);
    let bridge = fabric.bridges[fabric.bridge_of(id).0].numa_node;
    if let Some(node) = function.numa_node.filter(|&node| Some(node) != bridge) {
        let _ = write!(text, ", node {node}");
    }
    if let Some(group) = function.iommu_group {
        let kind = function.iommu_type.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
        let _ = write!(text, ", IOMMU group {group}{kind}");
    }
    match &function.driver {
        DriverBinding::Bound(driver) if driver == "nvme" && function.nvme.is_some() => {}
        DriverBinding::Bound(driver) => drop(write!(text, ", driver {driver}")),
        DriverBinding::Unbound => text.push_str(", no driver"),
        // Descriptions need not say it.
        DriverBinding::Unknown if matches!(fabric.origin, Origin::Description | Origin::Text) => {}
        DriverBinding::Unknown => text.push_str(", driver unknown"),
    }
}

/// Contents of a function: model, memory, namespaces and their use.
pub(super) fn details(fabric: &Fabric, id: FunctionId) -> Vec<String> {
    let function = fabric.function(id);
    let mut details = Vec::new();
    // Of the ports of a switch one says what it is.
    if !matches!(function.kind, FunctionKind::RootPort | FunctionKind::DownstreamPort) {
        details.extend(pci_names::look_up(function));
    }
    if let Some(nvme) = &function.nvme {
        let drive: Vec<&str> = [&nvme.model, &nvme.serial, &nvme.firmware]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if !drive.is_empty() {
            details.push(format!("drive: {}{}", drive.join(", "), condition(nvme)));
        }
    }
    details.extend(memory(fabric, id));
    if let Some(drive) = fabric.drive_of_card(id) {
        details.push(format!("one SmartSSD with {}, by their switch", fabric.function(drive).name));
    }
    for namespace in function.nvme.iter().flat_map(|nvme| &nvme.namespaces) {
        storage(fabric, namespace, &mut details);
    }
    details
}

/// Faults of a drive, and its temperature.
fn condition(nvme: &NvmeController) -> String {
    let mut text = String::new();
    if let Some(state) = nvme.state.as_ref().filter(|state| *state != "live") {
        let _ = write!(text, ", {}", state.to_uppercase());
    }
    if let Some(found) = nvme.temperature {
        let _ = write!(text, ", {} C", found.current / 1000);
        if found.warning.is_some_and(|warning| found.current >= warning) {
            text.push_str(", TOO HOT");
        }
    }
    text
}

fn memory(fabric: &Fabric, id: FunctionId) -> Option<String> {
    let function = fabric.function(id);
    if let Some(pool) = &function.p2pmem {
        let published = if pool.published { "offered to peers" } else { "NOT OFFERED to peers" };
        return Some(format!(
            "memory for peers: {}, {} free, {published}",
            pool.size, pool.available
        ));
    }
    if let Some(cmb) = function.nvme.as_ref().and_then(|nvme| nvme.cmb) {
        return Some(format!("CMB of {}, NOT LENT by the kernel", cmb.size()));
    }
    let memory = fabric.memory(id)?;
    let size = memory.size?;
    let largest = function.bars.iter().filter(|bar| bar.size == size).find_map(|bar| bar.largest);
    let more = match largest.filter(|&largest| largest > size) {
        Some(largest) => format!(" of at most {largest}"),
        None => String::new(),
    };
    let lent = match (memory.kind, function.fpga_p2p) {
        (MemoryKind::Fpga, Some(false)) => ", NOT LENT (p2p_enable is 0)",
        _ => "",
    };
    Some(format!("memory window: {size}{more}{lent}"))
}

/// A namespace, and the partitions, stacked devices and mounts on it.
pub(super) fn storage(fabric: &Fabric, namespace: &Namespace, details: &mut Vec<String>) {
    let name = namespace.name.as_deref().unwrap_or("namespace");
    let head = if namespace.is_multipath_head { ", multipath" } else { "" };
    let block = namespace.limits.logical_block;
    details.push(format!(
        "{name} {}, blocks of {block}{head}{}",
        namespace.size,
        used(fabric, name)
    ));
    for partition in &namespace.partitions {
        let name = &partition.name;
        details.push(format!("  {name} {}{}", partition.size, used(fabric, name)));
    }
}

/// Mount points of a block device, and devices on top of it.
fn used(fabric: &Fabric, name: &str) -> String {
    const DEEPEST: usize = 8;
    let mut text = String::new();
    let mut waiting = vec![(name.to_owned(), 0)];
    while let Some((name, depth)) = waiting.pop() {
        for mount in fabric.mounts_of(&name) {
            let read_only = if mount.is_read_only { " read-only" } else { "" };
            let _ = write!(text, ", {} on {}{read_only}", mount.file_system, mount.point);
        }
        for device in fabric.holders(&name).filter(|_| depth < DEEPEST) {
            let kind = device.kind.as_deref().map(|kind| format!("{kind} ")).unwrap_or_default();
            let _ = write!(text, ", below {kind}{}", device.name);
            waiting.push((device.name.clone(), depth + 1));
        }
    }
    text
}

fn trained(fabric: &Fabric, id: FunctionId, link: &Link) -> String {
    let most = fabric.trainable(id);
    match (link.current, link.maximum) {
        (Some(current), _) if fabric.is_downgraded(id) && fabric.may_save_power(id) => {
            let most = most.map(speed).unwrap_or_default();
            format!("{} while idle, of {most}", speed(current))
        }
        (Some(current), _) if fabric.is_downgraded(id) => {
            let most = most.map(speed).unwrap_or_default();
            format!("{} DOWNGRADED, both ends support {most}", speed(current))
        }
        (Some(current), Some(own)) if own != current && Some(own) != most => {
            format!("{} (itself up to {})", speed(current), speed(own))
        }
        (Some(current), _) => speed(current),
        (None, Some(own)) => format!("at most {}", speed(own)),
        (None, None) => "link unknown".to_owned(),
    }
}

/// A link in words: `16 GT/s x4`.
pub(crate) fn speed(speed: LinkSpeed) -> String {
    let (whole, rest) = (speed.megatransfers / 1000, speed.megatransfers % 1000 / 100);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest}") };
    format!("{whole}{fraction} GT/s x{}", speed.width)
}
