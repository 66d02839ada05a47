//! Processors and host memory that transfers share for copies and submission.
//!
//! A transfer has one thread, and so one processor at most, which is a bound of its own. Processors are a resource only
//! where all transfers together could saturate them. The processor of each thread is left out.

use std::collections::BTreeMap;

use crate::model::{FlowSpec, NodeIndex, NodeKind, ProcessorWork, Topology, per_nano};

/// Numbers of processors that flows can saturate, by their host memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SharedProcessors(BTreeMap<NodeIndex, u32>);

impl SharedProcessors {
    /// The saturated processors, with demands by position in bytes a nanosecond. Only flows with processor work are asked.
    pub(crate) fn new<'a>(
        topology: &Topology,
        flows: impl Iterator<Item = &'a FlowSpec>,
        demand: impl Fn(usize, &FlowSpec) -> f64,
    ) -> Self {
        let mut asked: BTreeMap<NodeIndex, f64> = BTreeMap::new();
        for (index, flow) in flows.enumerate() {
            if flow.parts().all(|part| part.work.is_none()) {
                continue;
            }
            let legs = flow.parts().flat_map(FlowSpec::legs);
            let media = legs.filter_map(|leg| leg.medium_rate(topology));
            let most = media.map(|rate| per_nano(rate.0)).fold(demand(index, flow), f64::min);
            for work in flow.parts().filter_map(|part| part.work.as_ref()) {
                // One thread saturates one processor at most.
                let busy = most * work.per_byte(flow.request);
                *asked.entry(work.at).or_default() += busy.min(1.0);
            }
        }
        let few = asked.into_iter().filter_map(|(at, asked)| match &topology.node(at).kind {
            NodeKind::HostMemory(host) => {
                host.cores.filter(|&cores| asked > f64::from(cores)).map(|cores| (at, cores))
            }
            _ => None,
        });
        Self(few.collect())
    }

    /// Processors of a transfer, where flows can saturate them.
    pub(crate) fn cores(&self, work: &ProcessorWork) -> Option<u32> {
        self.0.get(&work.at).copied()
    }
}

#[cfg(test)]
mod tests;
