//! Peers of AMD's and Intel's GPUs: options that the kernel was built without, and windows beyond a
//! GPU's address range.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Function, FunctionKind, IommuMode, Kernel, gpu};
use peerlane_reach::{Use, needs_translation};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, at, finding, fix, kernel, kernel_parameter, saw};

/// The command that shows the options.
const SHOW: &str =
    "`zgrep -E 'PCI_P2PDMA|HSA_AMD_P2P|MOVE_NOTIFY' /proc/config.gz /boot/config-$(uname -r)`";

/// An option that peers of these GPUs take.
struct KernelOption {
    name: &'static str,
    /// Its value; `None` if it is unknown.
    value: Option<bool>,
}

pub(super) fn examine(on: &mut Examination<'_>) {
    missing_options(on);
    window_out_of_reach(on);
}

/// The options of this kernel that its peers take: the last one only before Linux 7.1.
fn options(kernel: &Kernel, has_amd: bool) -> Vec<KernelOption> {
    let option = |name, value| KernelOption { name, value };
    let mut options = vec![option("CONFIG_PCI_P2PDMA", kernel.has_p2pdma)];
    if has_amd {
        options.push(option("CONFIG_HSA_AMD_P2P", kernel.has_amd_p2p));
    }
    options.push(option("CONFIG_DMABUF_MOVE_NOTIFY", kernel.notifies_moves()));
    options
}

fn missing_options(on: &mut Examination<'_>) {
    let is_of =
        |vendor| move |one: &Function| one.kind == FunctionKind::Gpu && one.vendor == Some(vendor);
    let has_amd = on.fabric.functions.iter().any(is_of(gpu::VENDOR_AMD));
    let has_intel = on.fabric.functions.iter().any(is_of(gpu::VENDOR_INTEL));
    if !has_amd && !has_intel {
        return;
    }
    let kernel = &on.fabric.kernel;
    let release = kernel.release.clone().unwrap_or_else(|| "unknown".to_owned());
    let options = options(kernel, has_amd);
    let counted = changed_by_options(on);
    let missing: Vec<&str> =
        options.iter().filter(|one| one.value == Some(false)).map(|one| one.name).collect();
    if missing.is_empty() {
        let unknown: Vec<&str> =
            options.iter().filter(|one| one.value.is_none()).map(|one| one.name).collect();
        // A description without a kernel is of no particular one.
        if !unknown.is_empty() && !counted.is_empty() && kernel.release.is_some() {
            let what = format!("whether kernel {release} is built with {}", unknown.join(" and "));
            on.unknown(what, format!("its configuration: {SHOW}"));
        }
        return;
    }
    if counted.is_empty() {
        return;
    }
    let found = Finding {
        evidence: missing.iter().map(|name| not_set(&release, name)).collect(),
        fix: Some(built_with(has_amd)),
        ..finding(
            FindingKind::KernelOptionMissing,
            Cost::Routes,
            format!("kernel {release}"),
            format!(
                "kernel {release} is built without {}: {}",
                missing.join(" and "),
                effects(&missing)
            ),
        )
    };
    on.add(found, BearsOn::Counted(counted));
}

fn not_set(release: &str, name: &str) -> Evidence {
    saw(format!("/boot/config-{release} or /proc/config.gz"), format!("{name} is not set"))
}

/// The cost of each missing option, in one sentence.
fn effects(missing: &[&str]) -> String {
    let effects = missing.iter().map(|name| match *name {
        "CONFIG_HSA_AMD_P2P" => "amdgpu gives no GPU access to another",
        "CONFIG_DMABUF_MOVE_NOTIFY" => {
            "memory that others import from a GPU lies in host memory, without an error"
        }
        _ => "the kernel permits no route between devices",
    });
    effects.collect::<Vec<_>>().join("; ")
}

/// A kernel with all of them (NixOS/nixpkgs #447016, siderolabs/pkgs #1488).
fn built_with(has_amd: bool) -> Fix {
    let (word, option) = match has_amd {
        true => ("CONFIG_PCI_P2PDMA=y, CONFIG_HSA_AMD_P2P=y", "-e PCI_P2PDMA -e HSA_AMD_P2P"),
        false => ("CONFIG_PCI_P2PDMA=y", "-e PCI_P2PDMA"),
    };
    Fix {
        commands: vec![format!(
            "scripts/config {option} -e DMABUF_MOVE_NOTIFY   # in the kernel's source, then build and install it"
        )],
        ..fix(
            format!(
                "run a kernel with {word} and, before Linux 7.1, CONFIG_DMABUF_MOVE_NOTIFY=y: NixOS and Talos have \
                 them; from 7.1 on the last one is always in"
            ),
            Needs::Reboot,
        )
    }
}

/// The pairs with a GPU that are judged otherwise with every option.
fn changed_by_options(on: &Examination<'_>) -> BTreeMap<Use, usize> {
    let kernel = Kernel {
        has_p2pdma: Some(true),
        has_amd_p2p: Some(true),
        has_move_notify: Some(true),
        ..on.fabric.kernel.clone()
    };
    let mut counted = kernel::changed_pairs(on, &Fabric { kernel, ..on.fabric.clone() });
    counted.retain(|one, _| matches!(one, Use::GpuToGpu | Use::NetworkToGpu));
    counted
}

/// A window above the DMA mask of a peer, on a machine that does not translate.
fn window_out_of_reach(on: &mut Examination<'_>) {
    if !matches!(on.fabric.iommu, IommuMode::Off | IommuMode::Passthrough) {
        return;
    }
    let Some((owner, peer)) = needs_translation(on.fabric) else { return };
    let fabric = on.fabric;
    let (owner_word, peer_word) = (fabric.device_word(owner), fabric.device_word(peer));
    let bits = fabric.function(owner).bars.iter().find_map(|bar| bar.address_bits).unwrap_or(0);
    let found = Finding {
        evidence: vec![
            saw(
                format!("{}/resource", at(fabric.function(owner))),
                format!("BAR 0: {bits} address bits"),
            ),
            saw("/sys/kernel/iommu_groups/*/type", "no DMA or DMA-FQ"),
        ],
        fix: Some(translation(fabric)),
        ..finding(
            FindingKind::WindowOutOfReach,
            Cost::Routes,
            owner_word,
            format!(
                "BAR 0 lies above the addresses that {peer_word} can send, so amdgpu refuses peer access while no \
                 IOMMU translates: `iommu=pt` is wrong here"
            ),
        )
    };
    on.add(found, BearsOn::Functions(vec![Use::GpuToGpu], [owner, peer].into()));
}

/// The parameter that has the IOMMU translate, and the way without it.
fn translation(fabric: &Fabric) -> Fix {
    let is_intel = fabric.cpu.vendor.as_deref() == Some("GenuineIntel");
    let parameter = match (fabric.iommu, fabric.cpu.is_arm(), is_intel) {
        (IommuMode::Passthrough, true, _) => Some("iommu.passthrough=0"),
        (IommuMode::Passthrough, false, _) => Some("iommu=nopt"),
        (_, _, true) => Some("intel_iommu=on"),
        _ => None,
    };
    const FIRMWARE: &str = "or have the firmware place windows below 16 TiB (\"MMIO High Base\")";
    match parameter {
        Some(parameter) => {
            let what = format!("Let the IOMMU translate, {FIRMWARE}");
            kernel_parameter(fabric, &what, parameter, None)
        }
        None => fix(
            format!("switch the IOMMU on in the firmware's settings, {FIRMWARE}"),
            Needs::Reboot,
        ),
    }
}

/// The warning against passthrough, if that would take peer access from GPUs that have it.
pub(super) fn against_passthrough(fabric: &Fabric) -> Option<String> {
    let (owner, peer) = needs_translation(fabric)?;
    Some(format!(
        "`iommu=pt` is no remedy here, since BAR 0 of {} lies above the addresses that {} can send, and amdgpu gives \
         access to it only while the IOMMU translates",
        fabric.device_word(owner),
        fabric.device_word(peer)
    ))
}
