//! Observation of a case from outside, by the crate `evidence`.

use std::path::{Path, PathBuf};

use peerlane_engine::Clock;
use peerlane_engine::measure::{FlowMoved, PlannedFlow};
use peerlane_fabric::{Bdf, Fabric, FunctionId, IommuMode};
use peerlane_results::{BytesByRoute, EndpointFacts, MemoryKind, Path as Way, Places, Route};

use crate::guards::{self, RawClock, Surroundings, TwoClocks};
use peerlane_evidence::{
    CaseDrive, CaseEvidence, CaseWatch, DriveBytes, DriveTransfer, Observed, Pool, Root, Scene,
};

/// Sources of evidence around one run.
pub(super) struct Observer {
    watch: CaseWatch,
    drives: Vec<CaseDrive>,
    around: Surroundings,
    clocks: TwoClocks,
}

/// Observations of one run.
pub(super) struct Observation {
    pub(super) observed: Observed,
    /// Surroundings that it is judged by.
    pub(super) around: Surroundings,
}

impl Observer {
    /// Takes down where everything stands.
    pub(super) fn begin(fabric: &Fabric, flows: &[PlannedFlow], clock: &dyn Clock) -> Self {
        let mut drives: Vec<CaseDrive> = Vec::new();
        for drive in flows.iter().flat_map(drives_of).flatten() {
            if !drives.iter().any(|one| one.name == drive.name) {
                drives.push(drive);
            }
        }
        let root = Root::at(Path::new("/"));
        let ways: Vec<guards::FlowPath> = flows.iter().map(|flow| way(fabric, flow)).collect();
        let around = Surroundings::read(fabric, &root, &ways, &drives);
        let memories = flows.iter().filter_map(memory_of).collect();
        let scene = Scene {
            root: PathBuf::from("/"),
            drives: drives.clone(),
            pools: pools(flows),
            memories,
            is_translating: fabric.iommu == IommuMode::Translating,
        };
        let watch = CaseWatch::begin(&scene);
        Self { watch, drives, around, clocks: TwoClocks::begin(clock, &RawClock) }
    }

    /// Looks at facts that exist only while payload moves.
    pub(super) fn look(&mut self) {
        self.watch.look();
    }

    /// Reads everything again; `moved` has the bytes of each transfer.
    pub(super) fn end(
        mut self,
        fabric: &Fabric,
        flows: &[PlannedFlow],
        moved: &[FlowMoved],
        clock: &dyn Clock,
    ) -> Observation {
        self.around.clock = Some(self.clocks.end(clock, &RawClock));
        // What the plan says of each transfer, and what its requests named.
        let (mut asked, mut requested) = (BytesByRoute::default(), BytesByRoute::default());
        for (flow, moved) in flows.iter().zip(moved) {
            match flow.route() {
                Route::P2p => asked.p2p.0 += moved.bytes.0,
                Route::Host => asked.host.0 += moved.bytes.0,
            }
            requested.p2p.0 += moved.requested.p2p.0;
            requested.host.0 += moved.requested.host.0;
        }
        let claimed = |drive: &CaseDrive| {
            let mut bytes = DriveBytes::default();
            for (flow, moved) in flows.iter().zip(moved) {
                let [source, target] =
                    drives_of(flow).map(|one| one.is_some_and(|one| one.name == drive.name));
                bytes.read.0 += if source { moved.bytes.0 } else { 0 };
                bytes.written.0 += if target { moved.bytes.0 } else { 0 };
            }
            bytes
        };
        let drives: Vec<DriveBytes> = self.drives.iter().map(claimed).collect();
        let transfers =
            self.drives.iter().filter_map(|drive| transfer(fabric, drive, flows, moved));
        let transfers = transfers.collect();
        let seen =
            CaseEvidence { asked, moved: requested, drives: drives.clone(), transfers, dma: None };
        let observed = self.watch.end(&seen);
        let counted = observed.drives.iter().copied();
        for ((drive, claimed), counted) in self.around.drives.iter_mut().zip(drives).zip(counted) {
            (drive.claimed, drive.counted) = (claimed, counted);
        }
        Observation { observed, around: self.around }
    }
}

/// Payload of a drive by route; `None` where it is not a function.
fn transfer(
    fabric: &Fabric,
    drive: &CaseDrive,
    flows: &[PlannedFlow],
    moved: &[FlowMoved],
) -> Option<DriveTransfer> {
    let mut transfer = DriveTransfer::new(drive.address?);
    for (flow, moved) in flows.iter().zip(moved) {
        for facts in [flow.source(), flow.target()].into_iter().flatten() {
            if facts.device.as_ref() != Some(&drive.name) {
                continue;
            }
            match (flow.route(), memory_of(flow)) {
                (Route::P2p, Some(memory)) => {
                    let request = facts.request_p2p.unwrap_or(facts.request_host);
                    transfer.add_p2p(fabric, memory, moved.bytes, request);
                }
                (Route::P2p, None) => {}
                (Route::Host, _) => transfer.host.0 += moved.bytes.0,
            }
        }
    }
    Some(transfer)
}

/// The function whose memory a transfer rests in.
fn memory_of(flow: &PlannedFlow) -> Option<Bdf> {
    flow.memory().address.as_ref()?.parse().ok()
}

fn pools(flows: &[PlannedFlow]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    let lent = flows.iter().filter(|flow| flow.memory().kind == MemoryKind::P2pmem);
    for flow in lent {
        let address = flow.memory().address.as_ref().and_then(|one| one.parse().ok());
        let Some(address) = address else { continue };
        let taken = flow.memory_taken();
        match pools.iter_mut().find(|pool| pool.address == address) {
            Some(pool) => pool.taken.0 += taken.0,
            None => pools.push(Pool { address, taken }),
        }
    }
    pools
}

fn way(fabric: &Fabric, flow: &PlannedFlow) -> guards::FlowPath {
    let function = |address: Option<&String>| -> Option<FunctionId> { fabric.find(address?) };
    let end = |facts: Option<&EndpointFacts>| function(facts?.address.as_ref());
    guards::FlowPath {
        source: end(flow.source()),
        target: end(flow.target()),
        memory: function(flow.memory().address.as_ref()),
    }
}

/// The same by name, for the record.
pub(super) fn places(fabric: &Fabric, flow: &PlannedFlow) -> Places {
    let way = way(fabric, flow);
    let name = |id: Option<FunctionId>| Some(fabric.function(id?).name.clone());
    Places { source: name(way.source), target: name(way.target), memory: name(way.memory) }
}

/// The drives of source and target.
fn drives_of(flow: &PlannedFlow) -> [Option<CaseDrive>; 2] {
    let is_cached = matches!(flow.flow().path, Way::HostPageCache | Way::HostMapped);
    [flow.source(), flow.target()].map(|facts| CaseDrive::from_facts(facts?, is_cached))
}
