//! The doctor's examination with the facts of this machine.

use std::path::Path;

use peerlane_doctor::{HostFacts, PlannedCopy};
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_memory::provider::{P2pmemProvider, Provider as _};
use peerlane_results::{DoctorRecord, Plan, Probe};

use super::plan_verdict;
use crate::endpoints::cards::read_dna;
use crate::io::system::System;

/// Examines a whole machine, with its FPGA cards and their drives.
pub fn examine(fabric: &Fabric) -> DoctorRecord {
    let facts = HostFacts { dnas: read_dna(fabric), ..host_facts(fabric) };
    peerlane_doctor::examine(fabric, &facts)
}

/// Examines one device with every other.
pub fn examine_device(fabric: &Fabric, id: FunctionId) -> DoctorRecord {
    peerlane_doctor::examine_device(fabric, id, &host_facts(fabric))
}

/// Examines the obstacles between the ends of a plan; `probes` may be empty.
pub fn examine_copy(fabric: &Fabric, plan: &Plan, probes: &[Probe]) -> DoctorRecord {
    let copy = PlannedCopy { plan, verdict: plan_verdict(fabric, plan), probes };
    peerlane_doctor::examine_copy(fabric, copy, &host_facts(fabric))
}

/// The functions whose memory may not be taken, asked of this machine if the fabric is of it.
fn host_facts(fabric: &Fabric) -> HostFacts {
    let mut facts = HostFacts::default();
    if !fabric.is_this_machine() {
        return facts;
    }
    let system = System::at(Path::new("/"));
    for (id, function) in fabric.iter() {
        let Some(address) = function.address.filter(|_| function.p2pmem.is_some()) else {
            continue;
        };
        if let Some(reason) = P2pmemProvider.denied(system.root(), &address.to_string()) {
            facts.denied.insert(id, reason);
        }
    }
    facts
}
