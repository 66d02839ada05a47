//! Every GPU, NIC and drive against every other, in the form of `nvidia-smi topo -m`, with the state of each pair.

use std::collections::HashMap;
use std::fmt::Write as _;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_reach::{RouteState, judged_pairs};

use super::{label, port_kind};

/// Columns in this order, as `nvidia-smi` has GPUs before NICs.
const KINDS: [FunctionKind; 4] =
    [FunctionKind::Gpu, FunctionKind::Nic, FunctionKind::Nvme, FunctionKind::Fpga];

/// The states, each with its word in a cell and its meaning.
pub(super) const STATES: [(RouteState, &str, &str); 6] = [
    (RouteState::Direct, "direct", "direct: between the devices, below the CPU"),
    (RouteState::Expected, "expect", "expected direct, unless an unlikely fact holds"),
    (RouteState::ViaCpu, "cpu", "via CPU: between the devices, through the CPU's root complex"),
    (RouteState::Host, "host", "host: through host memory"),
    (RouteState::Impossible, "no", "not possible"),
    (RouteState::Unknown, "?", "unknown; `peerlane doctor A B` names the missing fact"),
];
/// Pairs that no use has, such as two NICs.
const NO_USE: &str = "-";

/// The matrix and its legend; one line where fewer than two devices move payload.
pub fn pairs(fabric: &Fabric) -> String {
    let devices = devices(fabric);
    if devices.len() < 2 {
        return "fewer than two GPUs, NICs, NVMe drives or FPGA cards found\n".to_owned();
    }
    let names: Vec<String> = devices.iter().map(|&id| label(fabric, id)).collect();
    let rows: Vec<String> = devices
        .iter()
        .zip(&names)
        .map(|(&id, name)| match fabric.function(id).kind {
            // A GPU's name says what it is.
            FunctionKind::Gpu => name.clone(),
            kind => format!("{} {name}", port_kind(kind)),
        })
        .collect();
    let states = states(fabric);
    let width = |name: &String| name.chars().count().max(STATES[0].1.len());
    let head = rows.iter().map(|row| row.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, "{:head$}", "");
    for name in &names {
        let _ = write!(text, "  {name:>0$}", width(name));
    }
    text.push('\n');
    for (row, name) in devices.iter().zip(&rows) {
        let _ = write!(text, "{name:head$}");
        for (column, name) in devices.iter().zip(&names) {
            let _ = write!(text, "  {:>1$}", cell(&states, *row, *column), width(name));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push('\n');
    let is_used = |state: RouteState| states.values().any(|&one| one == state);
    for (_, word, meaning) in STATES.iter().filter(|(state, ..)| is_used(*state)) {
        let _ = writeln!(text, "{word:6}  {meaning}");
    }
    let _ = writeln!(text, "{NO_USE:6}  no use of the two kinds of device");
    text
}

/// Devices that move payload, in the order of their kinds.
pub(super) fn devices(fabric: &Fabric) -> Vec<FunctionId> {
    let of_kind = |kind: FunctionKind| {
        let all = fabric.iter().filter(move |(_, function)| function.kind == kind);
        all.map(|(id, _)| id).filter(|&id| fabric.moves_payload(id))
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// The best state of each pair, by both orders of its ends.
pub(super) fn states(fabric: &Fabric) -> HashMap<(FunctionId, FunctionId), RouteState> {
    let mut states = HashMap::new();
    for pairs in judged_pairs(fabric) {
        for &provider in &pairs.group.provider.members {
            for &initiator in &pairs.group.initiator.members {
                for ends in [(provider, initiator), (initiator, provider)] {
                    let state = states.entry(ends).or_insert(pairs.state);
                    *state = pairs.state.min(*state);
                }
            }
        }
    }
    states
}

fn cell(
    states: &HashMap<(FunctionId, FunctionId), RouteState>,
    row: FunctionId,
    column: FunctionId,
) -> &'static str {
    if row == column {
        return "";
    }
    let Some(state) = states.get(&(row, column)) else { return NO_USE };
    STATES.iter().find(|(one, ..)| one == state).map_or("", |(_, word, _)| word)
}
