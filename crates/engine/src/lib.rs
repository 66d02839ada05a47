//! Moves payload: endpoints, plan, proof of the route, relay, verification.
//!
//! The engine owns no clock, no randomness and no ring: [`Clock`], a seed and a [`ring::Ring`] are
//! passed in, so that a seeded test replays any failure. It prints nothing; [`Watch`] is told what
//! happens. A plan is complete before the first byte moves.
#![deny(unsafe_code)]

mod clock;
pub mod connection;
mod copy;
mod cufile;
mod desk;
mod device_memory;
mod doctor;
pub mod endpoint;
pub mod export;
pub mod extents;
pub mod failure;
mod far_side;
#[cfg(any(test, feature = "simulation"))]
pub mod faults;
mod guard;
pub mod journal;
pub mod load;
mod machine;
mod machine_record;
pub mod measure;
mod open;
mod pair;
mod pairs;
mod peer_proof;
mod plan;
pub mod prove;
mod random;
pub mod ranges;
pub mod read;
pub mod relay;
mod request;
pub mod ring;
mod route_answer;
pub mod scrub;
mod session;
pub mod shares;
mod small_files;
pub mod stage;
pub mod stages;
mod stamp;
pub mod suggestion;
mod system;
pub mod trace;
mod uuid;
mod verdict;
pub mod verify;
mod watch;

#[cfg(test)]
use peerlane_testing as testing;

pub use clock::{Clock, MonotonicClock};
pub use copy::{
    CopyError, CopyOptions, FanOut, Metadatum, Scrub, Sparse, Start, Tools, copy, copy_fan_out,
};
pub use device_memory::DeviceRefusal;
pub use doctor::{
    DropIn, after_restart, drop_ins, examine, examine_cards, examine_device, examine_devices,
    examine_pair, use_record,
};
pub use far_side::{FarStatus, OtherExport};
pub use guard::{Surveyor, overwrite_summary};
pub use machine_record::{machine_of, warnings_of_machine};
pub use pair::{condition, explain_pair, is_no_copy, pair_ends, pair_record, reach_verdict};
pub use pairs::{CardPair, Dnas, card_pairs, pair_in_words, read_dna};
pub use peer_proof::{PeerProofError, ProofLimits, prove_peers};
pub use plan::{
    LibraryQuestion, PlanError, ProbeTools, after_probes, ask_library, depends_on_unknown, explain,
    links_between, plan, plan_fan_out, plan_jobs, probe,
};
pub use route_answer::{RouteAnswer, RouteWord, route_answer};
pub use verdict::{EndsVerdict, devices_verdict, plan_verdict};
pub use watch::{Phase, Watch};

/// The longest wait for a device where nobody names another.
pub const DEADLINE: peerlane_units::Nanos = peerlane_units::Nanos::seconds(60);
