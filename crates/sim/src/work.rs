//! Work of processors: which of them transfers could use up together, and what copies take of host memory.
//!
//! Leaves out which processor a thread runs on. The one thing to know: a transfer has one thread and so one processor at
//! most, which is a bound of its own; processors that all transfers beside them could not use up are no law here.

use std::collections::BTreeMap;

use crate::closed::demand;
use crate::flow::build::per_nano;
use crate::model::{FlowSpec, NodeIndex, NodeKind, Topology, Work};

/// Processors that flows ask for more of than there is, by the host memory beside them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Shared(BTreeMap<NodeIndex, u32>);

impl Shared {
    /// Those of flows on a topology.
    pub(crate) fn of<'a>(topology: &Topology, flows: impl Iterator<Item = &'a FlowSpec>) -> Self {
        let alone = |_, flow: &FlowSpec| demand(topology, flow).unwrap_or(f64::INFINITY);
        Self::with(topology, flows, alone)
    }

    /// The same where somebody knows the most that a flow, by its position, takes of a machine without limits, payload a
    /// nanosecond; asked for only of those for which processors do anything.
    pub(crate) fn with<'a>(
        topology: &Topology,
        flows: impl Iterator<Item = &'a FlowSpec>,
        demand: impl Fn(usize, &FlowSpec) -> f64,
    ) -> Self {
        let mut asked: BTreeMap<NodeIndex, f64> = BTreeMap::new();
        for (index, flow) in flows.enumerate() {
            let Some(work) = &flow.work else { continue };
            let media = flow.used_by_legs().filter_map(|used| used.rate(topology));
            let most = media.map(|rate| per_nano(rate.0)).fold(demand(index, flow), f64::min);
            let busy = most * work.per_byte(flow.request);
            // More than one is no thread's.
            *asked.entry(work.at).or_default() += busy.min(1.0);
        }
        let few = asked.into_iter().filter_map(|(at, asked)| match &topology.node(at).kind {
            NodeKind::HostMemory(host) => {
                host.cores.filter(|&cores| asked > f64::from(cores)).map(|cores| (at, cores))
            }
            _ => None,
        });
        Self(few.collect())
    }

    /// How many there are for a transfer, if others could use them up.
    pub(crate) fn cores(&self, work: &Work) -> Option<u32> {
        self.0.get(&work.at).copied()
    }
}

/// Nanoseconds of a host memory for a byte that a copy reads or writes; `None` where it carries whatever comes, or reads
/// and writes take nothing from each other.
pub(crate) fn memory_time(topology: &Topology, work: &Work) -> Option<f64> {
    let memory = topology.node(work.at).kind.memory().filter(|memory| memory.is_shared)?;
    let (write, read) = memory.write.zip(memory.read)?;
    // A copy reads and writes.
    Some((1.0 / per_nano(write.0) + 1.0 / per_nano(read.0)) / 2.0)
}

#[cfg(test)]
mod tests;
