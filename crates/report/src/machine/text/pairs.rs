//! Every GPU, NIC and drive against every other, in the form of `nvidia-smi topo -m`, with the state of each pair.

use std::collections::HashMap;
use std::fmt::Write as _;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_reach::{JudgedPairs, Pair, RouteState, Verdict, judged_pairs};

use super::{Labels, port_kind};

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
    let states = PairStates::new(fabric, judged_pairs(fabric));
    let table: Vec<Vec<Option<RouteState>>> = devices
        .iter()
        .map(|&row| {
            let cell = |&column: &FunctionId| (column != row).then(|| states.of_pair(row, column));
            devices.iter().map(cell).collect()
        })
        .collect();
    let is_used = |state| table.iter().flatten().any(|&one| one == Some(state));
    let legend = STATES.iter().filter(|(state, ..)| is_used(*state));
    let legend: String = legend.map(|(_, word, means)| format!("{word:6}  {means}\n")).collect();
    format!("{}\n{legend}", grid(fabric, &devices, &table))
}

/// Names of rows and columns with a cell for each two.
fn grid(fabric: &Fabric, devices: &[FunctionId], table: &[Vec<Option<RouteState>>]) -> String {
    let labels = Labels::new(fabric);
    let names: Vec<String> = devices.iter().map(|&id| labels.of(id)).collect();
    let rows: Vec<String> = devices
        .iter()
        .zip(&names)
        .map(|(&id, name)| match fabric.function(id).kind {
            // A GPU's name says what it is.
            FunctionKind::Gpu => name.clone(),
            kind => format!("{} {name}", port_kind(kind)),
        })
        .collect();
    let width = |name: &String| name.chars().count().max(STATES[0].1.len());
    let head = rows.iter().map(|row| row.chars().count()).max().unwrap_or_default();
    let mut text = format!("{:head$}", "");
    // Writing to a String cannot fail.
    for name in &names {
        let _ = write!(text, "  {name:>0$}", width(name));
    }
    text.push('\n');
    for (row, states) in rows.iter().zip(table) {
        let _ = write!(text, "{row:head$}");
        for (state, name) in states.iter().zip(&names) {
            let _ = write!(text, "  {:>1$}", state.map_or("", cell), width(name));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
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

/// Judged states by pairs, in both orders.
pub(super) struct PairStates<'a> {
    fabric: &'a Fabric,
    of_uses: HashMap<(FunctionId, FunctionId), RouteState>,
}

impl<'a> PairStates<'a> {
    pub(super) fn new(fabric: &'a Fabric, judged: Vec<JudgedPairs>) -> Self {
        let mut of_uses = HashMap::new();
        for pairs in judged {
            for (provider, initiator) in pairs.group.pairs() {
                for ends in [(provider, initiator), (initiator, provider)] {
                    let state = of_uses.entry(ends).or_insert(pairs.state);
                    *state = pairs.state.min(*state);
                }
            }
        }
        Self { fabric, of_uses }
    }

    /// The best state of two devices by a use, else by their directions.
    pub(super) fn of_pair(&self, one: FunctionId, other: FunctionId) -> RouteState {
        let by_directions = || Verdict::best(self.fabric, &Pair::new(self.fabric, one, other));
        let by_use = self.of_uses.get(&(one, other)).copied();
        by_use.unwrap_or_else(|| by_directions().map_or(RouteState::Host, |best| best.state))
    }
}

/// The word of a state in a cell.
fn cell(state: RouteState) -> &'static str {
    STATES.iter().find(|(one, ..)| *one == state).map_or("", |(_, word, _)| word)
}
