//! A flow that was looked at: ends, memory, requests and slots.

use std::path::{Path, PathBuf};

use peerlane_memory::cuda::CudaError;
use peerlane_results::{
    Asked, EndpointFacts, Flow, Limit, MemoryFacts, MemoryKind, Path as Way, Refusal, Route,
    RouteChoice, VerifyMode, Warning,
};
use peerlane_units::Bytes;

use super::MeasureError;
use super::gpu::GpuEnd;
use crate::endpoints::guard::{self, EndSpan};
use crate::endpoints::{Endpoint, LaneError, PathNode};
use crate::io::stage::StageName;
use crate::io::system::System;
use crate::plan::SLOT_ALIGNMENT;

/// Most slots: a bound for the ring.
const SLOTS_MAX: u64 = 4096;
/// Most host memory for slots together.
const HOST_ROOM: u64 = 1 << 30;

/// A flow that was looked at; nothing of it is open.
#[derive(Debug, Clone)]
pub struct PlannedFlow {
    pub(super) flow: Flow,
    pub(super) source: FlowEnd,
    pub(super) target: FlowEnd,
    pub(super) memory: MemoryFacts,
    pub(super) request: u64,
    pub(super) slots: u32,
    pub(super) is_source_scratch: bool,
    /// The GPU whose memory an end is, if there is one.
    pub(super) gpu: Option<GpuEnd>,
    /// Its work on each chunk in the memory, if there is one.
    pub(super) stage: Option<StageName>,
    pub(super) limits: Vec<Limit>,
    pub(super) facts: Vec<String>,
    pub(super) warnings: Vec<Warning>,
}

/// An end of a flow.
#[derive(Debug, Clone)]
pub(super) enum FlowEnd {
    /// A drive or a file.
    Storage(Box<Endpoint>),
    /// The memory itself.
    Memory,
}

impl FlowEnd {
    pub(super) fn storage(&self) -> Option<&Endpoint> {
        match self {
            Self::Storage(endpoint) => Some(endpoint),
            Self::Memory => None,
        }
    }
}

/// Findings of the look at a flow.
pub(super) struct PlannedParts {
    pub(super) source: FlowEnd,
    pub(super) target: FlowEnd,
    pub(super) memory: MemoryFacts,
    /// Most bytes of a request.
    pub(super) most: u64,
    /// Block size of both ends.
    pub(super) unit: u64,
    pub(super) is_source_scratch: bool,
    pub(super) limits: Vec<Limit>,
    pub(super) facts: Vec<String>,
    pub(super) warnings: Vec<Warning>,
}

impl PlannedFlow {
    /// Cuts a flow into requests and slots, as many as its memory has room for.
    pub(super) fn new(flow: &Flow, parts: PlannedParts) -> Self {
        let PlannedParts { source, target, memory, most, unit, limits, facts, warnings, .. } =
            parts;
        let request = (flow.block.0.min(most) / unit * unit).max(unit);
        let per_block = flow.block.0.div_ceil(request).max(1);
        let is_serial = matches!(flow.path, Way::HostSerial | Way::HostPageCache | Way::HostMapped);
        let depth = if is_serial { 1 } else { u64::from(flow.depth.max(1)) };
        let stride = Bytes(request).round_up(SLOT_ALIGNMENT).unwrap_or(Bytes(request)).0;
        let room = match (memory.kind, memory.available) {
            (MemoryKind::Host, _) | (_, None) => HOST_ROOM,
            (_, Some(free)) => free.0 - free.0 / 8,
        };
        let wanted = depth.saturating_mul(per_block);
        let slots = wanted.min(SLOTS_MAX).min((room / stride).max(1));
        let (slots, asked) = (u32::try_from(slots), u32::try_from(wanted));
        let (slots, asked) = (slots.unwrap_or(u32::MAX), asked.unwrap_or(u32::MAX));
        let mut warnings = warnings;
        if slots < asked {
            warnings.push(Warning::DepthReduced { asked, slots });
        }
        Self {
            flow: flow.clone(),
            source,
            target,
            memory,
            request,
            slots,
            is_source_scratch: parts.is_source_scratch,
            gpu: None,
            stage: None,
            limits,
            facts,
            warnings,
        }
    }

    /// The flow as it is carried out.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The memory between the ends.
    pub fn memory(&self) -> &MemoryFacts {
        &self.memory
    }

    /// Bytes of memory that it takes, unless there is no free run of that length.
    pub fn memory_taken(&self) -> Bytes {
        let stride = Bytes(self.request).round_up(SLOT_ALIGNMENT).unwrap_or(Bytes(self.request));
        Bytes(stride.0.saturating_mul(u64::from(self.slots)))
    }

    /// The path of its source, else of its target, for errors.
    pub(super) fn path(&self) -> PathBuf {
        let facts = self.source().or(self.target());
        facts.map(|facts| facts.path.clone().into()).unwrap_or_default()
    }

    /// Makes the error for a GPU that cannot be used.
    pub(super) fn no_gpu(&self, source: CudaError) -> MeasureError {
        LaneError::gpu(&self.memory.name)(source).into()
    }

    /// The route that its bytes take.
    pub fn route(&self) -> Route {
        match self.memory.kind {
            MemoryKind::Gpu => self.gpu_route(),
            MemoryKind::Host => Route::Host,
            MemoryKind::P2pmem => Route::P2p,
        }
    }

    /// Ceilings on the way, lowest first.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Warnings for the reader.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Facts of the source; `None` if it is memory.
    pub fn source(&self) -> Option<&EndpointFacts> {
        self.source.storage().map(|end| &end.facts)
    }

    /// Facts of the target; `None` if it is memory.
    pub fn target(&self) -> Option<&EndpointFacts> {
        self.target.storage().map(|end| &end.facts)
    }

    /// Returns the reason why two flows cannot run at the same time: one writes bytes that the
    /// other reads or writes.
    pub fn conflict(&self, other: &Self) -> Option<Refusal> {
        let system = System::at(Path::new("/"));
        let spans = |flow: &Self| {
            let length = flow.flow.bytes;
            let source = flow.source.storage().cloned().map(|end| (end, flow.flow.offset, length));
            let target = flow.target.storage().cloned();
            (source, target.map(|end| (end, flow.flow.target_offset, length)))
        };
        let (mine, yours) = (spans(self), spans(other));
        let pairs = [(&mine.1, &yours.0), (&mine.1, &yours.1), (&mine.0, &yours.1)];
        pairs.into_iter().find_map(|(one, two)| {
            let (one, two) = (one.as_ref()?, two.as_ref()?);
            if is_same_file(&one.0, &two.0) {
                let (low, high) = if one.1 <= two.1 { (one, two) } else { (two, one) };
                let overlaps = low.1.0 + low.2.0 > high.1.0;
                let reason = format!("two transfers of a case meet in {}", one.0.facts.path);
                return overlaps.then_some(Refusal { reason, hint: None, forceable: false });
            }
            let asked = as_copy(&self.flow, RouteChoice::Host, None, false);
            let span = |place: &'_ (Endpoint, Bytes, Bytes)| (place.1, place.2);
            let ((offset, length), (other_offset, other_length)) = (span(one), span(two));
            guard::between(
                &system,
                &asked,
                EndSpan { end: &one.0, offset, length },
                EndSpan { end: &two.0, offset: other_offset, length: other_length },
                "what one transfer writes and what another uses",
            )
        })
    }
}

fn is_same_file(one: &Endpoint, other: &Endpoint) -> bool {
    let is_file = |end: &Endpoint| {
        end.live.as_ref().is_some_and(|live| !matches!(live.node, PathNode::Block))
    };
    is_file(one) && is_file(other) && one.facts.path == other.facts.path
}

/// The copy that a flow is as large as.
pub(super) fn as_copy(flow: &Flow, route: RouteChoice, via: Option<String>, force: bool) -> Asked {
    Asked {
        source: flow.source.clone(),
        target: flow.target.clone(),
        route,
        via,
        block: flow.block,
        depth: flow.depth,
        offset: flow.offset,
        length: Some(flow.bytes),
        target_offset: flow.target_offset,
        verify: VerifyMode::Full,
        force,
        stages: Vec::new(),
    }
}
