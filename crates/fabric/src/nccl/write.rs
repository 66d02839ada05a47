//! Topology XML for NCCL (`NCCL_TOPO_FILE`), from any fabric.
//!
//! Follows the readers of NCCL 2.8 to 2.30 (`src/graph/xml.cc`, `xml.h` and `topo.cc`); NCCL itself was not
//! run on the result. Rules of those versions for a file:
//!
//! - They take 256 elements (1024 before 2.21), and in one element 640 others (128 before 2.30, 32 before 2.21).
//! - They take no XML declaration and decode no entities. Attributes are one space apart and have at most 254 bytes.
//! - `version` has to be 1, for RCCL 2, and `numaid`, `busid`, and `class` of a switch have to be there. A
//!   processor of Intel with `familyid` needs `modelid`; both are written where both are known.
//! - `link_speed`, `link_width`, `affinity`, `arch`, `sm`, `dev`, `gdr` and identities that are not there come from
//!   `/sys`, NVML and CUDA of the machine that NCCL runs on. `rank`, and `dev` of a `<net>`, are always NCCL's own.
//! - A GPU with any `<nvlink>` is not asked for its NVLinks. So either all are written or none. RCCL adds the
//!   `<xgmi>` that it finds to those of the file.
//! - After that, branches without a GPU of the job or a NIC that NCCL found are dropped
//!   (`ncclTopoTrimXml`): drives, unused NICs, and the switches above them.
//!
//! Elements are GPUs, network controllers, drives, FPGA cards and the switches above them. A switch is
//! its upstream port, as NCCL climbs `/sys` two functions at a time; [`read`](super::read) puts the other ports back.

mod element;
mod gpu_links;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::iter::once;

use element::Element;
use gpu_links::Elements;

use super::attributes::is_kernel_name;
use super::error::NcclWriteError;
use super::topology::DEEPEST;
use crate::gpu::{VENDOR_AMD, VENDOR_NVIDIA};
use crate::{Cpu, Fabric, Function, FunctionId, FunctionKind, LinkSpeed, Parent};

/// Most elements that NCCL 2.21 to 2.30 read (`NCCL_TOPO_XML_MAX_NODES`).
const MOST_ELEMENTS: usize = 256;
/// Class of a bridge from PCI to PCI, as every port of a switch is.
const CLASS_BRIDGE: u32 = 0x06_04_00;
/// Longest word for a processor's maker: `CPU implementer 0x41`.
const LONGEST_VENDOR: usize = 20;
/// First comment of a file.
const HEADING: &str =
    "Topology for NCCL_TOPO_FILE. Addresses are those of this machine; a guest needs its own.";

/// A topology for NCCL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclXml {
    /// The document.
    pub text: String,
    /// Facts that it leaves out, and limits of NCCL that it exceeds; also comments of the document.
    pub notes: Vec<String>,
}

impl Fabric {
    /// Writes the topology that NCCL reads from `NCCL_TOPO_FILE`.
    ///
    /// # Errors
    /// When no function that NCCL could use has an address, or too many switches are one below another.
    pub fn to_nccl_xml(&self) -> Result<NcclXml, NcclWriteError> {
        let tree = ElementTree::new(self)?;
        let mut notes = Vec::new();
        if tree.without_address > 0 {
            notes.push(format!(
                "{} left out: no PCI address, or none of a switch above",
                counted(tree.without_address)
            ));
        }
        let is_listed = |id| tree.is_listed(id);
        let mut links = gpu_links::nvlinks(self, &is_listed).unwrap_or_else(|reason| {
            notes.push(format!("NVLinks left out, so that NCCL asks the driver: {reason}"));
            BTreeMap::new()
        });
        let xgmi = gpu_links::xgmi(self, &is_listed).unwrap_or_else(|reason| {
            notes.push(format!("XGMI left out, so that RCCL asks the driver: {reason}"));
            BTreeMap::new()
        });
        for (gpu, elements) in xgmi {
            links.entry(gpu).or_default().extend(elements);
        }
        let system = tree.system(&links);
        let elements = system.count();
        if elements > MOST_ELEMENTS {
            notes.push(format!(
                "{elements} elements: NCCL 2.21 to 2.30 refuse more than {MOST_ELEMENTS}; delete drives and \
                 unused NICs"
            ));
        }
        let mut text = format!("<!-- {HEADING} -->\n");
        for note in &notes {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "<!-- {note} -->");
        }
        system.print(0, &mut text);
        Ok(NcclXml { text, notes })
    }
}

fn counted(functions: usize) -> String {
    if functions == 1 { "1 function".to_owned() } else { format!("{functions} functions") }
}

/// Functions that become elements.
struct ElementTree<'a> {
    fabric: &'a Fabric,
    /// By the switch above; `None` for a processor. In the order of addresses.
    below: BTreeMap<Option<FunctionId>, Vec<FunctionId>>,
    listed: BTreeSet<FunctionId>,
    /// Functions that cannot be named.
    without_address: usize,
}

impl<'a> ElementTree<'a> {
    fn new(fabric: &'a Fabric) -> Result<Self, NcclWriteError> {
        let is_switch = switches(fabric);
        let above = |id| fabric.upward(id).skip(1).filter(|above| is_switch[above.0]);
        let has_address = |id: &FunctionId| fabric.function(*id).address.is_some();
        let mut tree =
            Self { fabric, below: BTreeMap::new(), listed: BTreeSet::new(), without_address: 0 };
        for id in candidates(fabric) {
            let branch: Vec<FunctionId> = once(id).chain(above(id)).collect();
            if branch.len() > DEEPEST {
                return Err(NcclWriteError::TooDeep { most: DEEPEST });
            }
            if branch.iter().all(has_address) {
                tree.listed.extend(branch);
            } else {
                tree.without_address += 1;
            }
        }
        if tree.listed.is_empty() {
            return Err(NcclWriteError::NoFunction);
        }
        let mut in_order: Vec<FunctionId> = tree.listed.iter().copied().collect();
        in_order.sort_by_key(|&id| fabric.function(id).address);
        for id in in_order {
            tree.below.entry(above(id).next()).or_default().push(id);
        }
        Ok(tree)
    }

    fn is_listed(&self, id: FunctionId) -> bool {
        self.listed.contains(&id)
    }

    fn below(&self, switch: Option<FunctionId>) -> impl Iterator<Item = FunctionId> + '_ {
        self.below.get(&switch).into_iter().flatten().copied()
    }

    fn system(&self, links: &Elements) -> Element {
        let mut by_node: BTreeMap<Option<u32>, Vec<Element>> = BTreeMap::new();
        for id in self.below(None) {
            let bridge = &self.fabric.bridges[self.fabric.bridge_of(id).0];
            let node = self.fabric.function(id).numa_node.or(bridge.numa_node);
            by_node.entry(node).or_default().push(self.function(id, links));
        }
        let cpus = by_node.into_iter().map(|(node, below)| cpu(&self.fabric.cpu, node, below));
        let version = if is_for_rccl(self.fabric) { 2 } else { 1 };
        Element::new("system").with("version", Some(version)).above(cpus)
    }

    fn function(&self, id: FunctionId, links: &Elements) -> Element {
        let function = self.fabric.function(id);
        let hex = |id: Option<u16>| id.map(|id| format!("{id:#06x}"));
        let link = self.fabric.trainable(id);
        let element = Element::new("pci")
            .with("busid", function.address)
            .with("class", class(function))
            .with("vendor", hex(function.vendor))
            .with("device", hex(function.device))
            .with("link_speed", link.map(speed))
            .with("link_width", link.map(|link| link.width));
        match function.kind {
            FunctionKind::Gpu => {
                let links = links.get(&id).into_iter().flatten().cloned();
                element.above(once(Element::new("gpu").above(links)))
            }
            FunctionKind::Nic => element.above(once(nic(function))),
            _ => element.above(self.below(Some(id)).map(|below| self.function(below, links))),
        }
    }
}

/// Returns whether each function is a switch of the text: an upstream port, a bridge of unknown type in the place of
/// one, or a root port that a text lists. The kernel's `/sys` shows the type of every port of PCIe; a picture of
/// `lspci` shows none.
fn switches(fabric: &Fabric) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(fabric.functions.len());
    for function in &fabric.functions {
        // Parents precede children.
        let is_switch = match (function.kind, function.parent) {
            (FunctionKind::UpstreamPort, _) => true,
            // A text that lists a root port leaves out the bridge below it.
            (FunctionKind::OtherBridge, Parent::Function(above))
                if function.address.is_none()
                    && fabric.function(above).kind == FunctionKind::RootPort =>
            {
                found[above.0] = true;
                false
            }
            (FunctionKind::OtherBridge, Parent::Function(above)) => !found[above.0],
            _ => false,
        };
        found.push(is_switch);
    }
    found
}

/// Functions to list. Where none is known to be of use, as in a file of AWS without classes, any that may be one.
fn candidates(fabric: &Fabric) -> Vec<FunctionId> {
    let ids = || fabric.iter().map(|(id, _)| id);
    let known: Vec<FunctionId> = ids().filter(|&id| is_of_use(fabric, id)).collect();
    if known.is_empty() {
        ids().filter(|&id| fabric.function(id).is_unclassified()).collect()
    } else {
        known
    }
}

/// Returns whether a file is for RCCL, AMD's library, and not for NCCL.
fn is_for_rccl(fabric: &Fabric) -> bool {
    let has_gpu_of = |vendor: u16| {
        let mut gpus = fabric.functions.iter().filter(|one| one.kind == FunctionKind::Gpu);
        gpus.any(|one| one.vendor == Some(vendor))
    };
    !has_gpu_of(VENDOR_NVIDIA) && (fabric.xgmi.is_some() || has_gpu_of(VENDOR_AMD))
}

/// Returns whether NCCL could use a function, or a person expects it in a topology: GPUs except the
/// graphics of a processor or board, network controllers, drives and FPGA cards.
fn is_of_use(fabric: &Fabric, id: FunctionId) -> bool {
    match fabric.function(id).kind {
        FunctionKind::Gpu => fabric.moves_payload(id),
        FunctionKind::Nic | FunctionKind::Nvme | FunctionKind::Fpga => true,
        _ => false,
    }
}

fn cpu(cpu: &Cpu, node: Option<u32>, below: Vec<Element>) -> Element {
    let is_a_word = |vendor: &&str| {
        vendor.len() <= LONGEST_VENDOR && vendor.chars().all(|c| c == ' ' || c.is_ascii_graphic())
    };
    let vendor = cpu.vendor.as_deref().filter(is_a_word);
    let family = cpu.family.map(family_id);
    let (family, model) = match vendor {
        Some("AuthenticAMD") => (family, None),
        Some("GenuineIntel") => family.zip(cpu.model_number).unzip(),
        _ => (None, None),
    };
    Element::new("cpu")
        // As NCCL writes where /sys has no node.
        .with("numaid", Some(node.map_or(-1, i64::from)))
        .with("arch", vendor.and_then(arch))
        .with("vendor", vendor)
        .with("familyid", family)
        .with("modelid", model)
        .above(below)
}

fn arch(vendor: &str) -> Option<&'static str> {
    match vendor.trim() {
        "GenuineIntel" | "AuthenticAMD" | "HygonGenuine" | "CentaurHauls" | "Shanghai" => {
            Some("x86_64")
        }
        other => other.starts_with("CPU implementer ").then_some("arm64"),
    }
}

/// The base family and 16 times the extended one; `/proc/cpuinfo` has the sum.
fn family_id(family: u32) -> u64 {
    const BASE: u32 = 15;
    let extended = family.saturating_sub(BASE);
    u64::from(family - extended) + 16 * u64::from(extended)
}

/// The class, or as much of it as the kind says: NCCL has `0x03` and `0x02` for GPUs and NICs whose class it
/// cannot read.
fn class(function: &Function) -> Option<String> {
    let is_bridge = |class: u32| class >> 8 == CLASS_BRIDGE >> 8;
    let whole = |class: u32| Some(format!("{class:#08x}"));
    match (function.kind, function.class) {
        (kind, class) if kind.is_bridge() => {
            whole(class.filter(|&class| is_bridge(class)).unwrap_or(CLASS_BRIDGE))
        }
        (_, Some(class)) => whole(class),
        // NVM Express 1.4 section 2.1.5.
        (FunctionKind::Nvme, None) => whole(0x01_08_02),
        (FunctionKind::Gpu, None) => Some("0x03".to_owned()),
        (FunctionKind::Nic, None) => Some("0x02".to_owned()),
        (_, None) => None,
    }
}

/// The speed in the words of `max_link_speed`: NCCL knows `16.0 GT/s PCIe`, and takes others for 8 GT/s.
fn speed(link: LinkSpeed) -> String {
    let (whole, thousandths) = (link.megatransfers / 1000, link.megatransfers % 1000);
    let fraction = format!("{thousandths:03}");
    let fraction = fraction.trim_end_matches('0');
    format!("{whole}.{} GT/s PCIe", if fraction.is_empty() { "0" } else { fraction })
}

fn nic(function: &Function) -> Element {
    let names = function.kernel_names.iter().filter(|name| is_kernel_name(name));
    Element::new("nic").above(names.map(|name| Element::new("net").with("name", Some(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_words_of_sysfs() {
        let written = |megatransfers| speed(LinkSpeed { megatransfers, width: 4 });
        let found = [2_500, 5_000, 16_000, 64_000, 12_345].map(written);
        let expected = ["2.5", "5.0", "16.0", "64.0", "12.345"].map(|n| format!("{n} GT/s PCIe"));
        assert_eq!(found, expected);
    }

    #[test]
    fn families_are_split_as_by_cpuid() {
        assert_eq!([6, 15, 0x17, 0x19, 0x1a].map(family_id), [6, 15, 143, 175, 191]);
    }
}
