//! Copies with faults at every operation, on simulated drives, drawn from a seed.
//!
//! One run is one copy: it begins, something goes wrong, it ends or does not, somebody repairs what
//! was broken, it goes on by its journal until it is complete. After each of these steps the checks
//! of [`check`] ask whether anything untrue was said or done. Proof, relay, tail, flush, journal text
//! and verification are those of the product; the order of saving is that of `copy`, which has files
//! and memories of its own and tests of its own.
//!
//! A run that breaks a promise is an [`Untrue`]; its seed replays it.

mod attempt;
mod check;
mod fan_out;
mod kind;
mod life;
mod tally;
mod world;

pub use kind::Kind;
pub use life::{Ending, Outcome, Untrue, run};
pub use tally::{Tally, results};

#[cfg(test)]
mod tests;
