//! Asks the kernel and the libraries of a GPU: reads one block from each end into each memory, and
//! registers each end with each way of cuFile.
//!
//! The only authoritative answer about a pair is a request; everything else mirrors it. A probe writes
//! to no drive, and does not show that data arrive: the proof at the start of a copy does. The
//! block read, the first of the end, stays in the memory, and the next user may see it.

use std::fs::File;
use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_results::{
    Asked, Candidate, MapType, MemoryFacts, MemoryKind, Plan, Probe, ProbeAnswer,
};
use peerlane_units::{Bytes, Nanos};

use super::gpu::{self, GpuWay, way_of};
use super::{PlanError, SLOT_ALIGNMENT, prepare};
use crate::endpoints::guard::Surveyor;
use crate::endpoints::lane::Session;
use crate::endpoints::open::open_source;
use crate::endpoints::{Endpoint, Live, PathNode};
use crate::io::clock::Clock;
use crate::io::device_memory;
use crate::io::failure::{RequestError, Role, error_in_words};
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, Ring as _};
use crate::io::system::System;

/// A question to a library of a GPU's maker. Such a library may end its process, and keeps settings
/// of the process, so each question has a process of its own: it answers by [`super::ask_library`].
#[derive(Debug)]
pub struct LibraryQuestion {
    /// Name of the memory, which says the way: `gpu:0 by pinned host memory`.
    pub memory: String,
    /// The file that cuFile is to register, open for direct reads; `None` for pinned memory.
    pub file: Option<File>,
}

/// The clock, deadline and library calls of a probe.
#[derive(Clone, Copy)]
pub struct ProbeTools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// The longest wait for one answer.
    pub deadline: Nanos,
    /// Carries a question to a process that calls [`super::ask_library`].
    pub library: &'a dyn Fn(LibraryQuestion) -> ProbeAnswer,
}

/// Asks about every candidate of a plan and either end.
///
/// # Errors
/// As [`super::plan`], when the ends have changed.
pub fn probe(fabric: &Fabric, plan: &Plan, tools: ProbeTools<'_>) -> Result<Vec<Probe>, PlanError> {
    // Nothing is written: what the target holds does not matter.
    let asked = Asked { force: true, ..plan.asked.clone() };
    let (candidates, ends) = looked_at(fabric, &asked, tools)?;
    let mut probes = Vec::new();
    for candidate in &candidates {
        let of_candidate = [candidate.source, candidate.target];
        for (index, (end, predicted)) in ends.iter().zip(of_candidate).enumerate() {
            // Pinned memory is that of all ends.
            if index > 0 && way_of(&candidate.memory) == Some(GpuWay::Pinned) {
                continue;
            }
            let answer = ask(end, candidate, tools);
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

/// The candidates, and the ends that are not a GPU.
fn looked_at(
    fabric: &Fabric,
    asked: &Asked,
    tools: ProbeTools<'_>,
) -> Result<(Vec<Candidate>, Vec<Endpoint>), PlanError> {
    let system = System::at(Path::new("/"));
    if let Some(gpu) = gpu::asked_for(asked) {
        let (plan, drive) = gpu::prepare(&system, fabric, asked, gpu)?;
        return Ok((plan.candidates, vec![drive]));
    }
    let surveyor = Surveyor::new(tools.clock, tools.deadline);
    let now = prepare(&system, &surveyor, fabric, asked)?;
    Ok((now.plan.candidates, vec![now.source, now.target]))
}

/// `None` where one of the two is no answer.
fn agrees(predicted: MapType, answer: &ProbeAnswer) -> Option<bool> {
    let is_permitted = match answer {
        ProbeAnswer::Permitted => true,
        ProbeAnswer::Refused { .. } => false,
        ProbeAnswer::Registered { .. } | ProbeAnswer::NotAsked { .. } => return None,
    };
    match predicted {
        MapType::BusAddress | MapType::ThroughHostBridge => Some(is_permitted),
        MapType::NotSupported => Some(!is_permitted),
        MapType::Conditional | MapType::Unknown => None,
    }
}

fn ask(end: &Endpoint, candidate: &Candidate, tools: ProbeTools<'_>) -> ProbeAnswer {
    let not_asked = |reason: &str| ProbeAnswer::NotAsked { reason: reason.to_owned() };
    let refusal = candidate.refusals.first();
    let way = way_of(&candidate.memory);
    let is_card = PROVIDERS.kind(&candidate.memory.name) == Some(ProviderKind::Card);
    let has_gpu = way.is_some() || candidate.memory.kind == MemoryKind::Gpu;
    // Nothing is opened for a way that is known to be closed, and some kernels may not survive a request into a card.
    if let (true, Some(refusal)) = (has_gpu || is_card, refusal) {
        return not_asked(refusal);
    }
    let memory = || candidate.memory.name.clone();
    if way == Some(GpuWay::Pinned) {
        return (tools.library)(LibraryQuestion { memory: memory(), file: None });
    }
    let Some(live) = end.live.as_ref().filter(|live| live.node != PathNode::NewFile) else {
        return not_asked("there is nothing yet to read");
    };
    if way.is_some() {
        return match open_for_library(live, tools.deadline) {
            Ok(file) => (tools.library)(LibraryQuestion { memory: memory(), file: Some(file) }),
            Err(reason) => not_asked(&reason),
        };
    }
    let Some(address) = &candidate.memory.address else {
        return not_asked("the memory has no PCI address");
    };
    let block = end.facts.block;
    if end.facts.size < block {
        return not_asked("it holds less than one block");
    }
    let room = block.round_up(SLOT_ALIGNMENT).unwrap_or(block);
    let asked = read_block(live, &candidate.memory, (address, room), block.0, tools);
    asked.unwrap_or_else(|reason| ProbeAnswer::NotAsked { reason })
}

/// Opens an end as cuFile wants it; the error is in words.
fn open_for_library(live: &Live, deadline: Nanos) -> Result<File, String> {
    if live.passthrough.is_some() {
        return Err("a passthrough node reaches no GPU".to_owned());
    }
    let opened = open_source(live, deadline).map_err(in_words)?;
    if !opened.is_direct {
        return Err("it takes no direct I/O, which cuFile needs".to_owned());
    }
    opened.file.try_clone().map_err(in_words)
}

/// Reads the first block of an end into memory of a device; the error is in words.
fn read_block(
    live: &Live,
    memory: &MemoryFacts,
    (address, room): (&str, Bytes),
    block: u64,
    ProbeTools { clock, deadline, .. }: ProbeTools<'_>,
) -> Result<ProbeAnswer, String> {
    let region = device_memory::allocate(memory, address, room).map_err(in_words)?;
    let opened = open_source(live, deadline).map_err(in_words)?;
    if !opened.is_direct {
        return Err("it takes no direct I/O".to_owned());
    }
    let mut session = Session::new(4, [], None).map_err(in_words)?;
    let file = session.attach_file(&opened).map_err(in_words)?;
    let region = session.ring.attach_region(region);
    let place = MemoryPlace { region, offset: 0, kind: MemoryKind::P2pmem };
    let from = FilePlace { file, offset: 0, block };
    let request = Request::new(Role::Source, Action::Read, from, place, block);
    Ok(judge(carry_out(&mut session.ring, &mut [request], clock, deadline)))
}

fn in_words(error: impl std::error::Error) -> String {
    error_in_words(&error)
}

fn judge(outcome: Result<(), RequestError>) -> ProbeAnswer {
    use crate::io::failure::Cause::{MemoryNotAccepted, RouteRefused};
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
