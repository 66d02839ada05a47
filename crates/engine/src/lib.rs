//! Moves payload: endpoints, plan, proof of the route, relay, verification.
//!
//! The engine owns no clock, no randomness and no ring: [`Clock`], a seed and a [`ring::Ring`] are
//! passed in, so that a seeded test replays any failure. It prints nothing; [`Watch`] is told what
//! happens. A plan is complete before the first byte moves.
#![deny(unsafe_code)]

mod clock;
pub mod extents;
pub mod journal;
pub mod ranges;
pub mod ring;
mod watch;

pub use clock::{Clock, MonotonicClock};
pub use watch::{Phase, Watch};
