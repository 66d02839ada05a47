//! The memory of a GPU between the ends of a copy, opened by the way that its plan names.
//!
//! Before anything is written, cuFile reads a block of data of either end, and its counters are looked at; they are looked
//! at again when all has moved. They are not a proof; the arrival of bytes is proved as for any
//! memory. Without counters the route is unknown: `p2p` refuses, and `auto` says so.

use std::fs::File;
use std::path::Path;

use peerlane_results::{EndpointFacts, MemoryFacts, RouteVerdict};
use peerlane_units::Bytes;

use super::Tools;
use super::attempt::{AttachedMemory, Attempt, NotReady, Rejection, entries};
use super::gone::drive_of;
use crate::endpoints::lane::{GpuSlots, GpuWay, LaneError, LaneRequests, OpenGpu, Session, fit};
use crate::endpoints::open::Attached;
use crate::endpoints::{GpuName, find_gpu};
use crate::io::desk::Desk;
use crate::io::ring::Uring;
use crate::plan::fitted;

/// Pinned host memory that zeroes come from.
const DESK_ROOM: Bytes = Bytes::mib(1);
/// Requests other than payload, next to those of the slots.
const SPARE: u32 = 2;

impl Attempt<'_> {
    /// Opens the GPU by the way that the plan names, with both ends and as many slots as there is room for: the window of
    /// a GPU may be smaller than its memory.
    pub(super) fn open_gpu(
        &self,
        way: GpuWay,
        tools: &Tools<'_>,
    ) -> Result<AttachedMemory, NotReady> {
        let gpu = open_gpu(self.memory)?;
        let entries = entries(self.shape.slots, self.targets).max(64);
        let requests = LaneRequests {
            path: Path::new(&self.plan.source.path),
            count: self.shape.slots.saturating_add(SPARE),
            length: self.shape.request,
        };
        let ring = Uring::new(entries).map_err(LaneError::from)?;
        let mut lane = gpu.lane(ring, gpu.session(way)?, requests)?;
        let mut attach = |file: &File, end: &EndpointFacts| {
            let file = file.try_clone().map_err(LaneError::file("attach", &end.path))?;
            let id = lane.attach(file, Path::new(&end.path))?;
            Ok::<_, LaneError>(Attached { payload: id, compared: id })
        };
        let source = attach(&self.source.file, &self.plan.source)?;
        let target = attach(self.target.file(), &self.plan.target)?;
        let (GpuSlots { memory, region }, shape) = fit(
            self.shape.clone(),
            |shape| lane.take(shape.memory),
            |shape, _| (shape.slots > 1).then(|| fitted(shape, Bytes(shape.memory.0 / 2))),
        )?;
        let desk = Desk::new(&gpu.gpu, DESK_ROOM).map_err(LaneError::gpu(&self.memory.name))?;
        let way = lane.evidence(|| {
            format!(
                "{} slots of pinned host memory, {} each, copied by the GPU's copy engine",
                shape.slots, shape.request
            )
        });
        let (ring, side) = lane.into_parts(memory, desk);
        let mut session = Session::with(self.machine, ring, self.log(tools));
        session.ring.name_file(source.payload, &drive_of(&self.plan.source));
        session.ring.name_file(target.payload, &drive_of(&self.plan.target));
        session.add_stages(self.stages.notations(), self.open_stages(None, Some(&side))?);
        let ready = self.ready(session, [source, target], region, shape, tools)?;
        let evidence = vec![way.says(RouteVerdict::NotKnown)];
        Ok(AttachedMemory { gpu: Some(side), evidence, ..ready })
    }
}

/// The GPU that a plan names, by its address: a process may be shown fewer than there are.
fn open_gpu(memory: &MemoryFacts) -> Result<OpenGpu, NotReady> {
    let address = memory.address.as_deref().and_then(|address| address.parse().ok());
    let Some(address) = address else {
        let reason = format!("{} has no PCI address", memory.name);
        return Err(Rejection { reason, hint: None }.into());
    };
    let found = find_gpu(GpuName::Address(address)).map_err(LaneError::gpu(&memory.name));
    let (cuda, facts) = found?;
    Ok(OpenGpu::new(&cuda, &facts, &memory.name)?)
}
