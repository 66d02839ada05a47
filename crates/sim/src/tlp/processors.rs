//! Threads of transfers that copy blocks, one after the other, in pieces that wait for the host memory.
//!
//! Leaves out processors that transfers share: where they could use all of them up, the flow engine predicts.

use std::collections::VecDeque;

use super::engine::{PacketEngine, WORKED};
use super::memory::COPIES;
use super::network::PacketNetwork;
use super::port::NONE;
use crate::model::{FlowSpec, Topology};

/// Payload of a piece of a copy: kernels copy a page at a time.
const PIECE: u32 = 4 << 10;

/// The copy in progress.
#[derive(Debug, Clone, Copy)]
struct CurrentCopy {
    slot: u32,
    /// Bytes that are left.
    left: u32,
    /// End of the piece in progress on the processor.
    until: u64,
}

/// The thread of a flow.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// The memory of copies; [`NONE`] where they take nothing from others.
    memory: u32,
    /// Picoseconds, and bytes of memory, to copy a block of `request` bytes.
    copy: u64,
    traffic: u64,
    request: u64,
    /// Slots to copy.
    waiting: VecDeque<u32>,
    current: Option<CurrentCopy>,
}

impl Thread {
    /// The thread of a flow; `None` if nothing waits for it.
    pub(super) fn for_flow(
        topology: &Topology,
        spec: &FlowSpec,
        network: &PacketNetwork,
    ) -> Option<Self> {
        let work = spec.work.as_ref().filter(|work| work.copy.0 > 0)?;
        let memory = work.memory_time(topology).filter(|_| work.traffic.0 > 0);
        let known = memory.and_then(|_| network.memory_of.get(&(work.at, None)).copied());
        Some(Self {
            memory: known.unwrap_or(NONE),
            copy: work.copy.0,
            traffic: work.traffic.0,
            request: spec.request.0.max(1),
            waiting: VecDeque::new(),
            current: None,
        })
    }

    /// Returns the share of a block's cost for so many bytes.
    fn part(&self, whole: u64, bytes: u32) -> u64 {
        let part = u128::from(whole) * u128::from(bytes) / u128::from(self.request);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

impl PacketEngine {
    /// Lets the thread of a flow copy a slot, and then start its last leg.
    pub(super) fn copy(&mut self, flow: u32, slot: u32) {
        let Some(thread) = &mut self.flows[flow as usize].thread else { return };
        thread.waiting.push_back(slot);
        if thread.current.is_none() {
            self.copy_next(flow);
        }
    }

    /// Begins the next copy of a thread, if there is one.
    fn copy_next(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(thread) = &mut flow.thread else { return };
        if let Some(slot) = thread.waiting.pop_front() {
            thread.current = Some(CurrentCopy { slot, left: flow.request, until: 0 });
            self.copy_piece(index);
        }
    }

    fn copy_piece(&mut self, index: u32) {
        let now = self.now;
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(CurrentCopy { slot, left, .. }) = thread.current else { return };
        let until = now + thread.part(thread.copy, left.min(PIECE));
        thread.current = Some(CurrentCopy { slot, left, until });
        match thread.memory {
            NONE => self.push(until, WORKED, index),
            memory => self.queue_up(memory, COPIES, index),
        }
    }

    /// Returns the bytes of memory that the piece of a copy takes.
    pub(super) fn copied_bytes(&self, flow: u32) -> u32 {
        let thread = self.flows[flow as usize].thread.as_ref();
        let traffic = thread
            .and_then(|thread| Some(thread.part(thread.traffic, thread.current?.left.min(PIECE))));
        u32::try_from(traffic.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// The memory has served a piece of a copy, which ends when its processor has finished, too.
    pub(super) fn copied(&mut self, flow: u32, served: u64) {
        let thread = self.flows[flow as usize].thread.as_ref();
        let until = thread.and_then(|thread| thread.current).map_or(0, |current| current.until);
        self.push(served.max(until), WORKED, flow);
    }

    /// A piece of a copy is finished.
    pub(super) fn worked(&mut self, index: u32) {
        let Some(thread) = &mut self.flows[index as usize].thread else { return };
        let Some(current) = &mut thread.current else { return };
        current.left -= current.left.min(PIECE);
        if current.left > 0 {
            self.copy_piece(index);
            return;
        }
        let slot = current.slot;
        thread.current = None;
        self.copy_next(index);
        self.start_last_leg(index, slot);
    }
}
