//! Independent witnesses of the route that a copy's payload takes.
//!
//! Block counters are read always, addresses of DMA where they were asked for. Both look at the move alone: proof,
//! clearing and verification go through host memory by design.

use peerlane_evidence::{
    BlockCounters, CaseDrive, DmaWitness, DriveBytes, DriveTransfer, Root, Unwatched, unseen_dma,
};
use peerlane_fabric::{Bdf, Fabric, IommuMode};
use peerlane_results::{EndpointFacts, MemoryFacts, Plan, Route, RouteEvidence};
use peerlane_units::Bytes;

use crate::relay::Moved;
use crate::system::System;

/// The witnesses of one copy.
pub(super) struct Witnesses {
    root: Root,
    /// Present where it was asked for.
    dma: Option<Result<DmaWitness, Unwatched>>,
    /// Of source and target.
    counters: [Option<BlockCounters>; 2],
}

impl Witnesses {
    /// Prepares them; nothing is counted yet.
    pub(super) fn new(system: &System, fabric: &Fabric, plan: &Plan, wants_dma: bool) -> Self {
        let root = Root::at(system.root());
        let dma = wants_dma.then(|| watch_dma(&root, fabric, plan));
        Self { root, dma, counters: [None, None] }
    }

    /// Begins to count: payload moves from here on.
    pub(super) fn begin(&mut self, plan: &Plan) {
        let counters = |facts| Some(BlockCounters::begin(&self.root, drive(facts)?));
        self.counters = ends(plan).map(counters);
        if let Some(Ok(dma)) = &mut self.dma {
            dma.mark();
        }
    }

    /// Judges what was counted by what was moved through `memory`.
    pub(super) fn end(
        &mut self,
        fabric: &Fabric,
        plan: &Plan,
        (route, memory): (Route, &MemoryFacts),
        moved: &MovedBytes,
    ) -> Vec<RouteEvidence> {
        let mut evidence: Vec<RouteEvidence> = Vec::new();
        let read = DriveBytes { read: moved.read(), written: Bytes::ZERO };
        let written = DriveBytes { read: Bytes::ZERO, written: moved.written() };
        for (counters, claimed) in self.counters.iter_mut().zip([read, written]) {
            let Some(counters) = counters.take() else { continue };
            let (_, item) = counters.end(&self.root, claimed);
            evidence.push(item);
        }
        let memory = memory.address.as_ref().and_then(|address| address.parse().ok());
        let memory = memory.filter(|_| route == Route::P2p);
        match &self.dma {
            Some(Ok(dma)) => evidence.extend(dma.judge(&transfers(fabric, plan, memory, moved))),
            Some(Err(unwatched)) => evidence.push(unseen_dma(unwatched)),
            None => {}
        }
        evidence
    }
}

/// Payload of one copy, as it moved.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MovedBytes {
    /// By the route that was settled.
    pub(super) relayed: Bytes,
    /// The end of it, which host memory carries where blocks differ.
    pub(super) tail: Bytes,
    /// Zeroes out of host memory, for holes.
    pub(super) zeroes: Bytes,
}

impl MovedBytes {
    pub(super) fn new(moved: &Moved, tail: Bytes) -> Self {
        Self { relayed: Bytes(moved.bytes), tail, zeroes: Bytes(moved.zeroes_written) }
    }

    fn read(&self) -> Bytes {
        Bytes(self.relayed.0 + self.tail.0)
    }

    fn written(&self) -> Bytes {
        Bytes(self.read().0 + self.zeroes.0)
    }
}

fn ends(plan: &Plan) -> [&EndpointFacts; 2] {
    [&plan.source, &plan.target]
}

fn drive(facts: &EndpointFacts) -> Option<CaseDrive> {
    CaseDrive::from_facts(facts, false)
}

fn address(facts: &EndpointFacts) -> Option<Bdf> {
    facts.address.as_ref()?.parse().ok()
}

fn watch_dma(root: &Root, fabric: &Fabric, plan: &Plan) -> Result<DmaWitness, Unwatched> {
    let mut drives: Vec<Bdf> = ends(plan).into_iter().filter_map(address).collect();
    drives.sort();
    drives.dedup();
    let candidates = plan.candidates.iter().filter_map(|one| one.memory.address.as_ref());
    let memories: Vec<Bdf> = candidates.filter_map(|address| address.parse().ok()).collect();
    DmaWitness::begin(root, &drives, &memories, fabric.iommu == IommuMode::Translating)
}

/// Payload of each drive by route; a drive that is both ends has one.
fn transfers(
    fabric: &Fabric,
    plan: &Plan,
    memory: Option<Bdf>,
    moved: &MovedBytes,
) -> Vec<DriveTransfer> {
    let mut transfers: Vec<DriveTransfer> = Vec::new();
    for (facts, all) in ends(plan).into_iter().zip([moved.read(), moved.written()]) {
        let Some(drive) = address(facts) else { continue };
        let index = transfers.iter().position(|one| one.address == drive).unwrap_or_else(|| {
            transfers.push(DriveTransfer::new(drive));
            transfers.len() - 1
        });
        let transfer = &mut transfers[index];
        match memory {
            Some(memory) => {
                let request = facts.request_p2p.unwrap_or(facts.request_host);
                transfer.add_p2p(fabric, memory, moved.relayed, request);
                transfer.host.0 += all.0 - moved.relayed.0;
            }
            None => transfer.host.0 += all.0,
        }
    }
    transfers
}
