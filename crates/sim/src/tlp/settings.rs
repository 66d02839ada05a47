//! How a simulation is run.

use crate::model::Picos;

/// How a simulation is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Decides every draw: arrivals of open flows, latencies of few commands, the queue that a command takes where
    /// coupling is partial.
    pub seed: u64,
    /// Packets that move as one.
    pub train: Train,
    /// How long.
    pub extent: Extent,
    /// Events of a run with [`Extent::Even`], as far as its window need not be longer. Trains are halved once, and
    /// further while all runs together take twice as many at most.
    pub events: u64,
    /// Which queue of events. It changes nothing but the speed.
    pub queue: Queue,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            train: Train::Auto,
            extent: Extent::default(),
            events: u64::MAX,
            queue: Queue::Wheel,
        }
    }
}

/// Packets that move as one, with the bytes on the wire of each (Ahn and Danzig, "Packet network
/// simulation: speedup and accuracy versus timing granularity", 1996).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Train {
    /// As many as leave room for eight trains in the smallest buffer, sixteen at most; then half of it
    /// until the rates of two runs agree within 0.5 %.
    Auto,
    /// This many, or fewer where a buffer holds fewer.
    Fixed(u32),
}

/// How long a simulation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// As long as it takes for rates to be stable, then `window`, in which figures are taken. Flows are
    /// endless and `bytes` of a flow means nothing. Ends without stability after `most`.
    Steady {
        /// Time over which figures are taken.
        window: Picos,
        /// Longest time before it.
        most: Picos,
    },
    /// The same with a window that is as long as it must be: `least`, then doubled until commands took as long
    /// in its second half as in its first, up to `window`.
    Even {
        /// Shortest time before it: flows of little depth find turns in which they meet less.
        after: Picos,
        /// The shortest window where events are spent.
        brief: Picos,
        /// The shortest window.
        least: Picos,
        /// The longest.
        window: Picos,
        /// Longest time before it.
        most: Picos,
    },
    /// Until every flow has moved its bytes, but `most` at most.
    Whole {
        /// Longest simulated time.
        most: Picos,
    },
}

impl Default for Extent {
    /// A window of 20 ms after 200 ms at most.
    fn default() -> Self {
        Self::Steady { window: Picos::millis(20), most: Picos::millis(200) }
    }
}

/// A queue of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// A time wheel with a heap for what is far.
    Wheel,
    /// A binary heap: slower, and the reference for the wheel.
    Heap,
}
