//! Moves payload: endpoints, plan, proof of the route, relay, verification.
//!
//! Four floors, each of which uses those below it alone: `io` (rings, requests, journals), `endpoints` (what payload
//! comes from and goes to), `plan` (the route), `transfer` (what carries it out). `measure` and `faults` stand above.
//!
//! The engine owns no clock, no randomness and no ring: [`Clock`], a seed and a [`ring::Ring`] are
//! passed in, so that a seeded test replays any failure. It prints nothing; [`Watch`] is told what
//! happens. A plan is complete before the first byte moves.
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
    plan_verdict, probe,
};
pub use transfer::copy::{
    CopyError, CopyOptions, FanOut, Metadatum, Sparse, Start, Tools, copy, copy_fan_out,
};
pub use transfer::peer_proof::{PeerProofError, ProofLimits, prove_peers};
pub use transfer::{export, load, prove, read, relay, shares, stages, verify};

#[cfg(test)]
use peerlane_testing as testing;
