//! Simulates packets, event by event: the reference for rates and the only source of percentiles.
//!
//! Posted writes, reads and completions with tags, credits, the bytes of every header, data link layer
//! packets in the opposite direction, arbitration by input port, queues that hold each other up, limits
//! of root complexes, page-table walks. Packets of one command move in *trains*. Leaves out replays, virtual
//! channels, relaxed ordering and the flits of PCIe 6.0 beyond their efficiency. The one thing to know:
//! time is in whole picoseconds and every draw is a function of seed, flow and number, so that a run
//! repeats bit by bit. `docs/model/tlp.md` derives the equations and says how they are checked.

mod check;
mod commands;
mod engine;
mod log;
mod memory;
mod network;
mod outcome;
mod parts;
mod queue;
mod random;
mod run;
mod settings;
mod stages;
mod threads;

#[cfg(test)]
mod tests;

pub use check::{Check, Fault};
pub(crate) use commands::FEW_SLOTS;
pub use log::{CommandLeg, Commands};
pub use outcome::{
    FlowOutcome, LatencyHistogram, LinkOutcome, MemoryOutcome, TlpError, TlpOutcome,
};
pub use settings::{Extent, Queue, Settings, Train};

use peerlane_units::ByteRate;

use crate::model::{FlowSpec, Topology};

/// The largest request that is simulated, in bytes.
pub const MOST_REQUEST: u32 = 1 << 30;
/// The most requests of a flow under way.
pub const MOST_DEPTH: u32 = 1 << 16;
/// Rates of two train lengths that differ by less agree.
pub const AGREEMENT: f64 = 0.005;

/// Simulates what these flows do to each other.
///
/// # Errors
/// When a flow has no path, no memory, no initiator or impossible commands, and when bytes, credits or tags did not add up.
pub fn simulate(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
) -> Result<TlpOutcome, TlpError> {
    let mut packets = match settings.train {
        Train::Fixed(packets) => return run::run(topology, flows, settings, packets),
        Train::Auto => run::longest_train(topology, flows)?,
    };
    let mut coarse = run::run(topology, flows, settings, packets)?;
    let mut events = coarse.events;
    while packets > 1 {
        packets /= 2;
        let mut fine = run::run(topology, flows, settings, packets)?;
        let difference = difference(rates(&coarse), rates(&fine));
        events += fine.events;
        fine.train_difference = Some(difference);
        coarse = fine;
        if difference <= AGREEMENT {
            break;
        }
    }
    coarse.events = events;
    Ok(coarse)
}

/// Simulates flows whose rates somebody else has found, once: with [`Train::Auto`] by the longest trains that
/// buffers allow. Says whether each flow has that rate, within 0.5 %, so that shorter trains would show no other.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_beside(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
    found: &[ByteRate],
) -> Result<(TlpOutcome, bool), TlpError> {
    let packets = match settings.train {
        Train::Fixed(packets) => packets,
        Train::Auto => run::longest_train(topology, flows)?,
    };
    let outcome = run::run(topology, flows, settings, packets)?;
    let agrees =
        outcome.is_settled && difference(rates(&outcome), found.iter().copied()) <= AGREEMENT;
    Ok((outcome, agrees))
}

fn rates(outcome: &TlpOutcome) -> impl Iterator<Item = ByteRate> {
    outcome.flows.iter().map(|flow| flow.rate)
}

/// The largest relative difference of a flow's rate.
#[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
fn difference(one: impl Iterator<Item = ByteRate>, other: impl Iterator<Item = ByteRate>) -> f64 {
    let relative = one.zip(other).map(|(one, other)| {
        let (one, other) = (one.0 as f64, other.0 as f64);
        (one - other).abs() / other.max(1.0)
    });
    relative.fold(0.0, f64::max)
}
