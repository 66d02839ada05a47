//! What a flow is before anything moves: ends, memory, sizes, and what stands against it.

use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_memory::cuda::CudaError;
use peerlane_results::Path as Way;
use peerlane_results::{
    Asked, EndpointFacts, Flow, Limit, MemoryFacts, MemoryKind, Refusal, Route, RouteChoice,
    VerifyMode, Warning,
};
use peerlane_units::Bytes;

use super::gpu::GpuEnd;
use super::{Consent, MeasureError};
use crate::copy::open_source;
use crate::endpoint::{self, EndError, Endpoint, GpuName, Node, Notation, PEER_REQUEST_MAX};
use crate::extents::{Extent, Grid, data_ranges};
use crate::failure::Role;
use crate::guard::{self, Span, System, Wanted};
use crate::plan::{self, SLOT_ALIGNMENT, host_memory};

/// Most slots: a bound for the ring.
const SLOTS_MAX: u64 = 4096;
/// Most host memory for slots together.
const HOST_ROOM: u64 = 1 << 30;
/// Most bytes of one request through host memory in one direction: the kernel moves less than 2 GiB at
/// once (`MAX_RW_COUNT`).
const ONE_WAY_MAX: u64 = 1 << 30;

/// A flow that was looked at; nothing of it is open.
#[derive(Debug, Clone)]
pub struct PlannedFlow {
    pub(super) flow: Flow,
    pub(super) source: End,
    pub(super) target: End,
    pub(super) memory: MemoryFacts,
    pub(super) request: u64,
    pub(super) slots: u32,
    pub(super) is_source_scratch: bool,
    /// The GPU whose memory an end is, if there is one.
    pub(super) gpu: Option<GpuEnd>,
    limits: Vec<Limit>,
    pub(super) facts: Vec<String>,
    warnings: Vec<Warning>,
}

/// An end of a flow.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// A drive or a file.
    Storage(Box<Endpoint>),
    /// The memory itself.
    Memory,
}

impl End {
    pub(super) fn storage(&self) -> Option<&Endpoint> {
        match self {
            Self::Storage(endpoint) => Some(endpoint),
            Self::Memory => None,
        }
    }
}

/// Finds out how many bytes a drive or a file holds.
///
/// # Errors
/// When it is not there, or is neither.
pub fn size_of(fabric: &Fabric, typed: &str) -> Result<Bytes, MeasureError> {
    Ok(endpoint::look(&System::at(Path::new("/")), fabric, typed, Role::Source)?.facts.size)
}

fn notation(typed: &str, role: Role) -> Result<Notation, EndError> {
    typed.parse().map_err(|source| EndError::Notation { role, source })
}

impl PlannedFlow {
    /// Looks at a flow: opens nothing for writing, changes nothing.
    ///
    /// # Errors
    /// [`MeasureError`] by what stands against it.
    pub fn look(fabric: &Fabric, flow: &Flow, consent: &Consent) -> Result<Self, MeasureError> {
        if !fabric.is_this_machine() {
            return Err(MeasureError::NotHere { name: fabric.name.clone() });
        }
        let system = System::at(Path::new("/"));
        let ends = [notation(&flow.source, Role::Source)?, notation(&flow.target, Role::Target)?];
        let look = Look { system: &system, fabric, flow, consent };
        match ends {
            [Notation::Path(_), Notation::Path(_)] => look.copy(),
            [Notation::Path(_), memory] => look.one_way(&memory, Role::Source),
            [memory, Notation::Path(_)] => look.one_way(&memory, Role::Target),
            _ => Err(look.no_pair("one end is a drive or a file")),
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

    /// What stands against using its GPU.
    pub(super) fn no_gpu(&self, source: CudaError) -> MeasureError {
        MeasureError::Gpu { gpu: self.memory.name.clone(), source }
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

    /// What a reader should know.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What is known of the source; `None` where it is memory.
    pub fn source(&self) -> Option<&EndpointFacts> {
        self.source.storage().map(|end| &end.facts)
    }

    /// What is known of the target; `None` where it is memory.
    pub fn target(&self) -> Option<&EndpointFacts> {
        self.target.storage().map(|end| &end.facts)
    }

    /// Why two flows cannot run at the same time: one writes what the other reads or writes.
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
            let asked = Look::asked_of(&self.flow, RouteChoice::Host, None, false);
            let span = |place: &'_ (Endpoint, Bytes, Bytes)| (place.1, place.2);
            let ((offset, length), (other_offset, other_length)) = (span(one), span(two));
            guard::between(
                &system,
                &asked,
                Span { end: &one.0, offset, length },
                Span { end: &two.0, offset: other_offset, length: other_length },
                "what one transfer writes and what another uses",
            )
        })
    }
}

fn is_same_file(one: &Endpoint, other: &Endpoint) -> bool {
    let is_file =
        |end: &Endpoint| end.live.as_ref().is_some_and(|live| !matches!(live.node, Node::Block));
    is_file(one) && is_file(other) && one.facts.path == other.facts.path
}

/// A look at a flow.
pub(super) struct Look<'a> {
    system: &'a System,
    fabric: &'a Fabric,
    pub(super) flow: &'a Flow,
    consent: &'a Consent,
}

impl Look<'_> {
    pub(super) fn no_pair(&self, reason: &'static str) -> MeasureError {
        let (from, to) = (self.flow.source.clone(), self.flow.target.clone());
        MeasureError::Pair { from, to, reason }
    }

    fn asked_of(flow: &Flow, route: RouteChoice, via: Option<String>, force: bool) -> Asked {
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
        }
    }

    /// From storage to storage.
    fn copy(&self) -> Result<PlannedFlow, MeasureError> {
        let route = match self.flow.path {
            Way::P2p => RouteChoice::P2p,
            _ => RouteChoice::Host,
        };
        let via = self.flow.via.clone().filter(|_| route == RouteChoice::P2p);
        if via.as_ref().is_some_and(|via| matches!(via.parse(), Ok(Notation::Gpu(_)))) {
            return Err(self.no_pair(
                "`peerlane copy --via gpu:N` goes through a GPU, and `peerlane bench roundtrip` measures \
                 both halves of that way",
            ));
        }
        let asked = Self::asked_of(self.flow, route, via, self.consent.force);
        let prepared = plan::prepare(self.system, self.fabric, &asked)?;
        let (source, target) = (prepared.source, prepared.target);
        self.check_target(&target)?;
        self.check_range(&source, self.flow.offset, Role::Source)?;
        self.check_range(&target, self.flow.target_offset, Role::Target)?;
        let length = self.flow.bytes;
        let wanted = Wanted { asked: &asked, source: &source, target: &target, length };
        let force = self.consent.force;
        let found = guard::check_in_place(self.system, &target, Some(wanted), force);
        if !found.refusals.is_empty() {
            return Err(MeasureError::Refused(found.refusals));
        }
        let is_source_scratch = self.check_source(&source)?;
        let memory = match (prepared.plan.route, prepared.plan.memory) {
            (Some(_), Some(memory)) => memory,
            _ => return Err(MeasureError::NotPossible { reason: prepared.plan.reason }),
        };
        let mut best = prepared.plan.candidates.into_iter();
        let facts = best.find(|one| one.memory.name == memory.name).map(|one| one.facts);
        let most = |end: &Endpoint| match route {
            RouteChoice::P2p => end.facts.request_p2p.unwrap_or(PEER_REQUEST_MAX),
            _ => end.facts.request_host,
        };
        let most = most(&source).min(most(&target)).0;
        let unit = source.facts.block.0.max(target.facts.block.0);
        self.planned(Parts {
            source: End::Storage(Box::new(source)),
            target: End::Storage(Box::new(target)),
            memory,
            most,
            unit,
            is_source_scratch,
            limits: prepared.plan.limits,
            facts: facts.unwrap_or_default(),
            warnings: found.warnings,
        })
    }

    /// One drive against a memory; `role` is the drive's.
    fn one_way(&self, memory: &Notation, role: Role) -> Result<PlannedFlow, MeasureError> {
        let flow = self.flow;
        let is_gpu = matches!(memory, Notation::Gpu(_));
        if !is_gpu && !matches!(flow.path, Way::P2p | Way::HostPipelined | Way::HostSerial) {
            return Err(self.no_pair("a baseline with a file of its own goes from file to file"));
        }
        let (typed, offset) = match role {
            Role::Source => (&flow.source, flow.offset),
            Role::Target => (&flow.target, flow.target_offset),
        };
        let drive = endpoint::look(self.system, self.fabric, typed, role)?;
        self.check_range(&drive, offset, role)?;
        let mut warnings = guard::warnings_of_use(self.system, &drive);
        if role == Role::Target {
            self.check_target(&drive)?;
            let force = self.consent.force;
            let found = guard::check_in_place(self.system, &drive, None, force);
            if !found.refusals.is_empty() {
                return Err(MeasureError::Refused(found.refusals));
            }
            warnings.clear();
        }
        let is_source_scratch = role == Role::Source && self.check_source(&drive)?;
        if let Notation::Gpu(name) = memory {
            return self.against_gpu(*name, role, drive, is_source_scratch, warnings);
        }
        let via = match (memory, role) {
            (Notation::Host, _) | (Notation::Null, Role::Source) => None,
            (Notation::Cmb(_) | Notation::P2pmem(_) | Notation::Fpga(_), _) => {
                Some(memory.to_string())
            }
            (Notation::Null, _) => return Err(self.no_pair("`null` has nothing to write")),
            _ => {
                return Err(self.no_pair(
                    "only `cmb:NAME`, `p2pmem:NAME`, `fpga:ADDRESS` and `gpu:N` are device memory here",
                ));
            }
        };
        let route = if via.is_some() { RouteChoice::P2p } else { RouteChoice::Host };
        let is_new = drive.live.as_ref().is_some_and(|live| live.node == Node::NewFile);
        // The way from a drive to a memory is that of a copy of the drive to itself.
        let itself = Flow { source: typed.clone(), target: typed.clone(), ..flow.clone() };
        let asked = Self::asked_of(&itself, route, via, true);
        let plan = match route {
            // There is nothing yet that a copy could come from, and host memory needs no plan.
            RouteChoice::Host if is_new => None,
            _ => Some(plan::prepare(self.system, self.fabric, &asked)?.plan),
        };
        let memory = match (&plan, route) {
            (_, RouteChoice::Host) | (None, _) => host_memory(),
            (Some(plan), _) => match (plan.route, &plan.memory) {
                (Some(Route::P2p), Some(memory)) => memory.clone(),
                _ => return Err(MeasureError::NotPossible { reason: plan.reason.clone() }),
            },
        };
        let (limits, candidates) =
            plan.map(|plan| (plan.limits, plan.candidates)).unwrap_or_default();
        let candidate = candidates.into_iter().find(|one| one.memory.name == memory.name);
        let is_node = drive.live.as_ref().is_some_and(|live| live.passthrough.is_some());
        let most = match route {
            RouteChoice::P2p => drive.facts.request_p2p.unwrap_or(PEER_REQUEST_MAX).0,
            _ if is_node => drive.facts.request_host.0,
            _ => ONE_WAY_MAX,
        };
        let (unit, storage) = (drive.facts.block.0, End::Storage(Box::new(drive)));
        let (source, target) = match role {
            Role::Source => (storage, End::Memory),
            Role::Target => (End::Memory, storage),
        };
        self.planned(Parts {
            source,
            target,
            memory,
            most,
            unit,
            is_source_scratch,
            limits,
            facts: candidate.map(|one| one.facts).unwrap_or_default(),
            warnings,
        })
    }

    /// One drive against memory of a GPU; `role` is the drive's.
    fn against_gpu(
        &self,
        name: GpuName,
        role: Role,
        drive: Endpoint,
        is_source_scratch: bool,
        mut warnings: Vec<Warning>,
    ) -> Result<PlannedFlow, MeasureError> {
        let found = self.gpu(name, &drive, role)?;
        warnings.extend(found.warnings);
        let (unit, storage) = (drive.facts.block.0, End::Storage(Box::new(drive)));
        let (source, target) = match role {
            Role::Source => (storage, End::Memory),
            Role::Target => (End::Memory, storage),
        };
        let planned = self.planned(Parts {
            source,
            target,
            memory: found.memory,
            most: found.most,
            unit,
            is_source_scratch,
            limits: Vec::new(),
            facts: Vec::new(),
            warnings,
        })?;
        Ok(PlannedFlow { gpu: Some(found.gpu), ..planned })
    }

    fn planned(&self, parts: Parts) -> Result<PlannedFlow, MeasureError> {
        let flow = self.flow;
        let Parts { source, target, memory, most, unit, limits, facts, warnings, .. } = parts;
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
        Ok(PlannedFlow {
            flow: flow.clone(),
            source,
            target,
            memory,
            request,
            slots,
            is_source_scratch: parts.is_source_scratch,
            gpu: None,
            limits,
            facts,
            warnings,
        })
    }

    fn check_target(&self, target: &Endpoint) -> Result<(), MeasureError> {
        if self.is_scratch(target, &self.flow.target)? {
            return Ok(());
        }
        Err(MeasureError::NotScratch { path: target.facts.path.clone() })
    }

    /// Whether the source may be written, and so is filled; nothing must stand against that. Otherwise it
    /// must have content in its whole range.
    fn check_source(&self, source: &Endpoint) -> Result<bool, MeasureError> {
        if !self.is_scratch(source, &self.flow.source)? {
            return self.check_holes(source).map(|()| false);
        }
        let found = guard::check_in_place(self.system, source, None, self.consent.force);
        if found.refusals.is_empty() {
            Ok(true)
        } else {
            Err(MeasureError::Refused(found.refusals))
        }
    }

    /// Refuses a file with a hole in the range that is read: those bytes come from no drive.
    fn check_holes(&self, source: &Endpoint) -> Result<(), MeasureError> {
        let live = source.live.as_ref().filter(|live| live.node != Node::Block);
        let Some(live) = live else { return Ok(()) };
        let failed = |action| {
            let path = live.path.clone();
            move |source| MeasureError::File { action, path, source }
        };
        let opened = open_source(live).map_err(failed("open"))?;
        let start = self.flow.offset.0;
        let within = start..start.saturating_add(self.flow.bytes.0);
        let grid = Grid { origin: start, block: 1 };
        for extent in data_ranges(&opened.file, within, grid).map_err(failed("look at"))? {
            if let Extent::Hole(hole) = extent.map_err(failed("look for holes of"))? {
                let path = source.facts.path.clone();
                return Err(MeasureError::Hole { path, at: hole.start });
            }
        }
        Ok(())
    }

    fn is_scratch(&self, end: &Endpoint, typed: &str) -> Result<bool, MeasureError> {
        // The same words mean the same end, which need not be looked at for that; others may mean it, too.
        if self.consent.scratch.iter().any(|scratch| scratch == typed) {
            return Ok(true);
        }
        for typed in &self.consent.scratch {
            let scratch = endpoint::look(self.system, self.fabric, typed, Role::Target)?;
            if scratch.facts.path == end.facts.path {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_range(&self, end: &Endpoint, offset: Bytes, role: Role) -> Result<(), MeasureError> {
        let (flow, facts) = (self.flow, &end.facts);
        let wrong = |reason: String| Err(MeasureError::Range { path: facts.path.clone(), reason });
        for (what, value) in [("offset", offset), ("length", flow.bytes), ("block", flow.block)] {
            if !value.is_multiple_of(facts.block) {
                let (value, block) = (value.0, facts.block.0);
                return wrong(format!("{what} {value} is no multiple of its block, {block} bytes"));
            }
        }
        if flow.bytes == Bytes::ZERO {
            return wrong("there is nothing to move".to_owned());
        }
        let is_file = end.live.as_ref().is_some_and(|live| live.node != Node::Block);
        let last = offset.0.checked_add(flow.bytes.0);
        let is_inside = last.is_some_and(|last| last <= facts.size.0);
        if is_inside || role == Role::Target && is_file && last.is_some() {
            return Ok(());
        }
        wrong(format!(
            "{} bytes from offset {} do not fit its {} bytes",
            flow.bytes.0, offset.0, facts.size.0
        ))
    }
}

struct Parts {
    source: End,
    target: End,
    memory: MemoryFacts,
    /// Most bytes of a request.
    most: u64,
    /// Block size of both ends.
    unit: u64,
    is_source_scratch: bool,
    limits: Vec<Limit>,
    facts: Vec<String>,
    warnings: Vec<Warning>,
}
