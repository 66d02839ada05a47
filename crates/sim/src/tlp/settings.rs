//! Settings of a simulation.

use crate::model::Picos;

/// Settings of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Seed of all random numbers: latencies of flows of few commands.
    pub seed: u64,
    /// Packets that move as one.
    pub train: TrainSizes,
    /// Length of the run.
    pub extent: RunLength,
}

/// Packets that move as one, with the bytes on the wire of each (Ahn and Danzig, "Packet network
/// simulation: speedup and accuracy versus timing granularity", 1996).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrainSizes {
    /// Sixteen, or as many as leave room for eight trains in the smallest buffer.
    #[default]
    Auto,
    /// This many, or fewer where a buffer holds fewer.
    Fixed(u32),
}

/// Length of a run. Flows are endless: their `start` and `bytes` are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// Until rates are stable, and then `window` for the figures.
    Steady {
        /// Time of the measurement.
        window: Picos,
        /// Time after which it starts without stability.
        most: Picos,
    },
    /// Until the rates of two consecutive spans agree, and then until each flow has completed 256 commands, or as many as
    /// have 128 MiB, but at least 4. When half of the events are spent the measurement starts without stability; when all
    /// are, it ends. The outcome is settled if rates were stable and each flow has completed 4 commands.
    Window {
        /// Events, at most.
        events: u64,
    },
}

impl Default for RunLength {
    /// A window of 20 ms after 200 ms at most.
    fn default() -> Self {
        Self::Steady { window: Picos::millis(20), most: Picos::millis(200) }
    }
}
