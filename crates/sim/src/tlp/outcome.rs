//! The outcome of a simulation.

use hdrhistogram::Histogram;
use peerlane_units::{ByteRate, Bytes};

use crate::model::{PathError, Picos};

/// An error of a simulation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlpError {
    /// Packets of a flow have no path.
    #[error("flow {flow} has no path")]
    Path {
        /// The flow.
        flow: String,
        /// The reason.
        #[source]
        source: PathError,
    },
    /// A flow reads or writes a node without memory.
    #[error("flow {0}: {1} has no memory")]
    NoMemory(String, String),
    /// The initiator of a flow is not an endpoint.
    #[error("flow {0}: {1} issues no requests")]
    NoInitiator(String, String),
    /// Commands of a flow are empty, above 1 GiB, or too many.
    #[error(
        "flow {0}: commands have between 1 byte and 1 GiB, and between 1 and 65536 are under way"
    )]
    Commands(String),
    /// Accounts of the run are broken: it has no figures.
    #[error(
        "packets did not add up, a mistake of the model ({count} accounts are broken; the first: {first})"
    )]
    Account {
        /// Broken accounts.
        count: usize,
        /// The first.
        first: String,
    },
}

/// The outcome of a simulation.
#[derive(Debug, Clone)]
pub struct TlpOutcome {
    /// One for each flow, in order.
    pub flows: Vec<PacketOutcome>,
    /// Events of the run.
    pub events: u64,
    /// Simulated time before the measurement.
    pub warm_up: Picos,
    /// Simulated time of the measurement.
    pub measured: Picos,
    /// True if rates were stable before the measurement and it was long enough.
    pub is_settled: bool,
    /// Packets in a full train.
    pub train: u32,
}

/// The outcome of one flow.
#[derive(Debug, Clone)]
pub struct PacketOutcome {
    /// Payload moved in the measurement.
    pub bytes: Bytes,
    /// Payload over the measurement.
    pub rate: ByteRate,
    /// Latency of the commands completed in the measurement.
    pub latency: LatencyHistogram,
}

/// Latencies of commands in picoseconds, to two significant digits: buckets of one percent and less.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(Histogram<u32>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Histogram::new(2).expect("two digits are allowed"))
    }
}

impl LatencyHistogram {
    pub(crate) fn record(&mut self, picos: u64) {
        // It grows as needed up to 2^63 ps, which no run reaches.
        let _ = self.0.record(picos.max(1));
    }

    /// Returns the buckets in use, shortest first, with their commands.
    pub fn steps(&self) -> impl Iterator<Item = (Picos, u64)> + '_ {
        let steps = self.0.iter_recorded();
        steps.map(|step| (Picos(step.value_iterated_to()), step.count_at_value().into()))
    }

    /// Returns the number of commands.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time that a share of the commands, 0 to 1, does not exceed.
    pub fn quantile(&self, share: f64) -> Picos {
        Picos(self.0.value_at_quantile(share))
    }
}
