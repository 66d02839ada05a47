//! Copies with faults at every operation, on simulated drives, drawn from a seed.
//!
//! One run is one copy: it begins, a fault occurs, it ends or does not, the fault is repaired, it
//! goes on by its journal until it is complete. After each of these steps the checks of [`check`]
//! ask whether anything untrue was said or done. The copy, to a drive, to several or to a file, is
//! that of the product, on a [`machine`] that is passed to it instead of the host.
//!
//! A run that breaks a promise is an [`Untrue`]; its seed replays it.

mod accounts;
mod attempt;
mod batch;
mod changed_options;
mod check;
mod disk;
mod draw;
mod exchange;
mod figures;
mod files;
mod final_name;
mod folder;
mod keeping;
mod kind;
mod life;
mod machine;
mod machine_ring;
mod plan;
mod sample;
mod tally;
mod world;

use peerlane_fabric::{Fabric, Origin};

pub use batch::{CopyOfBatch, run_batch};
pub use kind::FaultKind;
pub use life::{Ending, FaultedOutcome, Untrue, run};
pub use tally::{FaultTally, results};

/// This machine without any device: only the host route remains.
pub(crate) fn bare_machine() -> Fabric {
    Fabric::unknown("bare", Origin::ThisMachine)
}

#[cfg(test)]
mod tests;
