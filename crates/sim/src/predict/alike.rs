//! The part of a machine that some flows use, without names: flows that find the same find the same rates and
//! latencies, whichever drives they are between.
//!
//! Leaves out everything that no flow crosses. The one thing to know: nodes are numbered in the order in which
//! flows meet them, so that parts which differ in that order alone are not taken as alike.

use std::collections::BTreeMap;

use peerlane_units::Bytes;

use crate::model::{FlowSpec, LinkIndex, NodeIndex, NodeKind, Picos, Topology, Work};
use crate::work::Shared;

/// A part of a machine, and the flows on it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) topology: Topology,
    pub(super) flows: Vec<FlowSpec>,
}

impl Part {
    /// What these flows use, all beginning at once and going on.
    pub(super) fn of<'a>(whole: &Topology, flows: impl Iterator<Item = &'a FlowSpec>) -> Self {
        let mut build = Build {
            whole,
            topology: Topology::new(),
            at: BTreeMap::new(),
            link_at: BTreeMap::new(),
        };
        let flows: Vec<&FlowSpec> = flows.collect();
        let shared = Shared::from_flows(whole, flows.iter().copied());
        let flows = flows.into_iter().map(|flow| build.flow(flow, &shared)).collect();
        build.sockets();
        build.weights();
        Self { topology: build.topology, flows }
    }

    /// The same text for parts that are alike.
    pub(super) fn key(&self) -> String {
        let unnamed: Vec<FlowSpec> = self
            .flows
            .iter()
            .map(|flow| FlowSpec { name: String::new(), ..flow.clone() })
            .collect();
        format!("{:?} {unnamed:?}", self.topology)
    }
}

struct Build<'a> {
    whole: &'a Topology,
    topology: Topology,
    /// Where each node of the whole is in the part.
    at: BTreeMap<NodeIndex, NodeIndex>,
    link_at: BTreeMap<LinkIndex, LinkIndex>,
}

impl Build<'_> {
    fn flow(&mut self, flow: &FlowSpec, shared: &Shared) -> FlowSpec {
        let memory = self.node(flow.memory);
        let mut part = FlowSpec { memory, start: Picos::ZERO, bytes: Bytes::ZERO, ..flow.clone() };
        for leg in std::iter::once(&mut part.first).chain(&mut part.second) {
            // Another socket between two is on the path only.
            for (link, _) in self.whole.path(leg.initiator, flow.memory).unwrap_or_default() {
                let link = self.whole.link(link);
                self.node(link.upper);
                self.node(link.lower);
            }
            leg.initiator = self.node(leg.initiator);
        }
        // What nobody waits for makes no difference between parts.
        let shares = |work: &Work| work.copy > Picos::ZERO || shared.cores(work).is_some();
        part.work = part.work.filter(|work| shares(work));
        if let Some(work) = &mut part.work {
            work.at = self.node(work.at);
        }
        part
    }

    /// A node and all that is above it.
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

    /// Links between sockets, in the order of the whole, which decides between equal ways.
    fn sockets(&mut self) {
        for (link, position) in self.whole.links().iter().zip(0u32..) {
            if self.whole.link_above(link.lower) == Some(LinkIndex(position)) {
                continue;
            }
            if let (Some(&upper), Some(&lower)) =
                (self.at.get(&link.upper), self.at.get(&link.lower))
            {
                self.link_at
                    .insert(LinkIndex(position), self.topology.join(upper, lower, link.wire));
            }
        }
    }

    fn weights(&mut self) {
        for &node in self.at.values() {
            if let NodeKind::Switch(switch) = &mut self.topology.node_mut(node).kind {
                switch.weights = switch
                    .weights
                    .iter()
                    .filter_map(|(link, weight)| Some((*self.link_at.get(link)?, *weight)))
                    .collect();
            }
        }
    }
}
