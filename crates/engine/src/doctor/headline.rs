//! The answer for a whole machine in one line, about the devices that are there.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Origin};
use peerlane_reach::{PeerMemory, kernel_refusal};
use peerlane_results::UseRecord;

use super::{Examination, abbreviated};

/// Kinds of devices that move payload.
const KINDS: [(FunctionKind, &str); 4] = [
    (FunctionKind::Gpu, "GPU"),
    (FunctionKind::Nic, "NIC"),
    (FunctionKind::Nvme, "drive"),
    (FunctionKind::Fpga, "FPGA card"),
];
/// Functions named before they are only counted.
const MAX_NAMES: usize = 3;

/// Functions of which no class is shown, so that they may be devices of uses.
struct HiddenDevices {
    reason: String,
    command: &'static str,
}

impl HiddenDevices {
    fn new(fabric: &Fabric) -> Option<Self> {
        let hidden = fabric.unclassified();
        let first = fabric.function(*hidden.first()?);
        let (place, command) = match first.lines {
            Some(_) => ("text", "sudo lspci -Dvvvnn"),
            None => ("tree", "sudo peerlane capture -o machine.tar.zst"),
        };
        let names: Vec<String> = hidden.iter().map(|&id| fabric.device_word(id)).collect();
        let reason = if fabric.functions.iter().all(|one| one.class.is_none()) {
            format!("the {place} shows no classes")
        } else {
            format!("the {place} shows no class of {}", abbreviated(&names, MAX_NAMES))
        };
        Some(Self { reason, command })
    }
}

/// Notes that devices of uses may be missing.
pub(super) fn examine(on: &mut Examination<'_>) {
    if let Some(HiddenDevices { reason, command }) = HiddenDevices::new(on.fabric) {
        on.unknown(
            format!("which functions are GPUs, drives or NICs: {reason}"),
            format!("`{command}`"),
        );
    }
}

/// Returns the reason why devices of uses may not be among those that are known; `None` where all are known.
pub(super) fn hidden_devices(fabric: &Fabric) -> Option<String> {
    if super::memory::leaves_pci_out(fabric) {
        return Some("no PCI function is shown".to_owned());
    }
    let HiddenDevices { reason, command } = HiddenDevices::new(fabric)?;
    Some(format!("{reason}; run `{command}`"))
}

/// The headline.
pub(super) fn headline(fabric: &Fabric, uses: &[UseRecord], steps: usize) -> String {
    let devices = devices(fabric);
    if uses.is_empty() {
        return match hidden_devices(fabric) {
            Some(reason) if devices.is_empty() => {
                format!("what is possible here is not known: {reason}")
            }
            Some(reason) => format!("{devices}; what else is possible is not known: {reason}"),
            None => without_uses(fabric, &devices),
        };
    }
    let states: Vec<String> = uses.iter().map(state).collect();
    let steps = match steps {
        0 => "nothing to change".to_owned(),
        1 => "1 step below".to_owned(),
        count => format!("{count} steps below"),
    };
    format!("{devices}: {}; {steps}", states.join(", "))
}

/// The negative answer, with what is missing.
fn without_uses(fabric: &Fabric, devices: &str) -> String {
    let all = fabric.iter().map(|(id, _)| id);
    let movers: Vec<FunctionId> = all.filter(|&id| fabric.moves_payload(id)).collect();
    let (answer, missing_too) = match movers[..] {
        [] => return "no GPUs, NVMe drives, RDMA NICs or FPGA cards found".to_owned(),
        [only] => {
            let (kind, name) = (kind_word(fabric.function(only).kind), fabric.device_word(only));
            let nothing = "and no second device: nothing to exchange payload with";
            (format!("one {kind} ({name}) {nothing}"), "also missing")
        }
        _ => (format!("{devices}: no two of them exchange payload"), "missing"),
    };
    match missing(fabric, &movers) {
        list if list.is_empty() => answer,
        list => format!("{answer}; {missing_too}: {}", list.join(", ")),
    }
}

/// What payload between devices takes, besides two of them, and is known not to be here.
fn missing(fabric: &Fabric, movers: &[FunctionId]) -> Vec<&'static str> {
    let may_lend = movers.iter().any(|&id| PeerMemory::new(fabric, id) != PeerMemory::Absent);
    let has_nic = movers.iter().any(|&id| fabric.function(id).kind == FunctionKind::Nic);
    let is_refused = kernel_refusal(&fabric.kernel).is_some();
    let memory = "memory to meet in (a GPU, an FPGA card, or a drive with a CMB)";
    [
        (!may_lend).then_some(memory),
        (may_lend && has_nic && movers.len() > 1).then_some("RDMA of the NIC"),
        (is_refused && fabric.kernel.has_p2pdma == Some(false))
            .then_some("CONFIG_PCI_P2PDMA in the kernel"),
        (is_refused && fabric.kernel.has_p2pdma != Some(false)).then_some("Linux 6.2 or later"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn kind_word(kind: FunctionKind) -> &'static str {
    match KINDS.into_iter().find(|(one, _)| *one == kind) {
        Some((FunctionKind::Nvme, _)) => "NVMe drive",
        Some((_, word)) => word,
        None => "device",
    }
}

/// A state in a few words; how many pairs, where others of the use have another one.
fn state(one: &UseRecord) -> String {
    let state = one.state;
    if one.pairs == one.of {
        format!("{} {state}", one.of_use)
    } else {
        format!("{} {state} ({} of {} pairs)", one.of_use, one.pairs, one.of)
    }
}

/// The devices that move payload, counted by kind.
fn devices(fabric: &Fabric) -> String {
    let counted = KINDS.into_iter().filter_map(|(kind, word)| {
        let of_kind =
            fabric.iter().filter(|(id, one)| one.kind == kind && fabric.moves_payload(*id));
        match of_kind.count() {
            0 => None,
            1 => Some(format!("1 {word}")),
            count => Some(format!("{count} {word}s")),
        }
    });
    let words = counted.collect::<Vec<_>>().join(", ");
    match fabric.origin {
        Origin::Text if !words.is_empty() => format!("{words} in the text"),
        _ => words,
    }
}
