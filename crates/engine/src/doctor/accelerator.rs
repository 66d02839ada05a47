//! GPUs and FPGA cards: the window onto their memory. Of the software above it, see [`super::stack`].

use peerlane_fabric::{Bar, Fabric, Function, FunctionId, Kind, Pairing};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{Chart, at, lenders, memory, saw};
use crate::pairs::{Dnas, card_pairs, pair_in_words};

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
                chart.findings.extend(no_window(fabric, function));
            }
            _ => {}
        }
    }
}

/// Whether the switch and the FPGA's DNA agree on which drive is whose. Either alone is enough; both at odds mean that
/// a module was put together otherwise, or that one of the two is not what it is taken for.
pub(super) fn pairs(fabric: &Fabric, dnas: &Dnas, chart: &mut Chart) {
    for (name, why) in dnas.unknown() {
        chart.unknown(
            format!("the DNA of {name}, by which a SmartSSD's drive and FPGA name each other: {why}"),
            "root, and a kernel without CONFIG_IO_STRICT_DEVMEM for the card (`iomem=relaxed` among its parameters)",
        );
    }
    for pair in card_pairs(fabric, dnas) {
        let Pairing::Contradiction { switch, dna } = pair.pairing else { continue };
        let shown = |id: FunctionId| {
            let text = dnas.of(id).map_or_else(|| "none".to_owned(), |dna| dna.to_string());
            saw(format!("DNA of {}", fabric.function(id).name), text)
        };
        let evidence = [Some(pair.card), Some(switch), dna].into_iter().flatten().map(shown);
        chart.findings.push(Finding {
            kind: FindingKind::FpgaPairing,
            cost: Cost::Speed,
            object: fabric.function(pair.card).name.clone(),
            what: pair_in_words(fabric, pair).unwrap_or_default(),
            evidence: evidence.collect(),
            fix: Some(Fix {
                what: "measure which of them is nearer, and name it; the switch says what the way is, and the DNA what \
                       was built"
                    .to_owned(),
                commands: vec![format!(
                    "peerlane bench stream --source DRIVE --target fpga:{}",
                    fabric.function(pair.card).name
                )],
                weakens: None,
                needs: Needs::Nothing,
            }),
        });
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

/// Whether XRT has no window to lend a card's memory through: it takes the first of at least 256 MiB (`xocl_p2p`
/// of the driver xocl 2.25). Function 0 of a card is for its management and has none.
pub(super) fn lacks_xrt_window(function: &Function) -> bool {
    let largest = function.bars.iter().map(|bar| bar.size).max();
    function.kind == Kind::Fpga
        && function.driver.is_named("xocl")
        && largest.is_some_and(|size| size < SMALL_WINDOW)
}

fn no_window(fabric: &Fabric, function: &Function) -> Option<Finding> {
    if !lacks_xrt_window(function) {
        return None;
    }
    let largest = function.bars.iter().max_by_key(|bar| bar.size)?;
    let possible = match largest.largest {
        Some(possible) => format!("; it can be given {possible}"),
        None => String::new(),
    };
    let others_lend = !lenders(fabric).is_empty()
        || fabric.functions.iter().any(memory::has_cmb)
        || !memory::by_its_driver(fabric).is_empty();
    Some(Finding {
        kind: FindingKind::SmallWindow,
        cost: if others_lend { Cost::Routes } else { Cost::Everything },
        object: function.name.clone(),
        what: format!(
            "its largest window (BAR {}) shows {} to peers, and XRT lends memory through one of \
             {SMALL_WINDOW} at least{possible}",
            largest.index, largest.size
        ),
        evidence: vec![saw(format!("{}/resource", at(function)), largest.size.to_string())],
        fix: Some(window_fix(function)),
    })
}

/// A card keeps the size of its window over a warm restart alone, and firmware gives address space for it then
/// (XRT documentation, "PCIe Peer-to-Peer").
fn window_fix(function: &Function) -> Fix {
    let address = function.address.map_or_else(|| "ADDRESS".to_owned(), |at| at.to_string());
    Fix {
        what: "switch on \"Above 4G decoding\" in the firmware's settings, switch peer-to-peer on, and restart the \
               machine without switching it off; a platform (shell) without peer-to-peer must be exchanged"
            .to_owned(),
        commands: vec![
            format!(
                "sudo xrt-smi configure --device {address} --p2p enable   # xbutil before XRT 2024.2"
            ),
            "sudo systemctl reboot".to_owned(),
        ],
        weakens: None,
        needs: Needs::Reboot,
    }
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
