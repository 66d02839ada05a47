//! Whether the kernel offers peer-to-peer memory to programs at all.

use peerlane_fabric::{Fabric, Function};
use peerlane_reach::kernel_refusal;
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};

use super::{Chart, drives, lenders, memory, saw};
use crate::plan::card::{self, Taken};

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let kernel = &fabric.kernel;
    let release = kernel.release.as_deref().unwrap_or("unknown");
    let Some(what) = kernel_refusal(kernel) else {
        // A lender is proof; a description without a kernel is of no particular one.
        let matters = lenders(fabric).is_empty() && !drives(fabric).is_empty();
        if kernel.has_p2pdma.is_none() && kernel.release.is_some() && matters {
            chart.unknown(
                format!("whether kernel {release} is built with CONFIG_PCI_P2PDMA"),
                "its configuration: `zgrep PCI_P2PDMA /proc/config.gz /boot/config-$(uname -r)`",
            );
        }
        return;
    };
    let (kind, evidence) = match kernel.has_p2pdma {
        Some(false) => (
            FindingKind::KernelWithoutP2pdma,
            saw(
                format!("/boot/config-{release} or /proc/config.gz"),
                "CONFIG_PCI_P2PDMA is not set",
            ),
        ),
        _ => (FindingKind::KernelTooOld, saw("/proc/sys/kernel/osrelease", release)),
    };
    let own_way = by_own_way(fabric);
    let has_other_memory =
        !lenders(fabric).is_empty() || fabric.functions.iter().any(memory::has_cmb);
    let mut fix = fix(fabric);
    let (cost, what) = match own_way {
        // Another kernel would take the only way.
        Some(_) if !has_other_memory => return,
        None => (Cost::Everything, what),
        Some(card) => {
            fix.weakens = Some(format!("XRT's own way to {} is gone then", card.name));
            (
                Cost::Routes,
                format!(
                    "{what}; drives reach the memory of {} all the same, by XRT's own way (docs/fpga.md)",
                    card.name
                ),
            )
        }
    };
    chart.findings.push(Finding {
        kind,
        cost,
        object: format!("kernel {release}"),
        what,
        evidence: vec![evidence],
        fix: Some(fix),
    });
}

/// A card that drives reach by XRT's own way on this kernel, once its window is large enough.
fn by_own_way(fabric: &Fabric) -> Option<&Function> {
    let is_plain = card::taken_by(&fabric.kernel) == Taken::AsPlain;
    fabric.functions.iter().find(|card| card::is_lent_by_xrt(card)).filter(|_| is_plain)
}

/// Another kernel; on a machine without drives that comes second.
fn fix(fabric: &Fabric) -> Fix {
    if drives(fabric).is_empty() {
        return Fix {
            what: "first a drive; another kernel alone makes nothing possible here".to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Hardware,
        };
    }
    Fix {
        what: "run a kernel that has it: Debian from 6.13.7 on (trixie-backports), Ubuntu 24.04, \
               Fedora, RHEL 9.2 and later have; in a virtual machine whose host supplies the kernel, \
               the host decides"
            .to_owned(),
        commands: vec![
            "sudo apt install -t trixie-backports linux-image-amd64   # Debian 13".to_owned(),
            "sudo apt install linux-image-generic   # Ubuntu 24.04".to_owned(),
            "sudo dnf upgrade kernel   # Fedora, RHEL".to_owned(),
        ],
        weakens: None,
        needs: Needs::Reboot,
    }
}
