//! What is observed of a case from outside, by [`crate::evidence`].

use std::path::PathBuf;

use peerlane_engine::measure::{FlowOutcome, PlannedFlow};
use peerlane_results::{BytesByRoute, EndpointFacts, EndpointKind};
use peerlane_units::Bytes;

use crate::evidence::{Drive, DriveBytes, Observed, Pool, Requests, Scene, Seen, Watch};

/// Sources of evidence around one run.
pub(super) struct Observer {
    watch: Watch,
    drives: Vec<Drive>,
}

impl Observer {
    /// Takes down where everything stands.
    pub(super) fn begin(flows: &[PlannedFlow]) -> Self {
        let mut drives: Vec<Drive> = Vec::new();
        for facts in flows.iter().flat_map(|flow| [flow.source(), flow.target()]).flatten() {
            if let Some(drive) = drive_of(facts) {
                if !drives.iter().any(|one| one.name == drive.name) {
                    drives.push(drive);
                }
            }
        }
        let mut pools: Vec<Pool> = Vec::new();
        for flow in flows {
            let Some(address) = flow.memory().address.as_ref().and_then(|one| one.parse().ok())
            else {
                continue;
            };
            let taken = flow.memory_taken();
            match pools.iter_mut().find(|pool| pool.address == address) {
                Some(pool) => pool.taken = Bytes(pool.taken.0 + taken.0),
                None => pools.push(Pool { address, taken }),
            }
        }
        let scene = Scene { root: PathBuf::from("/"), drives: drives.clone(), pools };
        Self { watch: Watch::begin(&scene), drives }
    }

    /// Looks at what is only there while payload moves.
    pub(super) fn look(&mut self) {
        self.watch.look();
    }

    /// Reads everything again.
    pub(super) fn end(self, flows: &[PlannedFlow], outcomes: &[FlowOutcome]) -> Observed {
        let sum = |of: fn(&FlowOutcome) -> Bytes| {
            Bytes(outcomes.iter().map(|one| of(one).0).sum())
        };
        let moved = BytesByRoute {
            p2p: sum(|one| one.bytes_by_route.p2p),
            host: sum(|one| one.bytes_by_route.host),
        };
        let claimed = |drive: &Drive| {
            let mut bytes = DriveBytes::default();
            for (flow, outcome) in flows.iter().zip(outcomes) {
                let is_it = |facts: Option<&EndpointFacts>| {
                    facts.and_then(drive_of).is_some_and(|one| one.name == drive.name)
                };
                bytes.read.0 += if is_it(flow.source()) { outcome.bytes.0 } else { 0 };
                bytes.written.0 += if is_it(flow.target()) { outcome.bytes.0 } else { 0 };
            }
            bytes
        };
        let drives = self.drives.iter().map(claimed).collect();
        self.watch.end(&Seen { asked: moved, moved, drives, dma: None })
    }
}

fn drive_of(facts: &EndpointFacts) -> Option<Drive> {
    let requests = match facts.kind {
        EndpointKind::Passthrough => Requests::Passthrough,
        // Without direct I/O a file has blocks of one byte.
        EndpointKind::File if facts.block == Bytes(1) => Requests::PageCache,
        _ => Requests::Direct,
    };
    let address = facts.address.as_ref().and_then(|address| address.parse().ok());
    Some(Drive { name: facts.device.clone()?, address, requests })
}
