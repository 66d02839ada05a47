//! The event loop: takes events in order of time and dispatches them.
//!
//! Each module adds its part of [`Engine`]: `commands` and `initiator` start commands, `arbitration` chooses the
//! next train of a port, `transmission` sends it, `credits` and `tags` hold it back, `memory` ends it.

use super::commands::FlowState;
use super::events::{EventWheel, ScheduledEvent};
use super::initiator::LegState;
use super::network::PacketNetwork;
use super::train::Slab;

/// A port may have room in its egress buffer again.
pub(super) const FREE: u32 = 0;
/// A train is at the end of a hop.
pub(super) const ARRIVE: u32 = 1;
/// Credits are back at a sender.
pub(super) const CREDIT: u32 = 2;
/// A memory has taken a write, or has data for a completion.
pub(super) const SERVED: u32 = 3;
/// The last byte of a completion is at its initiator.
pub(super) const DELIVERED: u32 = 4;
/// The first read request of a train is answered.
pub(super) const TAGS: u32 = 5;
/// The start-up latency of a command is over.
pub(super) const READY: u32 = 6;
/// A leg with a rate limit may go on.
pub(super) const WAKE: u32 = 7;
/// A flow starts, or the next command of a paced one is due.
pub(super) const BEGIN: u32 = 8;
/// A memory with turns between reads and writes has served one.
pub(super) const IDLE: u32 = 9;
/// The thread of a flow has finished a piece of its work.
pub(super) const WORKED: u32 = 10;
/// The initiator's own memory has read the data of a write, or made room for that of a read.
pub(super) const LOADED: u32 = 11;

const INDEX_BITS: u32 = 28;
/// Headers of a credit event take the upper 12 bits of its data, units the lower 20.
const UNIT_BITS: u32 = 20;

/// A simulation in progress.
pub(super) struct PacketEngine {
    pub(super) queue: EventWheel,
    pub(super) now: u64,
    pub(super) events: u64,
    pub(super) net: PacketNetwork,
    pub(super) slab: Slab,
    pub(super) legs: Vec<LegState>,
    pub(super) flows: Vec<FlowState>,
    pub(super) seed: u64,
    /// True while latencies are recorded.
    pub(super) is_measuring: bool,
    /// True once no packet is injected any more.
    pub(super) is_draining: bool,
    /// Ports to arbitrate before the next event.
    pub(super) to_arbitrate: Vec<u32>,
}

impl PacketEngine {
    /// Handles all events up to `until`.
    pub(super) fn run_until(&mut self, until: u64) {
        while let Some(event) = self.queue.pop(until) {
            self.now = event.time;
            self.events += 1;
            self.handle(event);
            while let Some(port) = self.to_arbitrate.pop() {
                self.arbitrate(port);
            }
        }
    }

    fn handle(&mut self, ScheduledEvent { key, data, .. }: ScheduledEvent) {
        let index = key & ((1 << INDEX_BITS) - 1);
        match key >> INDEX_BITS {
            FREE => {
                self.net.ports[index as usize].is_awaited = false;
                self.to_arbitrate.push(index);
            }
            ARRIVE => self.arrive(index),
            CREDIT => self.credit(index, data >> UNIT_BITS, data & ((1 << UNIT_BITS) - 1)),
            SERVED => self.served(index),
            DELIVERED => self.delivered(index),
            TAGS => self.return_tags(index, data),
            READY => self.ready(index, data),
            WAKE => self.wake(index),
            IDLE => self.serve_next(index),
            WORKED => self.worked(index),
            LOADED => self.leave_for_port(index),
            _ => self.begin(index),
        }
    }

    /// Schedules an event of a kind for the part with this index.
    pub(super) fn push(&mut self, time: u64, kind: u32, index: u32) {
        self.push_with(time, kind, index, 0);
    }

    /// Schedules an event with data.
    pub(super) fn push_with(&mut self, time: u64, kind: u32, index: u32, data: u32) {
        debug_assert!(index < 1 << INDEX_BITS && time >= self.now);
        self.queue.push(ScheduledEvent { time, key: kind << INDEX_BITS | index, data });
    }

    /// Schedules the return of credits to the sender.
    pub(super) fn push_credit(&mut self, time: u64, pool: u32, headers: u32, units: u32) {
        let delay = self.net.pools[pool as usize].return_delay;
        self.push_with(time + delay, CREDIT, pool, headers << UNIT_BITS | units);
    }
}
