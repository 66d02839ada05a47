//! Independent witnesses of the route that a copy's payload takes.
//!
//! Block counters are read always, addresses of DMA where they were asked for. Both look at the move alone: proof
//! and verification go through host memory by design.

use peerlane_evidence::{
    BlockCounters, CaseDrive, DmaWitness, DriveBytes, DriveTransfer, Root, Unwatched, unseen_dma,
};
use peerlane_fabric::{Bdf, Fabric, IommuMode};
use peerlane_results::{EndpointFacts, MemoryFacts, Plan, Route, RouteEvidence};
use peerlane_units::Bytes;

use crate::io::extents::DeviceReads;
use crate::io::system::System;

/// The witnesses of one copy.
pub(super) struct Witnesses {
    root: Root,
    /// Present if it was asked for.
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

    /// Begins to count: payload moves from here on. `are_direct` says which end takes direct I/O.
    pub(super) fn begin(&mut self, plan: &Plan, are_direct: [bool; 2]) {
        let [source, target] = ends(plan);
        let counters = |facts, is_direct: bool| {
            let drive = CaseDrive::from_facts(facts, !is_direct)?;
            Some(BlockCounters::begin(&self.root, drive))
        };
        self.counters = if is_one_drive(plan) {
            // Its counters hold both directions, of which the page cache may answer either.
            [counters(source, are_direct == [true, true]), None]
        } else {
            [counters(source, are_direct[0]), counters(target, are_direct[1])]
        };
        if let Some(Ok(dma)) = &mut self.dma {
            dma.mark();
        }
    }

    /// Judges the counts by the payload moved through `memory`.
    pub(super) fn end(
        &mut self,
        fabric: &Fabric,
        plan: &Plan,
        route: Route,
        memory: &MemoryFacts,
        moved: &MovedBytes,
    ) -> Vec<RouteEvidence> {
        let mut evidence: Vec<RouteEvidence> = Vec::new();
        let read = DriveBytes { read: moved.read(), written: Bytes::ZERO };
        let written = DriveBytes { read: Bytes::ZERO, written: moved.written() };
        let holes = [moved.source.map(|source| Bytes(source.holes)), Some(Bytes::ZERO)];
        let mut claims = [read, written];
        let is_one_drive = is_one_drive(plan);
        if is_one_drive {
            claims[0].written = written.written;
        }
        let claims = claims.into_iter().zip(holes);
        for (counters, (claimed, holes)) in self.counters.iter_mut().zip(claims) {
            let Some(counters) = counters.take() else { continue };
            let (_, mut item) = counters.end(&self.root, claimed, holes);
            if is_one_drive {
                item.evidence.looked_at.push_str(", which holds source and target");
            }
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
    /// The end of it, which host memory carries if blocks differ.
    pub(super) tail: Bytes,
    /// Zeroes out of host memory, for holes.
    pub(super) zeroes: Bytes,
    /// Reads that this took of the source's drive; `None` if its file system does not tell.
    pub(super) source: Option<DeviceReads>,
}

impl MovedBytes {
    /// Payload that the source's drive was asked for, or the most that it can be.
    fn read(&self) -> Bytes {
        self.source.map_or(Bytes(self.relayed.0 + self.tail.0), |source| Bytes(source.data))
    }

    fn written(&self) -> Bytes {
        Bytes(self.relayed.0 + self.tail.0 + self.zeroes.0)
    }
}

/// True when source and target are on one drive or partition.
fn is_one_drive(plan: &Plan) -> bool {
    plan.source.device.is_some() && plan.source.device == plan.target.device
}

fn ends(plan: &Plan) -> [&EndpointFacts; 2] {
    [&plan.source, &plan.target]
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
    // The tail lies behind what was relayed.
    let relayed = Bytes(moved.read().0.saturating_sub(moved.tail.0));
    let read = (moved.read(), relayed, moved.source.is_none());
    let written = (moved.written(), moved.relayed, false);
    for (facts, (all, relayed, is_at_most)) in ends(plan).into_iter().zip([read, written]) {
        let Some(drive) = address(facts) else { continue };
        let index = transfers.iter().position(|one| one.address == drive).unwrap_or_else(|| {
            transfers.push(DriveTransfer::new(drive));
            transfers.len() - 1
        });
        let transfer = &mut transfers[index];
        transfer.is_at_most |= is_at_most;
        match memory {
            Some(memory) => {
                let request = facts.request_p2p.unwrap_or(facts.request_host);
                transfer.add_p2p(fabric, memory, relayed, request);
                transfer.host.0 += all.0 - relayed.0;
            }
            None => transfer.host.0 += all.0,
        }
    }
    transfers
}

#[cfg(test)]
mod tests {
    use peerlane_results::{EndpointKind, RouteVerdict};

    use super::*;
    use crate::endpoints::guard::tests::DeviceTree;
    use crate::plan::host_memory;
    use crate::transfer::copy::tests::{asked, bare_machine, content, folder, planned};

    const READS: DeviceReads = DeviceReads { data: 4096, holes: 6144 };

    fn moved(source: Option<DeviceReads>) -> MovedBytes {
        MovedBytes { relayed: Bytes(10240), source, ..MovedBytes::default() }
    }

    /// The plan of a copy from a file on a made-up drive to one without a drive.
    fn plan() -> Plan {
        let folder = folder();
        let source = folder.path().join("source");
        std::fs::write(&source, content(10240)).unwrap();
        let mut plan = planned(&asked(&source, &folder.path().join("target")));
        assert_eq!(plan.source.kind, EndpointKind::File);
        (plan.source.block, plan.source.device) = (Bytes(4096), Some("nvme7n1".to_owned()));
        plan.source.address = Some("0000:03:00.0".to_owned());
        plan.target.device = None;
        plan
    }

    /// The evidence after so many sectors were read.
    fn judged(sectors: u64, source: Option<DeviceReads>, is_direct: bool) -> RouteEvidence {
        let (tree, plan, fabric) = (DeviceTree::new(), plan(), bare_machine());
        let stat = |read: u64| {
            let text = format!("9 0 {} 5 20 0 200 5 0 10 10\n", 100 + read);
            tree.write("sys/class/block/nvme7n1/stat", &text);
        };
        stat(0);
        let mut witnesses = Witnesses::new(&tree.system(), &fabric, &plan, false);
        witnesses.begin(&plan, [is_direct, true]);
        stat(sectors);
        let mut found = witnesses.end(&fabric, &plan, Route::Host, &host_memory(), &moved(source));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn data_alone_must_come_from_drive() {
        let found = judged(8, Some(READS), true);
        assert_eq!(found.says, RouteVerdict::Consistent);
        let showed = &found.evidence.showed;
        assert!(showed.contains("payload was 4096 and 0; 6144 bytes of holes"), "{showed}");
        let cached = judged(7, Some(READS), true);
        assert_eq!(cached.says, RouteVerdict::Contradicted, "a part came from the page cache");
        for sectors in [7, 8, 20, 21] {
            assert_eq!(judged(sectors, None, true).says, RouteVerdict::NotKnown);
        }
        assert_eq!(judged(7, Some(READS), false).says, RouteVerdict::NotKnown, "no direct I/O");
    }

    /// The evidence of a copy within a drive, with so many sectors read and written.
    fn within_a_drive(sectors: [u64; 2], are_direct: [bool; 2]) -> RouteEvidence {
        let (tree, mut plan, fabric) = (DeviceTree::new(), plan(), bare_machine());
        plan.target.device = plan.source.device.clone();
        let stat = |[read, written]: [u64; 2]| {
            let text = format!("9 0 {} 5 20 0 {} 5 0 10 10\n", 100 + read, 200 + written);
            tree.write("sys/class/block/nvme7n1/stat", &text);
        };
        stat([0, 0]);
        let mut witnesses = Witnesses::new(&tree.system(), &fabric, &plan, false);
        witnesses.begin(&plan, are_direct);
        stat(sectors);
        let mut found =
            witnesses.end(&fabric, &plan, Route::Host, &host_memory(), &moved(Some(READS)));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn one_drive_has_one_line() {
        let both = within_a_drive([8, 20], [true, true]);
        assert_eq!(both.says, RouteVerdict::Consistent);
        let said = &both.evidence;
        assert_eq!(
            said.looked_at,
            "block layer counters of nvme7n1, which holds source and target"
        );
        assert!(said.showed.contains("4096 bytes read and 10240 written"), "{said:?}");
        assert!(said.showed.contains("payload was 4096 and 10240"), "{said:?}");
        assert_eq!(within_a_drive([8, 19], [true, true]).says, RouteVerdict::Contradicted);
        for are_direct in [[true, false], [false, true]] {
            let cached = within_a_drive([8, 0], are_direct);
            assert_eq!(cached.says, RouteVerdict::NotKnown, "written or read later");
        }
    }

    #[test]
    fn dma_of_source_is_that_of_data() {
        let (plan, fabric) = (plan(), bare_machine());
        let of = |memory, source| transfers(&fabric, &plan, memory, &moved(source)).remove(0);
        assert_eq!((of(None, Some(READS)).host, of(None, None).host), (Bytes(4096), Bytes(10240)));
        assert!(of(None, None).is_at_most && !of(None, Some(READS)).is_at_most);
        let memory = "0000:05:00.0".parse().ok();
        let p2p = of(memory, Some(READS));
        assert_eq!((p2p.p2p, p2p.host, p2p.requests), (Bytes(4096), Bytes(0), 1));
        let tail = MovedBytes { relayed: Bytes(9728), tail: Bytes(512), ..moved(Some(READS)) };
        let p2p = transfers(&fabric, &plan, memory, &tail).remove(0);
        assert_eq!((p2p.p2p, p2p.host), (Bytes(3584), Bytes(512)));
    }
}
