//! Tree of functions, with a line for those that matter.

use std::fmt::Write as _;

use peerlane_fabric::{BridgeId, Fabric, FunctionId, Parent};

use super::Labels;
use super::lines::{details, is_unclear, line};
use crate::plain::plain;

/// Tree of functions and the part of it that is shown; found in one pass over the functions.
pub(crate) struct FunctionTree<'a> {
    pub(crate) fabric: &'a Fabric,
    below_bridges: Vec<Vec<FunctionId>>,
    below: Vec<Vec<FunctionId>>,
    /// True when a function moves payload, offers memory, may do so for all that a text says, or is
    /// above one that does.
    matters: Vec<bool>,
}

impl<'a> FunctionTree<'a> {
    pub(crate) fn new(fabric: &'a Fabric) -> Self {
        let mut tree = Self {
            fabric,
            below_bridges: vec![Vec::new(); fabric.bridges.len()],
            below: vec![Vec::new(); fabric.functions.len()],
            matters: fabric
                .iter()
                .map(|(id, function)| {
                    let moves = function.p2pmem.is_some() || fabric.moves_payload(id);
                    moves || is_unclear(fabric, function)
                })
                .collect(),
        };
        for (id, function) in fabric.iter() {
            match function.parent {
                Parent::Bridge(BridgeId(bridge)) => tree.below_bridges[bridge].push(id),
                Parent::Function(FunctionId(parent)) => tree.below[parent].push(id),
            }
        }
        // Parents precede children, so from the end on each is known before what it hangs from.
        for (index, function) in fabric.functions.iter().enumerate().rev() {
            if let Parent::Function(FunctionId(parent)) = function.parent {
                tree.matters[parent] |= tree.matters[index];
            }
        }
        tree
    }

    /// Functions shown directly below a host bridge.
    pub(crate) fn below_bridge(&self, bridge: BridgeId) -> Vec<FunctionId> {
        self.shown(&self.below_bridges[bridge.0])
    }

    /// Functions shown directly below a function.
    pub(crate) fn below(&self, id: FunctionId) -> Vec<FunctionId> {
        self.shown(&self.below[id.0])
    }

    fn shown(&self, all: &[FunctionId]) -> Vec<FunctionId> {
        all.iter().copied().filter(|id| self.matters[id.0]).collect()
    }

    /// Numbers of hidden ports, which have nothing below that moves payload, and of other hidden
    /// functions.
    pub(crate) fn hidden(&self) -> (usize, usize) {
        let hidden = self.fabric.iter().filter(|(id, _)| !self.matters[id.0]);
        let (ports, others): (Vec<_>, Vec<_>) = hidden.partition(|(_, function)| is_port(function));
        (ports.len(), others.len())
    }

    /// The tree as text.
    pub(super) fn text(&self, labels: &Labels) -> String {
        let mut text = String::new();
        let shown: Vec<_> = (0..self.fabric.bridges.len())
            .map(|index| (BridgeId(index), self.below_bridge(BridgeId(index))))
            .filter(|(_, below)| !below.is_empty())
            .collect();
        let count = shown.len();
        for (index, (bridge, below)) in shown.into_iter().enumerate() {
            let last = index + 1 == count;
            let bridge = &self.fabric.bridges[bridge.0];
            let node = bridge.numa_node.map(|node| format!(", node {node}")).unwrap_or_default();
            let _ = writeln!(text, "{} {} host bridge{node}", branch(last), plain(&bridge.name));
            self.children(labels, &below, stem(last), &mut text);
        }
        text + &self.rest(count)
    }

    fn children(&self, labels: &Labels, below: &[FunctionId], indent: &str, text: &mut String) {
        for (index, &id) in below.iter().enumerate() {
            let last = index + 1 == below.len();
            let _ = writeln!(
                text,
                "{indent}{} {}",
                branch(last),
                plain(&line(self.fabric, labels, id))
            );
            let deeper = self.below(id);
            let indent = format!("{indent}{}", stem(last));
            let gap = if deeper.is_empty() { "   " } else { "|  " };
            for detail in details(self.fabric, id) {
                let _ = writeln!(text, "{indent}{gap} {}", plain(&detail));
            }
            self.children(labels, &deeper, &indent, text);
        }
    }

    /// Returns the counts of hidden functions, in words.
    fn rest(&self, bridges_shown: usize) -> String {
        let (ports, others) = self.hidden();
        let bridges = self.fabric.bridges.len() - bridges_shown;
        let counted: Vec<String> = [
            (
                bridges,
                "host bridge with nothing that moves payload",
                "host bridges with nothing that moves payload",
            ),
            (
                ports,
                "port with nothing below that moves payload",
                "ports with nothing below that moves payload",
            ),
            (others, "function that moves no payload", "functions that move no payload"),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more }))
        .collect();
        if counted.is_empty() {
            String::new()
        } else {
            format!("not shown: {}\n", counted.join(", "))
        }
    }
}

fn is_port(function: &peerlane_fabric::Function) -> bool {
    use peerlane_fabric::FunctionKind;
    matches!(
        function.kind,
        FunctionKind::RootPort
            | FunctionKind::UpstreamPort
            | FunctionKind::DownstreamPort
            | FunctionKind::OtherBridge
    )
}

fn branch(last: bool) -> &'static str {
    if last { "`--" } else { "|--" }
}

fn stem(last: bool) -> &'static str {
    if last { "    " } else { "|   " }
}
