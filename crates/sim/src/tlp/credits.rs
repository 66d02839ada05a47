//! Flow control: a train leaves only with credits of its receiver (PCIe base specification, "Flow control").

use super::engine::PacketEngine;
use super::port::{Hop, NONE};
use super::train::Train;

/// Credits of one receiver for one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreditPool {
    pub(super) headers: u32,
    /// Units of 16 bytes of payload.
    pub(super) units: u32,
    /// The port that waits for them.
    pub(super) port: u32,
    pub(super) full: (u32, u32),
    /// Time that a credit takes back to the sender.
    pub(super) return_delay: u64,
}

impl CreditPool {
    pub(super) fn take(&mut self, hop: &Hop, train: &Train) {
        self.headers -= hop.packets(train.bytes);
        self.units -= hop.units(train.bytes);
    }

    pub(super) fn give(&mut self, headers: u32, units: u32) {
        self.headers += headers;
        self.units += units;
    }
}

impl PacketEngine {
    pub(super) fn has_credits(&self, hop: &Hop, train: &Train) -> bool {
        let pool = &self.net.pools[hop.lane.pool as usize];
        pool.headers >= hop.packets(train.bytes) && pool.units >= hop.units(train.bytes)
    }

    /// Returns the credits that a train holds, as its first packet leaves at `time`.
    ///
    /// A train takes all its credits with its first packet and returns all with its first, so the round
    /// trip of credits does not depend on the length of trains.
    pub(super) fn release_credits(&mut self, train: &Train, time: u64) {
        if train.held == NONE {
            return;
        }
        let before = &self.net.hops[train.hop as usize - 1];
        let (headers, units) = (before.packets(train.bytes), before.units(train.bytes));
        self.push_credit(time, train.held, headers, units);
    }

    /// Credits are back at a sender.
    pub(super) fn credit(&mut self, pool: u32, headers: u32, units: u32) {
        let pool = &mut self.net.pools[pool as usize];
        pool.give(headers, units);
        self.to_arbitrate.push(pool.port);
    }
}
