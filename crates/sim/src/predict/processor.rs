//! Copies and maps by one core, from host memory to host memory.
//!
//! The core is a node on a side of its own, so its rate is its parameter's. It takes cores and host memory from
//! others as any work of processors does.

use peerlane_results::{CaseSpec, Flow, Path, Route};
use peerlane_units::{ByteRate, Bytes};

use super::error::FlowError;
use super::flows::Planned;
use super::names::Limiter;
use super::setting::{ParameterSetting, time, whole};
use crate::devices::host::{OF_A_COPY, traffic_by_processor};
use crate::model::{
    FlowSpec, ModelEndpoint, ModelLink, NodeKind, Picos, ProcessorWork, TargetMemory, Topology,
    Wire, as_f64,
};

/// Name of its node.
const PROCESSOR: &str = "the processor";
/// Name of the node that replaces host memory on its side.
const MEMORY: &str = "the processor's memory";
/// Rate of its link to that memory, which is no limit.
const NO_LIMIT: ByteRate = ByteRate(100_000_000_000_000);

fn is_host_to_host(flow: &Flow) -> bool {
    flow.source == "host" && flow.target == "host"
}

/// Adds the processor to a machine if a case needs it.
pub(super) fn add_for(case: &CaseSpec, topology: &mut Topology) {
    if !case.flows.iter().any(is_host_to_host) {
        return;
    }
    let Some(root) = host(topology).map(|link| link.upper) else { return };
    let wire = Wire::bare(NO_LIMIT, Picos::ZERO);
    let memory = TargetMemory { write_latency: Picos::ZERO, ..TargetMemory::default() };
    let inside = NodeKind::Endpoint(ModelEndpoint { memory, ..ModelEndpoint::default() });
    let processor = topology.add_below(root, PROCESSOR, inside.clone(), wire);
    topology.add_below(processor, MEMORY, inside, wire);
}

/// The link of the first host memory, which is the one that `host` means.
fn host(topology: &Topology) -> Option<&ModelLink> {
    let mut links = topology.links().iter();
    links.find(|link| matches!(topology.node(link.lower).kind, NodeKind::HostMemory(_)))
}

/// A flow of the processor.
pub(super) fn plan(
    flow: &Flow,
    topology: &Topology,
    setting: &ParameterSetting<'_>,
) -> Result<Planned, FlowError> {
    let none = || FlowError::NoInitiator { from: flow.source.clone(), to: flow.target.clone() };
    let node = topology.find(PROCESSOR).ok_or_else(none)?;
    let memory = topology.find(MEMORY).ok_or_else(none)?;
    let (second, faults) = match flow.path {
        Path::HostPipelined => (1.0 / setting.get("host.copy")?, 0.0),
        Path::HostMapped => {
            let window = setting.get("host.window")?;
            (setting.get("host.fault")? / window, 1.0 / window)
        }
        path => return Err(FlowError::NoCopy { path }),
    };
    let mut spec = FlowSpec::write("host to host", node, memory);
    let size = flow.block.max(Bytes(1));
    (spec.request, spec.depth) = (size, 1);
    let copies = if flow.path == Path::HostPipelined { OF_A_COPY } else { 0.0 };
    spec.work = Some(Box::new(ProcessorWork {
        at: host(topology).ok_or_else(none)?.lower,
        submit: Picos::ZERO,
        copy: time(second * as_f64(size)),
        traffic: Bytes(whole(copies * as_f64(size))),
    }));
    Ok(Planned {
        memory: "host".to_owned(),
        route: Route::Host,
        has_own_slots: true,
        traffic: traffic_by_processor(flow.path),
        cpu: second * 1e9,
        faults,
        bounds: vec![(Limiter::Processor, 1.0 / second / 1e9)],
        spec,
    })
}
