//! One device: its facts, its path to the CPU, and the state of each of its pairs.

use std::fmt::Write as _;

use peerlane_fabric::{Fabric, FunctionId, Parent};
use peerlane_reach::{RouteState, judged_of};

use super::Labels;
use super::lines::{details, heading, line};
use super::pairs::{PairStates, STATES, devices};
use crate::plain::plain;

/// The device in a line and its details, then ports up to the host bridge, then its pairs by state.
pub fn device(fabric: &Fabric, id: FunctionId) -> String {
    let labels = Labels::new(fabric);
    let mut text = format!("{}\n", plain(&line(fabric, &labels, id)));
    // Writing to a String cannot fail.
    for detail in details(fabric, id) {
        let _ = writeln!(text, "    {}", plain(&detail));
    }
    let _ = writeln!(text, "on {}\n\npath to the CPU:", heading(fabric));
    let mut parent = fabric.function(id).parent;
    while let Parent::Function(port) = parent {
        let _ = writeln!(text, "  {}", plain(&line(fabric, &labels, port)));
        parent = fabric.function(port).parent;
    }
    let bridge = &fabric.bridges[fabric.bridge_of(id).0];
    let node = bridge.numa_node.map(|node| format!(", node {node}")).unwrap_or_default();
    let _ = writeln!(text, "  {} host bridge{node}", plain(&bridge.name));
    text + &states_of(fabric, &labels, id)
}

fn states_of(fabric: &Fabric, labels: &Labels, id: FunctionId) -> String {
    let states = PairStates::new(fabric, judged_of(fabric, id));
    let others = devices(fabric).into_iter().filter(|&other| other != id);
    let others: Vec<(FunctionId, RouteState)> =
        others.map(|other| (other, states.of_pair(id, other))).collect();
    let mut text = String::new();
    for (state, _, meaning) in STATES {
        let names = others.iter().filter(|(_, found)| *found == state);
        let names: Vec<String> = names.map(|&(other, _)| labels.of(other)).collect();
        if names.is_empty() {
            continue;
        }
        if text.is_empty() {
            text.push_str("\npairs with:\n");
        }
        let _ = writeln!(text, "  {}", names.join(", "));
        let _ = writeln!(text, "    {meaning}");
    }
    if text.is_empty() {
        "\nno other device here exchanges payload with it\n".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "
        sw upstream-port
          down downstream-port
            a nvme p2pmem = { size = '64M' }
            b nvme";

    #[test]
    fn path_goes_up_and_pairs_have_states() {
        let fabric = peerlane_testing::machine(MACHINE);
        let text = device(&fabric, fabric.find("a").expect("a"));
        let places: Vec<_> =
            ["a (NVMe)", "path to the CPU:", "down (", "sw (", "host bridge", "pairs with:", "  b"]
                .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} in {text}")))
                .to_vec();
        assert!(places.is_sorted(), "{text}");
    }
}
