//! What must hold after every run, looked at when no packet is under way any more.
//!
//! A rate that a broken account led to is worse than none: engines have found bugs in each other by
//! these sums, among them a link that sent twice its capacity.

use super::engine::Engine;
use super::parts::PortCount;
use super::queue::EventQueue;

/// What had to hold, and what did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Everything that did not hold; empty in a sound run.
    pub faults: Vec<Fault>,
    /// Sums that were compared.
    pub compared: usize,
}

impl Check {
    /// Whether everything held.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    fn that(&mut self, holds: bool, fault: impl FnOnce() -> Fault) {
        self.compared += 1;
        if !holds {
            self.faults.push(fault());
        }
    }
}

/// A sum that did not come out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Packets were lost on the way, or made.
    #[error("leg {leg} sent {sent} bytes, of which {arrived} arrived")]
    Bytes {
        /// Legs in the order of flows.
        leg: usize,
        /// Bytes sent off.
        sent: u64,
        /// Bytes at their end.
        arrived: u64,
    },
    /// Credits did not come back.
    #[error("receiver {pool} has {headers} headers and {units} units free of {of:?}")]
    Credits {
        /// Receivers in the order in which flows reach them.
        pool: usize,
        /// Headers that are free.
        headers: u32,
        /// Units of payload that are free.
        units: u32,
        /// What it began with.
        of: (u32, u32),
    },
    /// Tags did not come back.
    #[error("an initiator has {free} tags free of {full}")]
    Tags {
        /// Tags that are free.
        free: u32,
        /// What it began with.
        full: u32,
    },
    /// Packets stand still.
    #[error("{0} trains never arrived")]
    Trains(u32),
    /// A link carried more than it can.
    #[error("link {link} was busy for {busy} ps of {elapsed} ps")]
    Capacity {
        /// Its position in the topology.
        link: usize,
        /// Time that its packets take.
        busy: u64,
        /// Time that it had.
        elapsed: u64,
    },
}

/// Looks at a run that has drained.
pub(super) fn drained<Q: EventQueue>(engine: &Engine<Q>) -> Check {
    let mut check = Check::default();
    for (number, leg) in engine.legs.iter().enumerate() {
        let (sent, arrived) = (leg.injected, leg.arrived);
        check.that(sent == arrived, || Fault::Bytes { leg: number, sent, arrived });
    }
    for (number, pool) in engine.net.pools.iter().enumerate() {
        let (headers, units) = (pool.headers, pool.units);
        check.that((headers, units) == pool.full, || Fault::Credits {
            pool: number,
            headers,
            units,
            of: pool.full,
        });
    }
    for tags in &engine.net.tags {
        let (free, full) = (tags.free, tags.full);
        check.that(free == full, || Fault::Tags { free, full });
    }
    let live = engine.slab.live;
    check.that(live == 0, || Fault::Trains(live));
    check
}

/// Looks at what the links carried between two counts. Packets count when they leave their queue, so that one train,
/// what is in the egress buffer and what they cause on the way back may be over.
pub(super) fn capacity<Q: EventQueue>(
    engine: &Engine<Q>,
    links: usize,
    counted: &[PortCount],
    elapsed: u64,
    check: &mut Check,
) {
    for (number, port) in engine.net.ports.iter().enumerate().take(2 * links) {
        let (before, now) = (&counted[number], &port.counted);
        let bytes = now.wire - before.wire + (now.dllp - before.dllp) / 1000;
        let busy = (u128::from(bytes) * u128::from(port.picos_per_kib)) >> 10;
        let busy = u64::try_from(busy).unwrap_or(u64::MAX);
        let train = (32 << 10) * port.picos_per_kib / 1024;
        check.that(busy <= elapsed + train + port.ahead + elapsed / 10_000, || Fault::Capacity {
            link: number / 2,
            busy,
            elapsed,
        });
    }
}
