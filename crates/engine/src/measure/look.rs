//! Looks at a flow before anything moves: ends, memory, sizes, and obstacles.

use std::borrow::Cow;
use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_reach::PEER_REQUEST_MAX;
use peerlane_results::{Flow, Path as Way, Route, RouteChoice, Warning};
use peerlane_units::Bytes;

use super::planned::{FlowEnd, PlannedFlow, PlannedParts, as_copy};
use super::{Consent, MeasureError, Result};
use crate::endpoints::guard::{self, GuardSubject, Surveyor};
use crate::endpoints::{self, EndError, Endpoint, GpuName, Notation, PathNode};
use crate::io::failure::Role;
use crate::io::stage::StageName;
use crate::io::system::System;
use crate::plan::{self, host_memory};

/// Most bytes of one request through host memory in one direction: the kernel moves less than 2 GiB at
/// once (`MAX_RW_COUNT`).
const ONE_WAY_MAX: u64 = 1 << 30;

/// Finds out how many bytes a drive or a file holds.
///
/// # Errors
/// When it is not there, or is neither.
pub fn size_of(fabric: &Fabric, typed: &str) -> Result<Bytes> {
    Ok(endpoints::look(&System::at(Path::new("/")), fabric, typed, Role::Source)?.facts.size)
}

fn notation(typed: &str, role: Role) -> Result<Notation, EndError> {
    typed.parse().map_err(|source| EndError::Notation { role, source })
}

impl PlannedFlow {
    /// Looks at a flow: opens nothing for writing, changes nothing.
    ///
    /// # Errors
    /// [`MeasureError`] by the obstacle.
    pub fn look(
        fabric: &Fabric,
        flow: &Flow,
        consent: &Consent,
        surveyor: &Surveyor<'_>,
    ) -> Result<Self> {
        if !fabric.is_this_machine() {
            return Err(MeasureError::NotHere { name: fabric.name.clone() });
        }
        let system = System::at(Path::new("/"));
        let ends = [notation(&flow.source, Role::Source)?, notation(&flow.target, Role::Target)?];
        let look = FlowLook { system: &system, surveyor, fabric, flow, consent };
        let stage = look.stage()?;
        let planned = match ends {
            [Notation::Path(_), Notation::Path(_)] => look.copy(stage.as_ref()),
            [Notation::Path(_), memory] => look.one_way(&memory, Role::Source),
            [memory, Notation::Path(_)] => look.one_way(&memory, Role::Target),
            [Notation::Host, Notation::Host] => look.processor(),
            _ => Err(look.no_pair("source or target must be a drive or a file")),
        };
        look.with_stage(planned?, stage)
    }
}

/// A look at a flow.
pub(super) struct FlowLook<'a> {
    pub(super) system: &'a System,
    pub(super) surveyor: &'a Surveyor<'a>,
    pub(super) fabric: &'a Fabric,
    pub(super) flow: &'a Flow,
    pub(super) consent: &'a Consent,
}

impl FlowLook<'_> {
    /// Returns the range that the flow uses of an end, from an offset on.
    pub(super) fn range(&self, offset: Bytes) -> std::ops::Range<u64> {
        offset.0..offset.0.saturating_add(self.flow.bytes.0)
    }

    pub(super) fn no_pair(&self, reason: impl Into<Cow<'static, str>>) -> MeasureError {
        let (from, to) = (self.flow.source.clone(), self.flow.target.clone());
        MeasureError::Pair { from, to, reason: reason.into() }
    }

    /// From storage to storage.
    fn copy(&self, stage: Option<&StageName>) -> Result<PlannedFlow> {
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
        // Content is looked for below, by the rules of benchmarks.
        let mut asked = as_copy(self.flow, route, via, true);
        // Of several memories between the drives, a stage decides; a GPU is none of these.
        let in_device = |name: &&StageName| {
            route == RouteChoice::P2p
                && matches!(name, StageName::Xrt { .. } | StageName::Outside(_))
        };
        asked.stages.extend(stage.filter(in_device).map(ToString::to_string));
        let prepared = plan::prepare(self.system, self.surveyor, self.fabric, &asked)?;
        let (source, target) = (prepared.source, prepared.target);
        let length = self.flow.bytes;
        let wanted = GuardSubject { asked: &asked, source: &source, target: &target, length };
        // Before what an option helps with, and its hint.
        if let Some(refusal) = guard::overlap(self.system, wanted) {
            return Err(MeasureError::Refused(vec![refusal]));
        }
        self.check_target(&target)?;
        self.check_range(&source, self.flow.offset, Role::Source)?;
        self.check_range(&target, self.flow.target_offset, Role::Target)?;
        let force = self.consent.force;
        let written = (&target, self.range(self.flow.target_offset));
        let found = guard::check_in_place(self.system, self.surveyor, written, Some(wanted), force);
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
        Ok(PlannedFlow::new(
            self.flow,
            PlannedParts {
                source: FlowEnd::Storage(Box::new(source)),
                target: FlowEnd::Storage(Box::new(target)),
                memory,
                most,
                unit,
                is_source_scratch,
                limits: prepared.plan.limits,
                facts: facts.unwrap_or_default(),
                warnings: found.warnings,
            },
        ))
    }

    /// One drive against a memory; `role` is the drive's.
    fn one_way(&self, memory: &Notation, role: Role) -> Result<PlannedFlow> {
        let flow = self.flow;
        let is_gpu = matches!(memory, Notation::Gpu(_));
        let is_cached = matches!(flow.path, Way::HostPageCache | Way::HostMapped);
        let is_read = role == Role::Source && matches!(memory, Notation::Host | Notation::Null);
        if !is_gpu && (is_cached && !is_read || flow.path == Way::HostCufile) {
            return Err(self.no_pair(
                "by the page cache a drive or file is read into `host`, or copied to another one",
            ));
        }
        let (typed, offset) = match role {
            Role::Source => (&flow.source, flow.offset),
            Role::Target => (&flow.target, flow.target_offset),
        };
        let drive = endpoints::look(self.system, self.fabric, typed, role)?;
        if is_cached
            && !is_gpu
            && drive.live.as_ref().is_some_and(|live| live.passthrough.is_some())
        {
            return Err(self.no_pair("a passthrough node has no page cache"));
        }
        self.check_range(&drive, offset, role)?;
        let mut warnings = guard::warnings_of_use(self.system, &drive);
        if role == Role::Target {
            self.check_target(&drive)?;
            let force = self.consent.force;
            let written = (&drive, self.range(offset));
            let found = guard::check_in_place(self.system, self.surveyor, written, None, force);
            if !found.refusals.is_empty() {
                return Err(MeasureError::Refused(found.refusals));
            }
            warnings.clear();
        }
        let is_source_scratch = role == Role::Source && self.check_source(&drive)?;
        if let Notation::Gpu(name) = memory {
            return self.against_gpu(*name, role, drive, is_source_scratch, warnings);
        }
        let via = self.lender(memory, role)?;
        let route = self.memory_route(via.is_some())?;
        let is_new = drive.live.as_ref().is_some_and(|live| live.node == PathNode::NewFile);
        // The way from a drive to a memory is that of a copy of the drive to itself.
        let itself = Flow { source: typed.clone(), target: typed.clone(), ..flow.clone() };
        let asked = as_copy(&itself, route, via, true);
        let plan = match route {
            // There is nothing yet that a copy could come from, and host memory needs no plan.
            RouteChoice::Host if is_new => None,
            _ => Some(plan::prepare(self.system, self.surveyor, self.fabric, &asked)?.plan),
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
        let (unit, storage) = (drive.facts.block.0, FlowEnd::Storage(Box::new(drive)));
        let (source, target) = match role {
            Role::Source => (storage, FlowEnd::Memory),
            Role::Target => (FlowEnd::Memory, storage),
        };
        Ok(PlannedFlow::new(
            self.flow,
            PlannedParts {
                source,
                target,
                memory,
                most,
                unit,
                is_source_scratch,
                limits,
                facts: candidate.map(|one| one.facts).unwrap_or_default(),
                warnings,
            },
        ))
    }

    /// The route between a drive and a memory, which the memory alone decides.
    fn memory_route(&self, is_device: bool) -> Result<RouteChoice> {
        let no_route = |reason| {
            let (from, to) = (self.flow.source.clone(), self.flow.target.clone());
            Err(MeasureError::NoRoute { from, to, route: self.flow.path, reason })
        };
        match (is_device, self.flow.path) {
            (true, Way::P2p) => Ok(RouteChoice::P2p),
            (false, Way::P2p) => {
                no_route("source or target is host memory, and p2p needs memory of a device")
            }
            (true, _) => no_route("memory of this device is reached by p2p only"),
            (false, _) => Ok(RouteChoice::Host),
        }
    }

    /// The memory of a device that bytes rest in, as `--via` names it; `None` for host memory.
    fn lender(&self, memory: &Notation, role: Role) -> Result<Option<String>> {
        Ok(match (memory, role) {
            (Notation::Host, _) | (Notation::Null, Role::Source) => None,
            (Notation::Device(name), _) => Some(name.clone()),
            (Notation::Null, _) => return Err(self.no_pair("`null` has nothing to write")),
            _ => {
                let devices = PROVIDERS.usage(|kind| kind != ProviderKind::Host, "and");
                return Err(self.no_pair(format!("only {devices} are device memory here")));
            }
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
    ) -> Result<PlannedFlow> {
        let found = self.gpu(name, &drive, role)?;
        warnings.extend(found.warnings);
        let (unit, storage) = (drive.facts.block.0, FlowEnd::Storage(Box::new(drive)));
        let (source, target) = match role {
            Role::Source => (storage, FlowEnd::Memory),
            Role::Target => (FlowEnd::Memory, storage),
        };
        let planned = PlannedFlow::new(
            self.flow,
            PlannedParts {
                source,
                target,
                memory: found.memory,
                most: found.most,
                unit,
                is_source_scratch,
                limits: Vec::new(),
                facts: Vec::new(),
                warnings,
            },
        );
        Ok(PlannedFlow { gpu: Some(found.gpu), ..planned })
    }
}
