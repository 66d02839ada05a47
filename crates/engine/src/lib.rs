//! Moves payload: endpoints, plan, proof of the route, relay, verification.
//!
//! Four floors, each using only those below it: `io` (rings, requests, journals), `endpoints`
//! (sources and targets), `plan` (the route), `transfer` (the copy itself). `measure` and `faults`
//! stand above.
//!
//! The engine owns no clock, no randomness and no ring: [`Clock`], a seed and a [`ring::Ring`] are
//! passed in, so a seeded test replays any failure. It prints nothing and reports to a [`Watch`]. A
//! plan is complete before the first byte moves.
#![deny(unsafe_code)]

pub mod endpoints;
#[cfg(any(test, feature = "simulation"))]
pub mod faults;
mod io;
pub mod measure;
mod plan;
mod transfer;

pub use endpoints::cards::read_dna;
pub use endpoints::guard::{Surveyor, Surveys, overwrite_summary};
pub use endpoints::{connection, suggestion};
pub use io::clock::{Clock, MonotonicClock};
pub use io::device_memory::DeviceRefusal;
pub use io::watch::{Phase, Watch};
pub use io::{DEADLINE, failure, journal, ring, stage, trace};
pub use plan::route_answer::{RouteAnswer, RouteWord, route_answer};
pub use plan::{
    LibraryQuestion, PlanError, ProbeTools, after_probes, ask_library, examine, examine_copy,
    examine_device, explain, is_no_copy, links_between, pair_ends, plan, plan_fan_out, plan_jobs,
    plan_record, plan_verdict, probe, target_plan,
};
pub use transfer::copy::{
    CopyError, CopyOptions, FanOut, Metadatum, Sparse, Start, Tools, copy, copy_fan_out,
};
pub use transfer::peer_proof::{PeerProofError, ProofLimits, prove_peers};
pub use transfer::{export, load, prove, read, relay, shares, stages, verify};

#[cfg(test)]
use peerlane_testing as testing;
