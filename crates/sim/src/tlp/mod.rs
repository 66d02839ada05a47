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
/// All runs have so many times the events of one, where trains are halved more than once.
const MOST_RUNS: u64 = 2;

/// Simulates what these flows do to each other.
///
/// # Errors
/// When a flow has no path, no memory, no initiator or impossible commands, and when bytes, credits or tags did not add up.
pub fn simulate(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
) -> Result<TlpOutcome, TlpError> {
    let packets = match settings.train {
        Train::Fixed(packets) => return run::run(topology, flows, settings, packets),
        Train::Auto => run::longest_train(topology, flows)?,
    };
    let coarse = run::run(topology, flows, settings, packets)?;
    Ok(halved(topology, flows, settings, coarse, |_, _| 0.0)?.0)
}

/// Halves trains of a run until rates differ by no more than they may, a half of a percent and what two outcomes of one
/// flow may differ by for other reasons. Says whether the last two agree so.
///
/// # Errors
/// As [`simulate`].
pub(crate) fn halved(
    topology: &Topology,
    flows: &[FlowSpec],
    settings: &Settings,
    mut coarse: TlpOutcome,
    beside: impl Fn(&FlowOutcome, &FlowOutcome) -> f64,
) -> Result<(TlpOutcome, bool), TlpError> {
    let (mut events, mut last, mut agree) = (coarse.events, 0, false);
    while !agree
        && coarse.train > 1
        && events + 2 * last <= settings.events.saturating_mul(MOST_RUNS)
    {
        let settings = as_long(settings, &coarse);
        let mut fine = run::run(topology, flows, &settings, coarse.train / 2)?;
        let difference = difference(rates(&coarse), rates(&fine));
        agree = are_alike(&coarse, &fine, &beside);
        (last, events) = (fine.events, events + fine.events);
        fine.train_difference = Some(difference);
        coarse = fine;
    }
    coarse.events = events;
    Ok((coarse, agree))
}

/// Whether each flow has the same rate in two runs, within half of a percent and what else they may differ by.
pub(crate) fn are_alike(
    one: &TlpOutcome,
    other: &TlpOutcome,
    beside: impl Fn(&FlowOutcome, &FlowOutcome) -> f64,
) -> bool {
    one.flows
        .iter()
        .zip(&other.flows)
        .all(|(one, other)| apart(one.rate, other.rate) <= AGREEMENT + beside(one, other))
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

/// The same for a window that is as long as that of a run before it, whatever events that takes.
fn as_long(settings: &Settings, run: &TlpOutcome) -> Settings {
    let mut settings = settings.clone();
    if let Extent::Even { brief, least, window, .. } = &mut settings.extent {
        [*brief, *least, *window] = [run.measured; 3];
    }
    settings
}

fn rates(outcome: &TlpOutcome) -> impl Iterator<Item = ByteRate> {
    outcome.flows.iter().map(|flow| flow.rate)
}

/// The largest relative difference of a flow's rate.
fn difference(one: impl Iterator<Item = ByteRate>, other: impl Iterator<Item = ByteRate>) -> f64 {
    one.zip(other).map(|(one, other)| apart(one, other)).fold(0.0, f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
fn apart(one: ByteRate, other: ByteRate) -> f64 {
    let (one, other) = (one.0 as f64, other.0 as f64);
    (one - other).abs() / other.max(1.0)
}
