//! GPUs and FPGA cards: the window onto their memory. Of the software above it, see [`super::stack`].

use peerlane_fabric::{Bar, Fabric, Function, Kind};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{Chart, at, saw};

pub(super) const VENDOR_NVIDIA: u16 = 0x10de;
pub(super) const VENDOR_AMD: u16 = 0x1002;
/// A window that size is what a GPU shows without Resizable BAR.
const SMALL_WINDOW: Bytes = Bytes::mib(256);

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    for (_, function) in fabric.iter() {
        match function.kind {
            Kind::Gpu => chart.findings.extend(small_window(function)),
            Kind::Fpga => {
                chart.findings.extend(window_off(function));
                chart.findings.extend(no_window(function));
            }
            _ => {}
        }
    }
}

fn small_window(function: &Function) -> Option<Finding> {
    if !matches!(function.vendor, Some(VENDOR_NVIDIA | VENDOR_AMD)) {
        return None;
    }
    let window =
        function.bars.iter().filter(|bar| bar.is_prefetchable).max_by_key(|bar| bar.size)?;
    let Bar { size, largest: Some(largest), index, .. } = *window else { return None };
    (size <= SMALL_WINDOW && largest > size).then(|| Finding {
        kind: FindingKind::SmallWindow,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: format!(
            "its window (BAR {index}) shows {size} of its memory to peers, and could show {largest}"
        ),
        evidence: vec![saw(
            format!("{}/resource{index}_resize", at(function)),
            largest.to_string(),
        )],
        fix: Some(Fix {
            what:
                "switch on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware's settings"
                    .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}

/// XRT lends memory through the first window of at least 256 MiB, and none where there is no such
/// (`xocl_p2p` of the driver xocl 2.25); function 0 of a card is for its management and has none.
fn no_window(function: &Function) -> Option<Finding> {
    if function.driver.as_deref() != Some("xocl") || function.bars.is_empty() {
        return None;
    }
    let largest = function.bars.iter().max_by_key(|bar| bar.size)?;
    (largest.size < SMALL_WINDOW).then(|| Finding {
        kind: FindingKind::SmallWindow,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: format!(
            "its largest window (BAR {}) shows {} to peers, and XRT lends memory through one of \
             {SMALL_WINDOW} at least",
            largest.index, largest.size
        ),
        evidence: vec![saw(format!("{}/resource", at(function)), largest.size.to_string())],
        fix: Some(Fix {
            what: "switch on \"Above 4G decoding\" in the firmware's settings; a platform (shell) without \
                   peer-to-peer must be exchanged for one that has it"
                .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Hardware,
        }),
    })
}

fn window_off(function: &Function) -> Option<Finding> {
    (function.fpga_p2p == Some(false)).then(|| Finding {
        kind: FindingKind::FpgaWindowOff,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: "the card does not lend its memory to peers".to_owned(),
        evidence: vec![saw(format!("{}/p2p*/p2p_enable", at(function)), "0")],
        fix: Some(Fix {
            what: "switch it on; where the window does not fit, the machine must be switched off and on"
                .to_owned(),
            commands: vec![format!(
                "echo 1 | sudo tee /sys/bus/pci/devices/{}/p2p*/p2p_enable",
                function.address.map_or_else(|| function.name.clone(), |address| address.to_string())
            )],
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}
