//! The answer for a whole machine in one line, about the devices that are there.

use peerlane_fabric::{Fabric, FunctionKind, Origin};
use peerlane_results::UseRecord;

/// The headline.
pub(super) fn headline(fabric: &Fabric, uses: &[UseRecord], steps: usize) -> String {
    if super::memory::leaves_pci_out(fabric) {
        return "what is possible here is not known: no PCI function is shown".to_owned();
    }
    let devices = devices(fabric);
    if uses.is_empty() {
        let here = if devices.is_empty() { "none that moves payload".to_owned() } else { devices };
        return format!("no two devices here could exchange payload directly: {here}");
    }
    let states: Vec<String> = uses.iter().map(state).collect();
    let steps = match steps {
        0 => "nothing to change".to_owned(),
        1 => "1 step below".to_owned(),
        count => format!("{count} steps below"),
    };
    format!("{devices}: {}; {steps}", states.join(", "))
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
    let kinds = [
        (FunctionKind::Gpu, "GPU"),
        (FunctionKind::Nic, "NIC"),
        (FunctionKind::Nvme, "drive"),
        (FunctionKind::Fpga, "FPGA card"),
    ];
    let counted = kinds.into_iter().filter_map(|(kind, word)| {
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
