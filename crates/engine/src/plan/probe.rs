//! The kernel asked: one block read from each end into each memory.
//!
//! The only authoritative answer about a pair is a request; everything else mirrors it. A probe writes
//! to no drive, and does not show that data arrive: the proof at the start of a copy does. The block
//! that was read stays in the memory, where the next user may see it; it is the first of the end.

use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_results::Asked;
use peerlane_results::{Candidate, MemoryFacts, MemoryKind, Plan, Probe, ProbeAnswer, Verdict};
use peerlane_units::{Bytes, Nanos};

use super::gpu::{GpuWay, way_of};
use super::{PlanError, SLOT_ALIGNMENT, prepare};
use crate::Clock;
use crate::cufile;
use crate::device_memory;
use crate::endpoint::{Endpoint, Live, PathNode};
use crate::failure::error_in_words;
use crate::failure::{RequestError, Role};
use crate::guard::Surveyor;
use crate::open::open_source;
use crate::request::{Request, carry_out};
use crate::ring::{Action, Ring as _, open_cufile};
use crate::session::Session;
use crate::system::System;

/// Asks the kernel about every candidate of a plan and either end.
///
/// # Errors
/// As [`super::plan`], when the ends are not what they were.
pub fn probe(
    fabric: &Fabric,
    plan: &Plan,
    clock: &dyn Clock,
    deadline: Nanos,
) -> Result<Vec<Probe>, PlanError> {
    // Nothing is written: what the target holds does not matter.
    let asked = Asked { force: true, ..plan.asked.clone() };
    let surveyor = Surveyor::new(clock, deadline);
    let now = prepare(&System::at(Path::new("/")), &surveyor, fabric, &asked)?;
    let mut probes = Vec::new();
    for candidate in &now.plan.candidates {
        for (end, predicted) in [(&now.source, candidate.source), (&now.target, candidate.target)] {
            let answer = ask(end, candidate, clock, deadline);
            probes.push(Probe {
                memory: candidate.memory.name.clone(),
                endpoint: end.facts.path.clone(),
                predicted,
                agrees: agrees(predicted, &answer),
                answer,
            });
        }
    }
    Ok(probes)
}

/// `None` where one of the two is no answer.
fn agrees(predicted: Verdict, answer: &ProbeAnswer) -> Option<bool> {
    let is_permitted = match answer {
        ProbeAnswer::Permitted => true,
        ProbeAnswer::Refused { .. } => false,
        ProbeAnswer::NotAsked { .. } => return None,
    };
    match predicted {
        Verdict::BusAddress | Verdict::ThroughHostBridge => Some(is_permitted),
        Verdict::NotSupported => Some(!is_permitted),
        Verdict::Unknown => None,
    }
}

fn ask(end: &Endpoint, candidate: &Candidate, clock: &dyn Clock, deadline: Nanos) -> ProbeAnswer {
    let Some(live) = end.live.as_ref().filter(|live| live.node != PathNode::NewFile) else {
        return ProbeAnswer::NotAsked { reason: "there is nothing yet to read".to_owned() };
    };
    let Some(address) = &candidate.memory.address else {
        return ProbeAnswer::NotAsked { reason: "the memory has no PCI address".to_owned() };
    };
    if let Some(way) = way_of(&candidate.memory) {
        // Nothing of cuFile is opened for a way that is known to be closed.
        let refusal = candidate.refusals.first().cloned();
        return ProbeAnswer::NotAsked { reason: refusal.unwrap_or_else(|| ask_library(way)) };
    }
    let is_card = PROVIDERS.kind(&candidate.memory.name) == Some(ProviderKind::Card);
    if let (true, Some(refusal)) = (is_card, candidate.refusals.first()) {
        // The request itself is what some kernels may not survive.
        return ProbeAnswer::NotAsked { reason: refusal.clone() };
    }
    let block = end.facts.block;
    if end.facts.size < block {
        return ProbeAnswer::NotAsked { reason: "it holds less than one block".to_owned() };
    }
    let room = block.round_up(SLOT_ALIGNMENT).unwrap_or(block);
    let asked = read_block(live, &candidate.memory, (address, room), block.0, clock, deadline);
    asked.unwrap_or_else(|reason| ProbeAnswer::NotAsked { reason })
}

/// Reads the first block of an end into memory of a device; the error is in words.
fn read_block(
    live: &Live,
    memory: &MemoryFacts,
    (address, room): (&str, Bytes),
    block: u64,
    clock: &dyn Clock,
    deadline: Nanos,
) -> Result<ProbeAnswer, String> {
    let region = device_memory::allocate(memory, address, room).map_err(in_words)?;
    let opened = open_source(live, deadline).map_err(in_words)?;
    if !opened.is_direct {
        return Err("it takes no direct I/O".to_owned());
    }
    let mut session = Session::new(4, [], None).map_err(in_words)?;
    let file = session.attach_file(&opened).map_err(in_words)?;
    let place = (session.ring.attach_region(region), 0, MemoryKind::P2pmem);
    let request = Request::new((Role::Source, Action::Read), (file, 0), place, block, block);
    Ok(judge(carry_out(&mut session.ring, &mut [request], clock, deadline)))
}

fn in_words(error: impl std::error::Error) -> String {
    error_in_words(&error)
}

/// Asks cuFile about its direct ways. It answers for a file and memory only when a copy registers
/// them.
fn ask_library(way: GpuWay) -> String {
    let later = "a copy asks cuFile, which opens the GPU, before anything is written";
    let GpuWay::CuFile(mode) = way else { return later.to_owned() };
    match open_cufile(mode) {
        Ok(session) => match cufile::flags(&session) {
            Some(flags) => {
                format!("{later}; {}: {}", flags.evidence.looked_at, flags.evidence.showed)
            }
            None => later.to_owned(),
        },
        Err(error) => error_in_words(&error),
    }
}

fn judge(outcome: Result<(), RequestError>) -> ProbeAnswer {
    use crate::failure::Cause::{MemoryNotAccepted, RouteRefused};
    match outcome {
        Ok(()) => ProbeAnswer::Permitted,
        Err(RequestError::Failed(failure))
            if matches!(failure.cause, RouteRefused | MemoryNotAccepted) =>
        {
            ProbeAnswer::Refused { reason: failure.cause.to_string() }
        }
        Err(error) => ProbeAnswer::NotAsked { reason: error_in_words(&error) },
    }
}
