//! What one core does by itself, from host memory to host memory: copies, or maps of a file that is in memory.
//!
//! Leaves out what copies of several cores, and copies and devices, take of host memory from each other. The one thing to
//! know: it is a node of its own on a side of its own, so that its rate is its parameter's.

use peerlane_results::{CaseSpec, Flow, Path, Route};
use peerlane_units::{ByteRate, Bytes};

use super::flows::{FlowError, Planned};
use super::setting::{Setting, whole};
use crate::closed;
use crate::devices::host::{fault_cost, traffic_by_processor};
use crate::model::{Endpoint, FlowSpec, NodeKind, Topology};
use crate::way::as_f64;

/// Its name among the nodes, which are looked up by it: a device would have to be called so to be taken for it.
const PROCESSOR: &str = "the processor";
/// What stands for host memory on its side, so that nothing else is in its way.
const MEMORY: &str = "the processor's memory";

fn is_its_own(flow: &Flow) -> bool {
    flow.source == "host" && flow.target == "host"
}

/// Adds the processor to a machine on which a case needs it.
pub(super) fn add_for(case: &CaseSpec, topology: &mut Topology) {
    if !case.flows.iter().any(is_its_own) {
        return;
    }
    let host = topology
        .links()
        .iter()
        .find(|link| matches!(topology.node(link.lower).kind, NodeKind::HostMemory(_)));
    let Some((root, wire)) = host.map(|link| (link.upper, link.wire)) else { return };
    let inside = || NodeKind::Endpoint(Endpoint::default());
    let processor = topology.add_below(root, PROCESSOR, inside(), wire);
    topology.add_below(processor, MEMORY, inside(), wire);
}

/// A flow of the processor.
pub(super) fn plan(
    flow: &Flow,
    topology: &Topology,
    setting: &Setting<'_>,
) -> Result<Planned, FlowError> {
    let none = || FlowError::NoInitiator { from: flow.source.clone(), to: flow.target.clone() };
    let node = topology.find(PROCESSOR).ok_or_else(none)?;
    let memory = topology.find(MEMORY).ok_or_else(none)?;
    let (second, faults) = match flow.path {
        Path::HostPipelined => (1.0 / setting.get("host.copy")?, 0.0),
        Path::HostMapped => {
            let window = setting.get("host.window")?;
            (fault_cost(window, setting.get("host.fault")?), 1.0 / window)
        }
        path => return Err(FlowError::NoCopy { path }),
    };
    let mut spec = FlowSpec::write("host to host", node, memory);
    let size = flow.block.max(Bytes(1));
    let block = second * as_f64(size);
    (spec.request, spec.depth) = (size, 1);
    let bound = |seconds: f64| Some(ByteRate(whole(as_f64(size) / seconds).max(1)));
    spec.first.bound = bound(block);
    // The way to its memory is a part of the time that it takes for a block.
    let way = closed::latency(topology, &spec).unwrap_or(0.0) / 1e9 - block;
    spec.first.bound = bound((block - way).max(block / 2.0));
    Ok(Planned {
        bytes: as_f64(flow.bytes),
        memory: "host".to_owned(),
        route: Route::Host,
        traffic: traffic_by_processor(flow.path),
        cpu: second * 1e9,
        faults,
        bounds: vec![(PROCESSOR.to_owned(), 1.0 / second / 1e9)],
        cache: None,
        spec,
    })
}
