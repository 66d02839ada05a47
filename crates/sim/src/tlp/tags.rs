//! Tags: an initiator has so many read requests outstanding at most.

use std::collections::VecDeque;

use super::engine::PacketEngine;

/// Tags of an initiator.
#[derive(Debug, Clone)]
pub(super) struct Tags {
    pub(super) free: u32,
    pub(super) full: u32,
    /// Queues whose head waits for tags, first come first served.
    waiting: VecDeque<u32>,
}

impl Tags {
    pub(super) fn new(full: u32) -> Self {
        Self { free: full, full, waiting: VecDeque::new() }
    }
}

impl PacketEngine {
    /// Takes the tags that the head of a queue needs; `false` if it waits for them behind others.
    ///
    /// A tag is in use from when a request is sent until its last completion is in a buffer of its initiator (PCIe
    /// base specification, "Transaction descriptor"), whatever a medium takes before or after.
    pub(super) fn take_tags(&mut self, fifo: u32) -> bool {
        let queue = &self.net.fifos[fifo as usize];
        let train = &mut self.slab[queue.head];
        let tags = &mut self.net.tags[queue.tags as usize];
        let request_shift = self.net.routes[train.leg as usize].request_shift;
        let taken = train.bytes.div_ceil(1 << request_shift).min(tags.full);
        if tags.free < taken {
            tags.waiting.push_back(fifo);
            return false;
        }
        tags.free -= taken;
        train.tags = taken;
        true
    }

    /// Returns tags, and lets the queues that wait for some go on in order of arrival.
    pub(super) fn return_tags(&mut self, index: u32, count: u32) {
        self.net.tags[index as usize].free += count;
        while let Some(fifo) = self.net.tags[index as usize].waiting.pop_front() {
            let Some(port) = self.join(fifo) else {
                // Still too few: it keeps its place.
                self.net.tags[index as usize].waiting.rotate_right(1);
                break;
            };
            self.to_arbitrate.push(port);
        }
    }
}
