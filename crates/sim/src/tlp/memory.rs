//! Memories: reads and writes served one after the other.
//!
//! Reads and writes that share a memory take turns of equal bytes: they come by buffers of their own (PCIe base
//! specification, "Flow control"), and controllers have a channel for each and an arbiter behind them (AMD, "Zynq-7000
//! and 7 series devices memory interface solutions", UG586, "Arbitration in AXI shim": round robin, in time slots, or
//! by priority).

use std::collections::VecDeque;

use super::engine::{IDLE, LOADED, PacketEngine, SERVED};
use super::port::{COMPLETION, NONE};
use super::train::Train;
use crate::model::{Op, TargetMemory, picos_per_kib};

/// Clients of a memory that take turns: trains that write, trains that read, threads that copy, and the device that
/// owns the memory.
const WRITES: usize = 0;
const READS: usize = 1;
pub(super) const COPIES: usize = 2;
pub(super) const OWN: usize = 3;
const CLIENTS: usize = 4;

/// A memory, or one direction of it where reads and writes do not share.
#[derive(Debug, Clone)]
pub(super) struct MemoryState {
    /// Picoseconds for 1024 bytes written, read.
    per_kib: [u64; 2],
    write_latency: u64,
    read_latency: u64,
    /// True where clients take turns; without, accesses are served in order of arrival.
    pub(super) takes_turns: bool,
    /// End of the accesses accepted so far.
    free_at: u64,
    /// Accesses that wait for their turn, in order of arrival.
    waiting: [VecDeque<u32>; CLIENTS],
    /// Bytes charged to each client, and those of the last one served.
    turns: [u64; CLIENTS],
    turn: u64,
}

impl MemoryState {
    pub(super) fn new(memory: &TargetMemory) -> Self {
        let per_kib = [memory.write, memory.read].map(|rate| rate.map_or(0, picos_per_kib));
        Self {
            per_kib,
            write_latency: memory.write_latency.0,
            read_latency: memory.read_latency.0,
            takes_turns: memory.is_shared && !per_kib.contains(&0),
            free_at: 0,
            waiting: Default::default(),
            turns: [0; CLIENTS],
            turn: 0,
        }
    }

    /// Accepts `bytes` of writes (0) or reads (1). Returns start and duration.
    fn serve(&mut self, side: usize, bytes: u32, now: u64) -> (u64, u64) {
        let time = (u64::from(bytes) * self.per_kib[side]) >> 10;
        let start = now.max(self.free_at);
        self.free_at = start + time;
        (start, time)
    }

    /// Accepts bytes that a copy reads and writes. Returns the end.
    fn serve_copy(&mut self, bytes: u32, now: u64) -> u64 {
        let per_kib = self.per_kib.iter().sum::<u64>();
        self.free_at = now.max(self.free_at) + ((u64::from(bytes) * per_kib) >> 11);
        self.free_at
    }

    /// Appends an access of a client, which has saved no turns while it had none.
    fn wait(&mut self, client: usize, access: u32) {
        if self.waiting[client].is_empty() {
            self.turns[client] = self.turns[client].max(self.turn);
        }
        self.waiting[client].push_back(access);
    }

    /// Removes the access whose turn is next, with its client; of equal turns that of the first client.
    fn next(&mut self) -> Option<(usize, u32)> {
        let waits = |client: &usize| !self.waiting[*client].is_empty();
        let client = (0..CLIENTS).filter(waits).min_by_key(|&client| self.turns[client])?;
        self.turn = self.turns[client];
        self.waiting[client].pop_front().map(|access| (client, access))
    }
}

impl PacketEngine {
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

    /// An access of a client waits for its turn: a train, or the flow of a copy.
    pub(super) fn queue_up(&mut self, memory: u32, client: usize, access: u32) {
        let state = &mut self.net.memories[memory as usize];
        state.wait(client, access);
        let is_alone = state.waiting.iter().map(VecDeque::len).sum::<usize>() == 1;
        if is_alone {
            // Later ones are served by the event of this one.
            let time = state.free_at.max(self.now);
            self.push(time, IDLE, memory);
        }
    }

    /// A memory whose clients take turns serves the next access.
    pub(super) fn serve_next(&mut self, memory: u32) {
        let Some((client, access)) = self.net.memories[memory as usize].next() else { return };
        let bytes = if client == COPIES {
            let bytes = self.copied_bytes(access);
            let served = self.net.memories[memory as usize].serve_copy(bytes, self.now);
            self.copied(access, served);
            bytes
        } else {
            let bytes = self.slab[access].bytes;
            match client {
                OWN => self.serve_own(memory, access),
                _ => self.serve(memory, access),
            }
            bytes
        };
        let state = &mut self.net.memories[memory as usize];
        state.turns[client] += u64::from(bytes);
        if state.waiting.iter().any(|client| !client.is_empty()) {
            let time = state.free_at;
            self.push(time, IDLE, memory);
        }
    }

    fn serve(&mut self, memory: u32, index: u32) {
        let train = self.slab[index];
        match self.net.routes[train.leg as usize].op {
            Op::Write => self.write(memory, index, &train),
            Op::Read => self.answer(memory, index, &train),
        }
    }

    /// Reads what is posted, or writes what is fetched, before its first packet leaves: in time for the port that
    /// sends it.
    fn serve_own(&mut self, memory: u32, index: u32) {
        let train = self.slab[index];
        let hop = self.net.hops[train.hop as usize];
        let state = &mut self.net.memories[memory as usize];
        let side = match self.net.routes[train.leg as usize].op {
            Op::Write => READS,
            Op::Read => WRITES,
        };
        let (start, time) = state.serve(side, train.bytes, self.now);
        let first = time / u64::from(hop.packets(train.bytes));
        let rest = time.saturating_sub(hop.behind_first(train.bytes));
        self.push(start + first.max(rest), LOADED, index);
    }

    fn write(&mut self, memory: u32, index: u32, train: &Train) {
        let hop = self.net.hops[train.hop as usize];
        let packets = hop.packets(train.bytes);
        let state = &mut self.net.memories[memory as usize];
        let (start, time) = state.serve(WRITES, train.bytes, self.now);
        let first = time / u64::from(packets);
        let done = (start + time).max(train.tail + first) + state.write_latency;
        self.push_credit(start + first, train.held, packets, hop.units(train.bytes));
        self.push(done, SERVED, index);
    }

    /// Turns read requests into trains of completions, each as the memory has its data and in time for the port that
    /// sends it.
    fn answer(&mut self, memory: u32, index: u32, train: &Train) {
        let hop = self.net.hops[train.hop as usize];
        let (headers, units) = (hop.packets(train.bytes), hop.units(train.bytes));
        let state = &mut self.net.memories[memory as usize];
        let (start, time) = state.serve(READS, train.bytes, self.now);
        let latency = state.read_latency;
        self.push_credit(start, train.held, headers, units);
        let back = self.net.hops[train.hop as usize + 1];
        debug_assert_eq!(back.class, COMPLETION);
        let piece = self.legs[train.leg as usize].completion_train;
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
            self.push(at, SERVED, answer);
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
