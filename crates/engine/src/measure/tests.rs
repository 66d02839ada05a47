//! Blocks in their order, until their end, with the time that each took.

use std::cell::Cell;

use peerlane_results::Order;
use peerlane_units::{Bytes, Nanos};

use super::blocks::{BlockAccount, BlockLayout, Blocks, EndedBlocks};
use crate::io::clock::Clock;
use crate::transfer::relay::RelayWork;

/// A clock that a test sets.
#[derive(Default)]
struct TestClock(Cell<u64>);

impl Clock for TestClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

fn cut(length: u64, block: u64, request: u64, order: Order) -> BlockLayout {
    BlockLayout { length, block, request, order, seed: 3 }
}

fn all(blocks: &mut Blocks<'_>) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| blocks.next()).map(|range| (range.start, range.end)).collect()
}

#[test]
fn pass_has_each_byte_once() {
    let clock = TestClock::default();
    let cut = cut(40, 16, 6, Order::Sequential);
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfBlocks, None, None);
    let expected = [(0, 6), (6, 12), (12, 16), (16, 22), (22, 28), (28, 32), (32, 38), (38, 40)];
    assert_eq!(all(&mut blocks), expected);
}

#[test]
fn random_blocks_are_whole_and_complete() {
    let clock = TestClock::default();
    let cut = cut(64, 8, 8, Order::Random);
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfRequests, None, None);
    let found = all(&mut blocks);
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|&(start, end)| start % 8 == 0 && end - start == 8 && end <= 64));
    let again = Blocks::new(&clock, &cut, BlockAccount::OfRequests, None, None);
    assert_eq!(all(&mut { again }), found, "the seed decides");
}

#[test]
fn timed_run_repeats_range_until_over() {
    let clock = TestClock::default();
    let cut = cut(16, 8, 8, Order::Sequential);
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfRequests, Some(Nanos(5)), None);
    let mut found = Vec::new();
    for time in 0..9 {
        clock.0.set(time);
        found.extend(blocks.next().map(|range| range.start));
    }
    assert_eq!(found, [0, 8, 0, 8, 0]);
}

#[test]
fn expired_time_still_has_one_block() {
    let clock = TestClock::default();
    clock.0.set(9);
    let cut = cut(16, 8, 8, Order::Sequential);
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfRequests, Some(Nanos(5)), None);
    assert_eq!(all(&mut blocks), [(0, 8)]);
}

#[test]
fn block_latency_spans_its_requests() {
    let clock = TestClock::default();
    let cut = cut(32, 16, 8, Order::Sequential);
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfBlocks, None, None);
    let parts: Vec<_> = std::iter::from_fn(|| blocks.next()).collect();
    for (part, time) in parts.iter().zip([10, 20, 30, 40]) {
        blocks.begins(part.end - part.start, Nanos(time));
    }
    for (part, time) in [(1, 50), (0, 110), (2, 120), (3, 130)] {
        clock.0.set(time);
        blocks.wrote(0, parts[part].clone());
    }
    let EndedBlocks { latency, first_done, pace } = blocks.end();
    assert_eq!(pace, [(Nanos(110), Bytes(16)), (Nanos(130), Bytes(32))]);
    assert_eq!((latency.len(), latency.min(), latency.max()), (2, 100, 100));
    assert_eq!(first_done, Some(Nanos(110)));
}
