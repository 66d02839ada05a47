//! GPUs and FPGA cards: the window onto their memory. Of the software above it, see [`super::gpu_stack`]
//! and [`super::xrt_stack`].

use peerlane_fabric::gpu::{VENDOR_AMD, VENDOR_NVIDIA};
use peerlane_fabric::{Bar, Function, FunctionId, FunctionKind, Pairing};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{BearsOn, Examination, at, finding, fix, saw};
use crate::cards::{Dnas, card_pairs, pair_in_words};

/// Window of a GPU without Resizable BAR.
const SMALL_WINDOW: Bytes = Bytes::mib(256);

/// Examines the windows of every GPU and card.
pub(super) fn examine(on: &mut Examination<'_>) {
    let all: Vec<FunctionId> = on.fabric.iter().map(|(id, _)| id).collect();
    examine_those(on, &all);
}

/// Examines the windows of these functions.
pub(super) fn examine_those(on: &mut Examination<'_>, functions: &[FunctionId]) {
    for &id in functions {
        let function = on.fabric.function(id);
        let found = match function.kind {
            FunctionKind::Gpu => [small_window(function), None],
            FunctionKind::Fpga => [window_off(function), no_window(function)],
            _ => continue,
        };
        for one in found.into_iter().flatten() {
            on.add(one, BearsOn::functions([id]));
        }
    }
}

/// Checks that the switch and the FPGA's DNA agree on the drive of each card. Either alone is
/// enough. If they differ, a module was put together otherwise, or one of the two was misread.
pub(super) fn pairs(on: &mut Examination<'_>, dnas: &Dnas) {
    let fabric = on.fabric;
    for (name, why) in dnas.unknown() {
        on.unknown(
            format!("the DNA of {name}, by which a SmartSSD's drive and FPGA name each other: {why}"),
            "root, and a kernel without CONFIG_IO_STRICT_DEVMEM for the card (`iomem=relaxed` among its parameters)",
        );
    }
    for pair in card_pairs(fabric, dnas) {
        let Pairing::Contradiction { switch, dna } = pair.pairing else { continue };
        let shown = |id: FunctionId| {
            let text = dnas.get(id).map_or_else(|| "none".to_owned(), |dna| dna.to_string());
            saw(format!("DNA of {}", fabric.function(id).name), text)
        };
        let evidence = [Some(pair.card), Some(switch), dna].into_iter().flatten().map(shown);
        let found = Finding {
            evidence: evidence.collect(),
            fix: Some(Fix {
                commands: vec![format!(
                    "peerlane bench stream --source DRIVE --target fpga:{}",
                    fabric.function(pair.card).name
                )],
                ..fix(
                    "measure which of them is nearer, and name it; the switch says what the path is, and the DNA what \
                       was built",
                    Needs::Nothing,
                )
            }),
            ..finding(
                FindingKind::FpgaPairing,
                Cost::Speed,
                fabric.function(pair.card).name.clone(),
                pair_in_words(fabric, pair).unwrap_or_default(),
            )
        };
        on.add(found, BearsOn::functions([pair.card]));
    }
}

fn small_window(function: &Function) -> Option<Finding> {
    if !matches!(function.vendor, Some(VENDOR_NVIDIA | VENDOR_AMD)) {
        return None;
    }
    let window =
        function.bars.iter().filter(|bar| bar.is_prefetchable).max_by_key(|bar| bar.size)?;
    let Bar { size, largest: Some(largest), index, .. } = *window else { return None };
    let (what, advice, needs) = if size <= SMALL_WINDOW && largest > size {
        (
            format!(
                "its window (BAR {index}) shows {size} of its memory to peers, and could show {largest}"
            ),
            "switch on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware's settings",
            Needs::Reboot,
        )
    } else if is_limited_by_card(function, size, largest) {
        let memory = function.memory_size.map(|memory| format!(" of {memory}"));
        let memory = memory.unwrap_or_default();
        (
            format!(
                "its window (BAR {index}) shows {size}{memory} to peers, and the card offers no more than {largest}: its \
                 VBIOS or its display mode decides, and no setting of the machine's firmware helps"
            ),
            "a data-centre board may have a compute mode with a larger window (NVIDIA's displaymodeselector), others a \
             newer VBIOS",
            Needs::Hardware,
        )
    } else {
        return None;
    };
    Some(Finding {
        evidence: vec![saw(
            format!("{}/resource{index}_resize", at(function)),
            largest.to_string(),
        )],
        fix: Some(fix(advice, needs)),
        ..finding(FindingKind::SmallWindow, Cost::Routes, function.name.clone(), what)
    })
}

/// Returns whether the sizes that a card offers end below its memory. If the memory is unknown: a
/// window of the size without Resizable BAR is less than the memory of any GPU that computes.
fn is_limited_by_card(function: &Function, size: Bytes, largest: Bytes) -> bool {
    size == largest && largest < function.memory_size.unwrap_or(Bytes(SMALL_WINDOW.0 + 1))
}

/// True when XRT has no window to lend a card's memory through. It takes the first of at least 256
/// MiB (`xocl_p2p` of the driver xocl 2.25). Function 0 of a card is for its management and has
/// none.
fn lacks_xrt_window(function: &Function) -> bool {
    let largest = function.bars.iter().map(|bar| bar.size).max();
    function.kind == FunctionKind::Fpga
        && function.driver.is_named("xocl")
        && largest.is_some_and(|size| size < SMALL_WINDOW)
}

fn no_window(function: &Function) -> Option<Finding> {
    if !lacks_xrt_window(function) {
        return None;
    }
    let largest = function.bars.iter().max_by_key(|bar| bar.size)?;
    let possible = match largest.largest {
        Some(possible) => format!("; it can be given {possible}"),
        None => String::new(),
    };
    Some(Finding {
        evidence: vec![saw(format!("{}/resource", at(function)), largest.size.to_string())],
        fix: Some(window_fix(function)),
        ..finding(
            FindingKind::SmallWindow,
            Cost::Routes,
            function.name.clone(),
            format!(
                "its largest window (BAR {}) shows {} to peers, and XRT lends memory through one of \
             {SMALL_WINDOW} at least{possible}",
                largest.index, largest.size
            ),
        )
    })
}

/// A card keeps the size of its window over a warm restart alone, and firmware gives address space for it then
/// (XRT documentation, "PCIe Peer-to-Peer").
fn window_fix(function: &Function) -> Fix {
    let address = function.address.map_or_else(|| "ADDRESS".to_owned(), |at| at.to_string());
    Fix {
        commands: vec![
            format!(
                "sudo xrt-smi configure --device {address} --p2p enable   # xbutil before XRT 2024.2"
            ),
            "sudo systemctl reboot".to_owned(),
        ],
        ..fix(
            "switch on \"Above 4G decoding\" in the firmware's settings, switch peer-to-peer on, and restart the \
               machine without switching it off; a platform (shell) without peer-to-peer must be exchanged",
            Needs::Reboot,
        )
    }
}

fn window_off(function: &Function) -> Option<Finding> {
    (function.fpga_p2p == Some(false)).then(|| Finding {
        evidence: vec![saw(format!("{}/p2p*/p2p_enable", at(function)), "0")],
        fix: Some(Fix {
            commands: vec![format!(
                "echo 1 | sudo tee /sys/bus/pci/devices/{}/p2p*/p2p_enable",
                function
                    .address
                    .map_or_else(|| function.name.clone(), |address| address.to_string())
            )],
            ..fix("enable it; if the window does not fit, power-cycle the machine", Needs::Nothing)
        }),
        ..finding(
            FindingKind::FpgaWindowOff,
            Cost::Routes,
            function.name.clone(),
            "the card does not lend its memory to peers",
        )
    })
}
