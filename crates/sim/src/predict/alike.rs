//! The part of a machine that some flows use, without names: equal parts have equal rates and latencies, whichever
//! drives the flows are between.
//!
//! Leaves out everything that no flow crosses. Nodes are numbered in the order in which flows meet them, so parts
//! which differ only in that order do not count as alike.

use std::collections::BTreeMap;

use peerlane_units::Bytes;

use crate::model::{FlowSpec, LinkIndex, NodeIndex, NodeKind, Picos, Topology};

/// A part of a machine, and the flows on it.
#[derive(Debug, Clone)]
pub(super) struct MachinePart {
    pub(super) topology: Topology,
    pub(super) flows: Vec<FlowSpec>,
}

impl MachinePart {
    /// The part that these flows use, with flows that all begin at once and go on.
    pub(super) fn of_flows<'a>(
        whole: &Topology,
        flows: impl Iterator<Item = &'a FlowSpec>,
    ) -> Self {
        let mut builder = PartBuilder {
            whole,
            topology: Topology::new(),
            at: BTreeMap::new(),
            link_at: BTreeMap::new(),
        };
        let flows = flows.map(|flow| builder.flow(flow)).collect();
        builder.sockets();
        builder.weights();
        Self { topology: builder.topology, flows }
    }

    /// Returns a text that is equal for parts that are alike.
    pub(super) fn key(&self) -> String {
        let unnamed = |flow: &FlowSpec| FlowSpec { name: String::new(), ..flow.clone() };
        let unnamed: Vec<FlowSpec> = self.flows.iter().map(unnamed).collect();
        format!("{:?} {unnamed:?}", self.topology)
    }
}

struct PartBuilder<'a> {
    whole: &'a Topology,
    topology: Topology,
    /// Nodes and links of the part, by those of the whole.
    at: BTreeMap<NodeIndex, NodeIndex>,
    link_at: BTreeMap<LinkIndex, LinkIndex>,
}

impl PartBuilder<'_> {
    fn flow(&mut self, flow: &FlowSpec) -> FlowSpec {
        let memory = self.node(flow.memory);
        let mut part = FlowSpec { memory, start: Picos::ZERO, bytes: Bytes::ZERO, ..flow.clone() };
        for leg in std::iter::once(&mut part.first).chain(&mut part.second) {
            // A socket between two others is on the path only.
            for (link, _) in self.whole.path(leg.initiator, flow.memory).unwrap_or_default() {
                let link = self.whole.link(link);
                self.node(link.upper);
                self.node(link.lower);
            }
            leg.initiator = self.node(leg.initiator);
        }
        // Nothing waits for other work in packets.
        part.work = part.work.filter(|work| work.copy > Picos::ZERO);
        if let Some(work) = &mut part.work {
            work.at = self.node(work.at);
        }
        part
    }

    /// Adds a node and all nodes above it.
    fn node(&mut self, node: NodeIndex) -> NodeIndex {
        if let Some(&known) = self.at.get(&node) {
            return known;
        }
        let above = self.whole.link_above(node);
        let upper = above.map(|link| (link, self.node(self.whole.link(link).upper)));
        let name = self.topology.nodes().len().to_string();
        let kind = self.whole.node(node).kind.clone();
        let index = match upper {
            None => self.topology.add(name, kind),
            Some((link, upper)) => {
                let wire = self.whole.link(link).wire;
                let index = self.topology.add_below(upper, name, kind, wire);
                self.link_at.extend(self.topology.link_above(index).map(|new| (link, new)));
                index
            }
        };
        self.at.insert(node, index);
        index
    }

    /// Adds links between sockets, in the order of the whole, which decides between equal paths.
    fn sockets(&mut self) {
        for (link, position) in self.whole.links().iter().zip(0u32..) {
            if self.whole.link_above(link.lower) == Some(LinkIndex(position)) {
                continue;
            }
            let ends = self.at.get(&link.upper).zip(self.at.get(&link.lower));
            if let Some((&upper, &lower)) = ends {
                let joined = self.topology.join(upper, lower, link.wire);
                self.link_at.insert(LinkIndex(position), joined);
            }
        }
    }

    /// Renumbers the links in weights of switches.
    fn weights(&mut self) {
        for &node in self.at.values() {
            if let NodeKind::Switch(switch) = &mut self.topology.node_mut(node).kind {
                let known = |(link, weight): (LinkIndex, u32)| {
                    self.link_at.get(&link).map(|&link| (link, weight))
                };
                switch.weights = switch.weights.drain(..).filter_map(known).collect();
            }
        }
    }
}
