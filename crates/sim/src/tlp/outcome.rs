//! What a simulation found.

use hdrhistogram::Histogram;
use peerlane_results::Percentiles;
use peerlane_units::{ByteRate, Bytes, Nanos};

use crate::model::{PathError, Picos};

use super::check::{Check, Fault};

/// Why a simulation could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlpError {
    /// There is no way for the packets of a flow.
    #[error("flow {flow} has no path")]
    Path {
        /// The flow.
        flow: String,
        /// Why.
        #[source]
        source: PathError,
    },
    /// The node that a flow reads or writes has no memory.
    #[error("flow {flow}: {node} has no memory")]
    NoMemory {
        /// The flow.
        flow: String,
        /// The node.
        node: String,
    },
    /// The node that should issue requests is not an endpoint.
    #[error("flow {flow}: {node} issues no requests")]
    NoInitiator {
        /// The flow.
        flow: String,
        /// The node.
        node: String,
    },
    /// A flow without commands, or with commands that are empty or above 1 GiB.
    #[error(
        "flow {0}: commands have between 1 byte and 1 GiB, and between 1 and 65536 are under way"
    )]
    Commands(String),
    /// What was sent did not add up when all was over: no figure of such a run is one.
    #[error(
        "packets did not add up, which is a mistake of the model ({count} accounts are broken)"
    )]
    Account {
        /// How many.
        count: usize,
        /// The first.
        #[source]
        source: Fault,
    },
}

/// What a simulation found.
#[derive(Debug, Clone)]
pub struct TlpOutcome {
    /// One for each flow, in order.
    pub flows: Vec<FlowOutcome>,
    /// Up and down of each link of the topology, in order.
    pub links: Vec<[LinkOutcome; 2]>,
    /// One for each node, in order; zero where there is no memory.
    pub memories: Vec<MemoryOutcome>,
    /// Events that were carried out.
    pub events: u64,
    /// Simulated time before figures were taken.
    pub warm_up: Picos,
    /// Simulated time over which they were taken.
    pub measured: Picos,
    /// Whether rates were stable before that, or every flow came to its end.
    pub is_settled: bool,
    /// Packets in a full train.
    pub train: u32,
    /// Largest relative difference of a flow's rate between the last two train lengths; `None` where one
    /// was run.
    pub train_difference: Option<f64>,
    /// Memory that the simulation took, topology left out.
    pub memory: Bytes,
    /// What had to hold, and did.
    pub check: Check,
}

/// What one flow did.
#[derive(Debug, Clone)]
pub struct FlowOutcome {
    /// Payload moved in the window.
    pub bytes: Bytes,
    /// Payload over the window, or over the time of the flow where it came to its end.
    pub rate: ByteRate,
    /// Commands completed in the window, and how long each took.
    pub latency: LatencyHistogram,
    /// Commands of an open flow that came while 65536 others waited, and were dropped.
    pub lost: u64,
    /// From the start of the run to the first completion of a command; `None` without one.
    pub first_done: Option<Picos>,
    /// From the start of the run to the last completion.
    pub last_done: Option<Picos>,
}

/// Load of one direction of a link in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkOutcome {
    /// Payload.
    pub payload: Bytes,
    /// Bytes of packets, payload and headers.
    pub wire: Bytes,
    /// Bytes of acknowledgements and credit updates.
    pub dllp: Bytes,
    /// Share of the time in which it sent, 0 to 1.
    pub busy: f64,
    /// Most queues that waited for it at a time.
    pub most_waiting: u32,
}

/// What a memory took and gave in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryOutcome {
    /// Bytes written into it.
    pub written: Bytes,
    /// Bytes read from it.
    pub read: Bytes,
}

/// Times of commands in picoseconds, to two significant digits: buckets of one percent and less.
#[derive(Debug, Clone)]
pub struct LatencyHistogram(Histogram<u32>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        let empty = Histogram::new(2).expect("two digits are allowed");
        Self(empty)
    }
}

impl LatencyHistogram {
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.0.distinct_values() * size_of::<u32>()
    }

    pub(crate) fn record(&mut self, picos: u64) {
        // It grows as needed; what it could not hold is above 2^63 ps, which no run reaches.
        let _ = self.0.record(picos.max(1));
    }

    /// Whether what `whole` has beside this took as long: median and 99th percentile within 2 %.
    pub(super) fn is_half_of(&self, whole: &Self) -> bool {
        let mut rest = whole.0.clone();
        if rest.subtract(&self.0).is_err() || self.0.is_empty() || rest.is_empty() {
            return false;
        }
        [0.5, 0.99].into_iter().all(|share| {
            let (one, other) = (self.0.value_at_quantile(share), rest.value_at_quantile(share));
            one.abs_diff(other) <= one.max(other) / 50
        })
    }

    /// How many commands took how long, shortest first.
    pub fn steps(&self) -> impl Iterator<Item = (Picos, u64)> + '_ {
        let steps = self.0.iter_recorded();
        steps.map(|step| (Picos(step.value_iterated_to()), step.count_at_value().into()))
    }

    /// Commands counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share of the commands, 0 to 1, does not exceed.
    pub fn quantile(&self, share: f64) -> Picos {
        Picos(self.0.value_at_quantile(share))
    }

    /// The mean.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of u64")]
    pub fn mean(&self) -> Picos {
        Picos(self.0.mean() as u64)
    }

    /// Standard error of the mean over the mean, as if commands did not know of each other; infinite without
    /// one.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn relative_error(&self) -> f64 {
        match self.count() {
            0 => f64::INFINITY,
            count => self.0.stdev() / self.0.mean() / (count as f64).sqrt(),
        }
    }

    /// The same in the words of a record.
    pub fn percentiles(&self) -> Percentiles {
        let at = |share| -> Nanos { self.quantile(share).to_nanos() };
        Percentiles {
            count: self.count(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: Picos(self.0.max()).to_nanos(),
        }
    }
}

impl PartialEq for LatencyHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
