//! Attributes of elements, as values.

use roxmltree::Node;

use crate::gpu::VENDOR_NVIDIA;
use crate::{Bdf, Cpu, Link, LinkSpeed};

/// PCI vendor of AMD's GPUs (PCI ID repository).
const VENDOR_AMD: u16 = 0x1002;
/// Longest kernel name of a device that is kept.
const LONGEST_NAME: usize = 64;

/// A number in hexadecimal, `0x10de`.
pub(super) fn hex(node: Node<'_, '_>, name: &str) -> Option<u32> {
    let text = node.attribute(name)?.trim();
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// A vendor or device, 16 bits.
pub(super) fn id(node: Node<'_, '_>, name: &str) -> Option<u16> {
    hex(node, name).and_then(|id| u16::try_from(id).ok())
}

/// The vendor. Early dumps leave it out for GPUs, whose version of SM or GCN tells the maker; switches that
/// are made up have 0xffff or 0.
pub(super) fn vendor_id(node: Node<'_, '_>) -> Option<u16> {
    let of_gpu = || {
        let gpu = node.children().find(|child| child.has_tag_name("gpu"))?;
        let is_of_nccl =
            gpu.has_attribute("sm") || gpu.children().any(|child| child.has_tag_name("nvlink"));
        let amd = gpu.has_attribute("gcn").then_some(VENDOR_AMD);
        amd.or(is_of_nccl.then_some(VENDOR_NVIDIA))
    };
    id(node, "vendor").filter(|&id| id != 0 && id != u16::MAX).or_else(of_gpu)
}

/// The class, as far as it is said: NCCL writes `0x03` where it cannot read one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassCode {
    /// All 24 bits.
    pub(super) whole: Option<u32>,
    /// The base class.
    pub(super) base: Option<u32>,
}

/// The class of a function.
pub(super) fn class(node: Node<'_, '_>) -> ClassCode {
    let digits = node.attribute("class").map_or(0, |text| text.trim().len());
    match hex(node, "class") {
        Some(class) if digits == "0x030200".len() => {
            ClassCode { whole: Some(class), base: Some(class >> 16) }
        }
        Some(base) if digits == "0x03".len() => ClassCode { whole: None, base: Some(base) },
        _ => ClassCode { whole: None, base: None },
    }
}

/// A PCI address; NVML writes domains of eight digits.
pub(super) fn address(text: &str) -> Option<Bdf> {
    let (domain, rest) = text.trim().split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    format!("{domain:04x}:{rest}").parse().ok()
}

/// The link above a function, as both ends support it. Files of AWS write `32 GT/s PCIe/s`.
pub(super) fn link(node: Node<'_, '_>) -> Option<Link> {
    let text = |name| node.attribute(name).unwrap_or_default().trim();
    let speed = text("link_speed");
    let speed = speed.strip_suffix("PCIe/s").unwrap_or(speed);
    let maximum = LinkSpeed::from_sysfs(speed, text("link_width"))?;
    Some(Link { current: None, maximum: Some(maximum) })
}

/// Names that the kernel gives to a NIC; a name with `+` is that of several that NCCL joined.
pub(super) fn kernel_names(nic: Node<'_, '_>) -> Vec<String> {
    let nets = nic.children().filter(|child| child.has_tag_name("net"));
    let names = nets.filter_map(|net| net.attribute("name")).filter(|name| is_kernel_name(name));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns whether the kernel could give a name to a device.
pub(super) fn is_kernel_name(name: &str) -> bool {
    let is_of_one = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_of_one)
}

/// The processor; of several, the facts that all agree on.
pub(super) fn cpu<'a>(nodes: impl Iterator<Item = Node<'a, 'a>>) -> Cpu {
    let mut cpus = nodes.map(|node| Cpu {
        vendor: node.attribute("vendor").and_then(vendor),
        family: node.attribute("familyid").and_then(family),
        model_number: node.attribute("modelid").and_then(|id| id.trim().parse().ok()),
        model: None,
    });
    let Some(first) = cpus.next() else { return Cpu::default() };
    cpus.fold(first, |known, other| Cpu {
        family: known.family.filter(|_| known.family == other.family),
        vendor: known.vendor.clone().filter(|_| known.vendor == other.vendor),
        model_number: known.model_number.filter(|_| known.model_number == other.model_number),
        model: None,
    })
}

/// The vendor, in the word of `/proc/cpuinfo`.
fn vendor(text: &str) -> Option<String> {
    match text.trim() {
        "" => None,
        "AMD" => Some("AuthenticAMD".to_owned()),
        text => Some(text.to_owned()),
    }
}

/// The family, from the base family and 16 times the extended one (`ncclTopoGetXmlFromCpu`). The extended one
/// counts where the base is 15 (AMD64 volume 3, `CPUID Fn0000_0001_EAX`).
fn family(text: &str) -> Option<u32> {
    const BASE: u32 = 15;
    let id: u32 = text.trim().parse().ok()?;
    match (id % 16, id / 16) {
        (BASE, extended) => Some(BASE + extended),
        (base, 0) => Some(base),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_those_of_cpuinfo() {
        let found = ["143", "159", "175", "191", "6", "23", "-1", ""].map(family);
        let expected = [Some(0x17), Some(0x18), Some(0x19), Some(0x1a), Some(6), None, None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn eight_digit_domains_are_read() {
        assert_eq!(address("00000000:C4:00.0"), "0000:c4:00.0".parse().ok());
        assert_eq!(address("10000:01:00.0").unwrap().domain(), 0x10000);
        for other in ["", "fffffff:ffff:ff", "0000:01.0", "0", "x:01:00.0"] {
            assert_eq!(address(other), None, "{other}");
        }
    }
}
