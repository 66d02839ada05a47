//! Kernels that offer no peer-to-peer memory to programs at all.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Function, Kernel};
use peerlane_reach::{CardPages, JudgedPairs, Use, is_lent_by_xrt, kernel_refusal};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, finding, fix, lenders, memory, saw};

/// Release of a kernel that has everything that is judged here.
const NEWEST: &str = "7.3.4";

pub(super) fn examine(on: &mut Examination<'_>) {
    let kernel = &on.fabric.kernel;
    let release = kernel.release.clone().unwrap_or_else(|| "unknown".to_owned());
    let Some(what) = kernel_refusal(kernel) else {
        // A lender is proof; a description without a kernel is of no particular one.
        let matters = lenders(on.fabric).is_empty() && on.has_use(&super::iommu::OF_DRIVES);
        if kernel.has_p2pdma.is_none() && kernel.release.is_some() && matters {
            on.unknown(
                format!("whether kernel {release} is built with CONFIG_PCI_P2PDMA"),
                "its configuration: `zgrep PCI_P2PDMA /proc/config.gz /boot/config-$(uname -r)`",
            );
        }
        return;
    };
    let counted = changed_by_another(on);
    let has_other_memory =
        !lenders(on.fabric).is_empty() || on.fabric.functions.iter().any(memory::has_cmb);
    let bears_on = if counted.is_empty() && has_other_memory {
        BearsOn::Uses(vec![Use::DriveToDrive, Use::NetworkToDrive])
    } else {
        BearsOn::Counted(counted)
    };
    if bears_on.count(&on.judged).1 == 0 {
        return;
    }
    let (kind, evidence) = match kernel.has_p2pdma {
        Some(false) => (
            FindingKind::KernelWithoutP2pdma,
            saw(
                format!("/boot/config-{release} or /proc/config.gz"),
                "CONFIG_PCI_P2PDMA is not set",
            ),
        ),
        _ => (FindingKind::KernelTooOld, saw("/proc/sys/kernel/osrelease", release.clone())),
    };
    let mut fix = another_kernel(on.fabric.cpu.is_arm());
    let what = match by_own_way(on.fabric) {
        // Another kernel would take the only way.
        Some(_) if !has_other_memory => return,
        None => what,
        Some(card) => {
            fix.weakens = Some(format!("XRT's own path to {} is lost", card.name));
            format!(
                "{what}; drives still reach the memory of {} by XRT's own path (docs/fpga.md)",
                card.name
            )
        }
    };
    let found = Finding {
        evidence: vec![evidence],
        fix: Some(fix),
        ..finding(kind, Cost::Routes, format!("kernel {release}"), what)
    };
    on.add(found, bears_on);
}

/// The pairs that are judged otherwise on a kernel that has it all.
fn changed_by_another(on: &Examination<'_>) -> BTreeMap<Use, usize> {
    let kernel = Kernel {
        release: Some(NEWEST.to_owned()),
        has_p2pdma: Some(true),
        ..on.fabric.kernel.clone()
    };
    changed_pairs(on, &Fabric { kernel, ..on.fabric.clone() })
}

/// The pairs that are judged otherwise on the same machine with another kernel.
pub(super) fn changed_pairs(on: &Examination<'_>, other: &Fabric) -> BTreeMap<Use, usize> {
    // Groups do not depend on the kernel, so they come in the same order.
    let judged = on.subject.judge(other);
    let mut counted = BTreeMap::new();
    // Cards of XRT work without P2PDMA, and with it they may not.
    let is_card = |pairs: &JudgedPairs| pairs.of_use == Use::StorageToFpga;
    for (one, other) in on.judged.iter().zip(&judged).filter(|(one, _)| !is_card(one)) {
        if (one.state, &one.facts) != (other.state, &other.facts) {
            *counted.entry(one.of_use).or_insert(0) += one.group.count;
        }
    }
    counted
}

/// A card that drives reach by XRT's own way on this kernel, once its window is large enough.
fn by_own_way(fabric: &Fabric) -> Option<&Function> {
    let is_plain = CardPages::new(&fabric.kernel) == CardPages::Plain;
    fabric.functions.iter().find(|card| is_lent_by_xrt(card)).filter(|_| is_plain)
}

/// Kernels of distributions that have it (hipFile documentation, and their configurations).
fn another_kernel(is_arm: bool) -> Fix {
    let architecture = if is_arm { "arm64" } else { "amd64" };
    Fix {
        commands: vec![
            format!(
                "sudo apt install -t trixie-backports linux-image-{architecture}   # Debian 13"
            ),
            "sudo apt install linux-generic-hwe-22.04   # Ubuntu 22.04: 6.8 instead of 5.15"
                .to_owned(),
            "sudo apt install linux-image-generic   # Ubuntu 24.04".to_owned(),
            "sudo dnf upgrade kernel   # Fedora".to_owned(),
        ],
        ..fix(
            "run a kernel that has it: Debian from 6.13.7 on (trixie-backports), Ubuntu 24.04, Ubuntu 22.04 \
             with its hardware enablement kernel, Fedora; RHEL 9.2 and later have CONFIG_PCI_P2PDMA in \
             their 5.14, and whether it maps the memory is unknown; in a virtual machine whose host \
             supplies the kernel, the host decides",
            Needs::Reboot,
        )
    }
}
