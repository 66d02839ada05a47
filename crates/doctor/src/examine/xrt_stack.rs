//! Software that lets drives reach the memory of FPGA cards of XRT.

use peerlane_fabric::{Fabric, Function, FunctionKind};
use peerlane_reach::{CardPages, Use, card_risk, is_lent_by_xrt};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::gpu_stack::looked_for;
use super::{BearsOn, Examination, abbreviated, at, finding, fix, saw};

/// AMD's adaptive computing, once Xilinx: the cards of XRT.
const VENDOR_XILINX: u16 = 0x10ee;
const XRT: &str = "libxrt_coreutil.so.2";

pub(super) fn examine(on: &mut Examination<'_>) {
    let is_it =
        |one: &&Function| one.kind == FunctionKind::Fpga && one.vendor == Some(VENDOR_XILINX);
    let cards: Vec<&Function> = on.fabric.functions.iter().filter(is_it).collect();
    if cards.is_empty() {
        return;
    }
    let found = examine_cards(on, &cards);
    for one in found {
        on.add(one, BearsOn::Uses(vec![Use::StorageToFpga]));
    }
}

/// Looks for the driver `xocl`, which lends the memory, and the library that asks for it.
fn examine_cards(on: &mut Examination<'_>, cards: &[&Function]) -> Vec<Finding> {
    let fabric = on.fabric;
    let library = fabric.libraries.as_ref().map(|all| all.iter().any(|name| name == XRT));
    let has_driver = fabric.kernel.has_module("xocl");
    let mut missing = Vec::new();
    for (name, is_there, command) in [
        ("the driver xocl", has_driver, "cat /proc/modules"),
        ("libxrt_coreutil.so.2 (XRT)", library, "ldconfig -p | grep libxrt_coreutil"),
    ] {
        match is_there {
            Some(true) => {}
            Some(false) => missing.push(name),
            None => {
                on.unknown(format!("whether {name} is installed"), format!("`{command}`"));
            }
        }
    }
    if missing.is_empty() {
        return unbound(cards).into_iter().chain(kernel_of_cards(fabric, cards)).collect();
    }
    let mut evidence: Vec<Evidence> = has_driver
        .map(|is_there| {
            saw("/proc/modules", if is_there { "xocl is there" } else { "xocl is not" })
        })
        .into_iter()
        .collect();
    evidence.extend(looked_for(fabric, XRT));
    vec![Finding {
evidence,
fix: Some(Fix {
commands: vec![
                "sudo apt install -t trixie-backports libxrt2 libxrt-alveo2 xrt-xocl-dkms   # Debian 13"
                    .to_owned(),
            ],
..fix("install XRT; on Debian the driver is built for the kernel by xrt-xocl-dkms", Needs::Rebind)
}),
..finding(FindingKind::FpgaStackMissing, Cost::Routes, names(cards), format!("no program gets its memory without {}", missing.join(" and ")))
}]
}

/// Cards whose driver is loaded and bound to no function of theirs: `xocl` takes the user function, which
/// is not there before the card's platform (shell) runs. A description says nothing of drivers.
fn unbound(cards: &[&Function]) -> Option<Finding> {
    let seen: Vec<&Function> =
        cards.iter().copied().filter(|card| card.driver.name().is_some()).collect();
    if seen.is_empty() || cards.iter().any(|card| card.driver.is_named("xocl")) {
        return None;
    }
    let evidence = seen
        .iter()
        .map(|card| saw(format!("{}/driver", at(card)), card.driver.name().unwrap_or_default()));
    Some(Finding {
        evidence: evidence.collect(),
        fix: Some(Fix {
            commands: vec!["lspci -kd 10ee:".to_owned(), "sudo xrt-smi examine".to_owned()],
            ..fix(
                "check whether the card has a second function, and bind it; if not, flash its platform \
                   (shell) and power-cycle the machine",
                Needs::Reboot,
            )
        }),
        ..finding(
            FindingKind::FpgaStackMissing,
            Cost::Routes,
            names(cards),
            "the driver xocl is loaded and has no function of it, so that no program gets its memory",
        )
    })
}

/// A kernel that takes the window of a card for memory of a P2PDMA provider that is not there. A
/// card that its driver lends by the kernel's own call does not count.
fn kernel_of_cards(fabric: &Fabric, cards: &[&Function]) -> Option<Finding> {
    let bound: Vec<&Function> = cards.iter().copied().filter(|card| is_lent_by_xrt(card)).collect();
    if bound.is_empty() || CardPages::new(&fabric.kernel) != CardPages::Foreign {
        return None;
    }
    Some(Finding {
        evidence: vec![
            saw("the kernel's configuration", "CONFIG_PCI_P2PDMA is set"),
            saw(format!("{}/driver", at(bound[0])), "xocl"),
        ],
        fix: Some(Fix {
            commands: vec!["zgrep PCI_P2PDMA /proc/config.gz /boot/config-*".to_owned()],
            weakens: Some("the kernel does not check the route".to_owned()),
            ..fix(
                "boot a kernel without CONFIG_PCI_P2PDMA, e.g. Debian 13's 6.12: XRT's own path still works there (not \
                   tested), but the kernel then offers no P2P memory",
                Needs::Reboot,
            )
        }),
        ..finding(FindingKind::FpgaKernel, Cost::Routes, names(&bound), card_risk(&fabric.kernel)?)
    })
}

/// The first by name, and the number of the others.
fn names(cards: &[&Function]) -> String {
    let all: Vec<String> = cards.iter().map(|card| card.name.clone()).collect();
    format!("FPGA card {}", abbreviated(&all, 1))
}
