//! Every GPU, NIC and drive against every other, in the form of `nvidia-smi topo -m`, with the state of each pair.

use std::collections::HashMap;
use std::fmt::Write as _;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_reach::{Pair, RouteState, Verdict, judged_pairs};

use super::{label, port_kind};

/// Columns in this order, as `nvidia-smi` has GPUs before NICs.
const KINDS: [FunctionKind; 4] =
    [FunctionKind::Gpu, FunctionKind::Nic, FunctionKind::Nvme, FunctionKind::Fpga];

/// The states, each with its word in a cell and its meaning.
pub(super) const STATES: [(RouteState, &str, &str); 6] = [
    (RouteState::Direct, "direct", "between the devices, below the CPU or by a link of their own"),
    (RouteState::Expected, "expect", "direct, unless an unlikely fact holds"),
    (RouteState::ViaCpu, "cpu", "between the devices, through the CPU's root complex"),
    (RouteState::Host, "host", "through host memory"),
    (RouteState::Impossible, "no", "not possible"),
    (RouteState::Unknown, "?", "unknown; `peerlane doctor A B` says why"),
];
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

/// The best state of each pair, by both orders of its ends; a pair of no use has that of its better direction.
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
    let devices = devices(fabric);
    for &one in &devices {
        for &other in devices.iter().filter(|&&other| other != one) {
            states.entry((one, other)).or_insert_with(|| state_of_pair(fabric, one, other));
        }
    }
    states
}

fn state_of_pair(fabric: &Fabric, one: FunctionId, other: FunctionId) -> RouteState {
    let pair = Pair::new(fabric, one, other);
    let states = pair.payload_directions(fabric).map(|one| Verdict::new(fabric, one).state);
    states.min().unwrap_or(RouteState::Host)
}

fn cell(
    states: &HashMap<(FunctionId, FunctionId), RouteState>,
    row: FunctionId,
    column: FunctionId,
) -> &'static str {
    let state = states.get(&(row, column)).filter(|_| row != column);
    let found = state.and_then(|state| STATES.iter().find(|(one, ..)| one == state));
    found.map_or("", |(_, word, _)| word)
}
