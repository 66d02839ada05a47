//! Simulates packets, event by event: the reference for rates and the only source of percentiles.
//!
//! Models posted writes, reads and completions with tags and credits, header bytes, data link layer packets,
//! arbitration by input port, back-pressure, root complexes' limits, page-table walks. Packets of one command move in
//! *trains*. Leaves out replays, virtual channels, relaxed ordering and the flits of PCIe 6.0 beyond their efficiency.
//! Time is in whole picoseconds and every random number is a function of seed, flow and count, so a run repeats
//! bit by bit. `docs/model.md` states the equations.
//!
//! | Module | Content | Start with |
//! | --- | --- | --- |
//! | `commands`, `initiator` | arrivals and slots; a drive's start-up cost, its rate limit, its trains | `fill`, `start_leg`, `departed` |
//! | `arbitration` | a switch's choice of the next train of an output | `first_eligible`, `join` |
//! | `transmission` | time on a link, DLLPs, cut-through | `send`, `occupy`, `cut_through` |
//! | `credits`, `tags` | flow control; outstanding reads | `release_credits`, `take_tags` |
//! | `memory`, `translation`, `processors` | memories, IOMMUs, threads that copy | `serve_next`, `translate`, `worked` |
//! | `network`, `hops`, `stages` | parts built of a topology: routes, queues, media | `build`, `hops`, `medium` |
//! | `run`, `warm_up`, `accounts` | a run from start to figures, and its accounts | `finish`, `warm_up`, `check` |
//! | `engine`, `events`, `train`, `port` | the event loop, its queue, and the parts | `handle` |

mod accounts;
mod arbitration;
mod commands;
mod credits;
mod engine;
mod events;
mod hops;
mod initiator;
mod memory;
mod network;
mod outcome;
mod port;
mod processors;
mod random;
mod run;
mod settings;
mod stages;
mod tags;
mod train;
mod translation;
mod transmission;
mod warm_up;

#[cfg(test)]
mod tests;

pub use outcome::{LatencyHistogram, PacketOutcome, TlpError, TlpOutcome};
pub use run::simulate;
pub use settings::{RunLength, Settings, TrainSizes};

/// Bytes of a request, at most.
pub const REQUEST_MAX: u32 = 1 << 30;
/// Requests of a flow under way, at most.
pub const DEPTH_MAX: u32 = 1 << 16;
/// Most depth of a flow with gaps between its commands that decide which others they meet.
pub(crate) const FEW_SLOTS: u32 = 2;
