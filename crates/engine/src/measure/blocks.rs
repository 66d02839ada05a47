//! The blocks of a flow: their order, their end, and the time of each.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;

use hdrhistogram::Histogram;
use peerlane_results::Order;
use peerlane_units::{Bytes, Nanos};

use super::looks::Looks;
use crate::io::clock::Clock;
use crate::io::random::Random;
use crate::transfer::relay::{Pace, RelayWork, Targets, WorkPiece, count, latencies};

/// The blocks of a range and their order. Offsets are in bytes from the start of the range.
pub(super) struct Blocks<'a> {
    pub(super) clock: &'a dyn Clock,
    /// Bytes of the range.
    pub(super) length: u64,
    pub(super) block: u64,
    /// Most bytes of one request; a block of more is several, in flight together.
    pub(super) request: u64,
    pub(super) order: Order,
    pub(super) random: Random,
    /// Until when blocks begin; `None` for one pass over the range, or as many random blocks.
    pub(super) until: Option<Nanos>,
    pub(super) pace: Option<Pace>,
    account: BlockAccount,
    state: BlockState,
}

/// Keeper of the latencies of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockAccount {
    /// The requests: a block is one request, and the stream keeps its latency.
    OfRequests,
    /// The blocks, by their number.
    OfBlocks,
}

struct BlockState {
    /// Bytes of blocks that were begun.
    begun: u64,
    /// Remainder of the block that was begun last.
    rest: Range<u64>,
    /// Blocks of the parts that were handed out and have not begun.
    waiting: VecDeque<u64>,
    open: HashMap<u64, OpenBlock>,
    latency: Histogram<u64>,
    first_done: Option<Nanos>,
    /// Bytes of requests that were done.
    done: u64,
    looks: Looks,
}

/// Results of a flow's blocks.
pub(super) struct EndedBlocks {
    /// Latencies of whole blocks.
    pub(super) latency: Histogram<u64>,
    pub(super) first_done: Option<Nanos>,
    pub(super) pace: Vec<(Nanos, Bytes)>,
}

/// A block under way.
struct OpenBlock {
    since: Option<Nanos>,
    left: u64,
}

/// Parameters for cutting a flow's range into blocks.
pub(super) struct BlockLayout {
    pub(super) length: u64,
    pub(super) block: u64,
    pub(super) request: u64,
    pub(super) order: Order,
    pub(super) seed: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(
        clock: &'a dyn Clock,
        cut: &BlockLayout,
        account: BlockAccount,
        until: Option<Nanos>,
        pace: Option<Pace>,
    ) -> Self {
        let state = BlockState {
            begun: 0,
            rest: 0..0,
            waiting: VecDeque::new(),
            open: HashMap::new(),
            latency: latencies(),
            first_done: None,
            done: 0,
            looks: Looks::default(),
        };
        let BlockLayout { length, block, request, order, seed } = *cut;
        let random = Random::new(seed);
        Self { clock, length, block, request, order, random, until, pace, account, state }
    }

    /// The next request's range, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Range<u64>> {
        if self.state.rest.is_empty() {
            self.state.rest = self.next_block()?;
            let key = self.state.rest.start / self.block;
            let parts = (self.state.rest.end - self.state.rest.start).div_ceil(self.request);
            if self.account == BlockAccount::OfBlocks {
                // A range shorter than what is in flight meets a block again before it is done.
                self.state.open.entry(key).or_insert(OpenBlock { since: None, left: 0 }).left +=
                    parts;
            }
        }
        let start = self.state.rest.start;
        let end = self.state.rest.end.min(start + self.request);
        self.state.rest.start = end;
        if self.account == BlockAccount::OfBlocks {
            self.state.waiting.push_back(start / self.block);
        }
        Some(start..end)
    }

    fn next_block(&mut self) -> Option<Range<u64>> {
        let is_over = match self.until {
            // One in any case: a machine that was busy elsewhere all the time would have measured nothing.
            Some(until) => self.state.begun > 0 && self.clock.now() >= until,
            None => self.state.begun >= self.length,
        };
        if is_over {
            return None;
        }
        let start = match self.order {
            Order::Sequential => self.state.begun % self.length,
            Order::Random => self.random.below((self.length / self.block).max(1)) * self.block,
        };
        let end = (start + self.block).min(self.length);
        self.state.begun += end - start;
        Some(start..end)
    }

    /// Is told that a request that is a whole block was done.
    pub(super) fn done(&mut self, range: Range<u64>, now: Nanos) {
        match self.account {
            BlockAccount::OfBlocks => self.wrote(0, range),
            BlockAccount::OfRequests => {
                self.state.first_done.get_or_insert(now);
                self.state.done += range.end - range.start;
                self.state.looks.note(now, self.state.done);
            }
        }
    }

    /// Returns the results, now that all blocks are done.
    pub(super) fn end(self) -> EndedBlocks {
        let BlockState { latency, first_done, looks, .. } = self.state;
        EndedBlocks { latency, first_done, pace: looks.all() }
    }
}

impl RelayWork for Blocks<'_> {
    fn next_piece(&mut self) -> Option<io::Result<WorkPiece>> {
        self.next().map(|range| Ok(WorkPiece::data(range, Targets::only(0))))
    }

    fn pause(&self, now: Nanos) -> Nanos {
        self.pace.as_ref().map_or(Nanos(0), |pace| pace.wait(now))
    }

    fn begins(&mut self, bytes: u64, now: Nanos) {
        if let Some(pace) = &mut self.pace {
            pace.begin(bytes, now);
        }
        let key = self.state.waiting.pop_front();
        if let Some(open) = key.and_then(|key| self.state.open.get_mut(&key)) {
            open.since.get_or_insert(now);
        }
    }

    fn wrote(&mut self, _target: usize, range: Range<u64>) {
        self.state.done += range.end - range.start;
        let key = range.start / self.block;
        let Some(open) = self.state.open.get_mut(&key) else { return };
        open.left = open.left.saturating_sub(1);
        if open.left > 0 {
            return;
        }
        let now = self.clock.now();
        let since = open.since.unwrap_or(now);
        self.state.open.remove(&key);
        count(&mut self.state.latency, now.since(since));
        self.state.first_done.get_or_insert(now);
        self.state.looks.note(now, self.state.done);
    }
}
