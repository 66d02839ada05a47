//! What memories and address translation do with the trains that reach them.
//!
//! Reads and writes that share a memory take turns: they come by buffers of their own (PCIe base specification, "Flow
//! control"), and controllers have a channel for each and an arbiter behind them (AMD, "Zynq-7000 and 7 series
//! devices memory interface solutions", UG586, "Arbitration in AXI shim": round robin, in time slots, or by priority).

use std::collections::VecDeque;

use super::engine::Engine;
use super::parts::{COMPLETION, IommuState, MemoryState, NONE, Train};
use super::queue::EventQueue;
use crate::model::Op;

/// The sides of trains that write and read, of copies, and of the device that the memory is of.
const WRITES: usize = 0;
const READS: usize = 1;
const COPIES: usize = 2;
const OWN: usize = 3;

impl MemoryState {
    /// Bytes that it takes beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.waiting.iter().map(|side| side.capacity() * size_of::<u32>()).sum()
    }

    /// Serves `bytes` of writes (0) or reads (1) behind what came before: when it begins, and how long it takes.
    fn serve(&mut self, side: usize, bytes: u32, now: u64) -> (u64, u64) {
        let time = (u64::from(bytes) * self.per_kib[side]) >> 10;
        let start = now.max(self.free_at);
        self.free_at = start + time;
        (start, time)
    }

    /// Puts an access behind the others of its side, which has no turns saved from when it had none.
    fn wait(&mut self, side: usize, train: u32) {
        if self.waiting[side].is_empty() {
            self.turns[side] = self.turns[side].max(self.turn);
        }
        self.waiting[side].push_back(train);
    }

    /// The access whose turn is next, and its side: of equal turns that of the first side.
    fn next(&mut self) -> Option<(usize, u32)> {
        let waits = |side: &usize| !self.waiting[*side].is_empty();
        let side = (0..self.waiting.len()).filter(waits).min_by_key(|&side| self.turns[side])?;
        self.turn = self.turns[side];
        self.waiting[side].pop_front().map(|access| (side, access))
    }

    /// Serves bytes that a copy reads and writes: when it is done.
    fn serve_copy(&mut self, bytes: u32, now: u64) -> u64 {
        let per_kib = self.per_kib.iter().sum::<u64>();
        self.free_at = now.max(self.free_at) + ((u64::from(bytes) * per_kib) >> 11);
        self.free_at
    }
}

impl IommuState {
    /// Walks page tables `count` times, each on the walker that is free first: when the last is done.
    fn walk(&mut self, count: u64, now: u64) -> u64 {
        let mut last = now;
        for _ in 0..count {
            let Some(first) = self.walkers.iter_mut().min() else { break };
            *first = now.max(*first) + self.walk;
            last = last.max(*first);
        }
        last
    }
}

impl<Q: EventQueue> Engine<Q> {
    /// When the translation of a train is done; `None` if it is cached.
    ///
    /// Of each leg, one in so many pages misses, evenly: `B <= walkers * page / (miss * T_walk)`
    /// (Farshin et al., "Overcoming the IOTLB wall for multi-100-Gbps Linux-based networking", 2023).
    pub(super) fn translate(&mut self, index: u32, train: &Train) -> Option<u64> {
        let iommu = &mut self.net.iommus[index as usize];
        let leg = &mut self.legs[train.leg as usize];
        leg.untranslated += u64::from(train.bytes) * iommu.miss_per_mille;
        let misses = leg.untranslated / iommu.bytes_per_mille_miss;
        leg.untranslated %= iommu.bytes_per_mille_miss;
        (misses > 0).then(|| iommu.walk(misses, self.now))
    }

    /// A train's first packet reaches its memory.
    pub(super) fn access(&mut self, memory: u32, index: u32) {
        let state = &self.net.memories[memory as usize];
        let side = match self.net.routes[self.slab[index].leg as usize].op {
            Op::Write => WRITES,
            Op::Read => READS,
        };
        if state.takes_turns && state.per_kib[side] > 0 {
            self.queue_up(memory, side, index);
        } else {
            self.serve(memory, index);
        }
    }

    /// A train waits for the memory of its own initiator before it leaves for its first port, as it would for a medium.
    pub(super) fn access_own(&mut self, memory: u32, index: u32) {
        self.queue_up(memory, OWN, index);
    }

    /// The thread of a flow copies a piece in a memory whose reads and writes take turns.
    pub(super) fn access_for_copy(&mut self, memory: u32, flow: u32) {
        self.queue_up(memory, COPIES, flow);
    }

    fn queue_up(&mut self, memory: u32, side: usize, access: u32) {
        let state = &mut self.net.memories[memory as usize];
        state.wait(side, access);
        let is_alone = state.waiting.iter().map(VecDeque::len).sum::<usize>() == 1;
        if is_alone {
            // What is served now sees to the others when it is done.
            let time = state.free_at.max(self.now);
            self.push_idle(time, memory);
        }
    }

    /// A memory whose reads and writes take turns serves the next of them.
    pub(super) fn serve_next(&mut self, memory: u32) {
        let Some((side, access)) = self.net.memories[memory as usize].next() else { return };
        let bytes = match side {
            COPIES => self.copied_bytes(access),
            _ => self.slab[access].bytes,
        };
        match side {
            COPIES => {
                let served = self.net.memories[memory as usize].serve_copy(bytes, self.now);
                self.copied(access, served);
            }
            OWN => self.serve_own(memory, access),
            _ => self.serve(memory, access),
        }
        let state = &mut self.net.memories[memory as usize];
        state.turns[side] += u64::from(bytes);
        if state.waiting.iter().any(|side| !side.is_empty()) {
            let time = state.free_at;
            self.push_idle(time, memory);
        }
    }

    fn serve(&mut self, memory: u32, index: u32) {
        let train = self.slab[index];
        match self.net.routes[train.leg as usize].op {
            Op::Write => self.write(memory, index, &train),
            Op::Read => self.answer(memory, index, &train),
        }
    }

    /// What is posted is read here, and what is fetched is written, before its first packet leaves: in time for the port
    /// that sends it.
    fn serve_own(&mut self, memory: u32, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        let state = &mut self.net.memories[memory as usize];
        let side = match self.net.routes[train.leg as usize].op {
            Op::Write => READS,
            Op::Read => WRITES,
        };
        let (start, time) = state.serve(side, train.bytes, self.now);
        match side {
            READS => state.read += u64::from(train.bytes),
            _ => state.written += u64::from(train.bytes),
        }
        let first = time / u64::from(hop.packets(train.bytes));
        let rest = time.saturating_sub(hop.behind_first(train.bytes));
        self.push_loaded(start + first.max(rest), index);
    }

    fn write(&mut self, memory: u32, index: u32, train: &Train) {
        let hop = self.net.hops[train.hop as usize];
        let packets = hop.packets(train.bytes);
        let state = &mut self.net.memories[memory as usize];
        let (start, time) = state.serve(WRITES, train.bytes, self.now);
        state.written += u64::from(train.bytes);
        let first = time / u64::from(packets);
        let done = (start + time).max(train.tail + first) + state.write_latency;
        self.push_credit(start + first, train.held, packets, hop.units(train.bytes));
        self.push_served(done, index);
    }

    /// Turns read requests into completions, cut into trains, each when the memory has its data and in
    /// time for the port that sends it.
    fn answer(&mut self, memory: u32, index: u32, train: &Train) {
        let hop = self.net.hops[train.hop as usize];
        let (headers, units) = (hop.packets(train.bytes), hop.units(train.bytes));
        let state = &mut self.net.memories[memory as usize];
        let (start, time) = state.serve(READS, train.bytes, self.now);
        state.read += u64::from(train.bytes);
        let latency = state.read_latency;
        self.push_credit(start, train.held, headers, units);
        let back = self.net.hops[train.hop as usize + 1];
        debug_assert_eq!(back.class, COMPLETION);
        let piece = self.legs[train.leg as usize].piece;
        // All tags come back once the first request is answered, as they were taken with it.
        let first_request = train.bytes.min(1 << self.net.routes[train.leg as usize].request_shift);
        let mut done = 0;
        while done < train.bytes {
            let bytes = piece.min(train.bytes - done);
            done += bytes;
            let packets = back.packets(bytes);
            let read = time * u64::from(done) / u64::from(train.bytes);
            let first = time * u64::from(done - bytes + bytes / packets) / u64::from(train.bytes);
            let at = start + first.max(read.saturating_sub(back.behind_first(bytes))) + latency;
            let answers_first = done - bytes < first_request && first_request <= done;
            let tags = if answers_first { train.tags } else { 0 };
            let completion = Train { hop: train.hop + 1, bytes, held: NONE, tags, ..*train };
            let answer = self.slab.insert(completion);
            self.push_served(at, answer);
        }
        self.slab.remove(index);
    }

    /// A write is in memory, or a completion can be sent.
    pub(super) fn served(&mut self, index: u32) {
        let train = self.slab[index];
        let route = &self.net.routes[train.leg as usize];
        match route.op {
            Op::Write => {
                self.slab.remove(index);
                self.moved(train.leg, train.slot, train.bytes);
            }
            Op::Read => self.enqueue(route.answers, index),
        }
    }
}
