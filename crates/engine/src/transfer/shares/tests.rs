//! Copies that share a link, step by step on a clock of its own.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1 << 10;

/// A copy of the simulation: its parts take time of its own drive, side by side, then of the link.
#[derive(Debug, Clone, Copy)]
struct SimulatedCopy {
    part: u64,
    slots: u64,
    /// Nanoseconds of its own drive for a part.
    own: u64,
    /// It begins then and wants nothing from then on.
    from: u64,
    until: u64,
}

impl SimulatedCopy {
    fn always(part: u64, slots: u64, own: u64) -> Self {
        Self { part, slots, own, from: 0, until: u64::MAX }
    }
}

/// Next event, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ShareEvent {
    Ask(usize),
    AtLink(usize),
    Over(usize),
}

/// Bytes that each job moved over a link of `rate` bytes a microsecond until `end`, in nanoseconds.
fn simulate(jobs: &[SimulatedCopy], rate: u64, limit: Option<ByteRate>, end: u64) -> Vec<u64> {
    let mut queue = ShareQueue::new(limit);
    let numbers: Vec<u64> = jobs
        .iter()
        .map(|job| {
            let resources = vec!["link".to_owned()];
            queue.join(Demand { resources, window: job.part * job.slots, part: job.part })
        })
        .collect();
    let mut moved = vec![0; jobs.len()];
    let mut busy = vec![0; jobs.len()];
    let mut asking = BTreeSet::new();
    let mut link_free = 0;
    let mut events = BinaryHeap::new();
    for (index, job) in jobs.iter().enumerate() {
        asking.insert(index);
        events.push(Reverse((job.from, ShareEvent::Ask(index))));
    }
    while let Some(Reverse((now, event))) = events.pop() {
        if now > end {
            break;
        }
        let (ShareEvent::Ask(index) | ShareEvent::AtLink(index) | ShareEvent::Over(index)) = event;
        let job = jobs[index];
        match event {
            ShareEvent::Ask(_) => {
                asking.remove(&index);
            }
            ShareEvent::AtLink(_) => {
                link_free = link_free.max(now) + job.part * 1000 / rate;
                events.push(Reverse((link_free, ShareEvent::Over(index))));
            }
            ShareEvent::Over(_) => {
                moved[index] += job.part;
                busy[index] -= 1;
                queue.end(numbers[index], job.part);
            }
        }
        while busy[index] < job.slots && now < job.until {
            if !queue.may_begin(numbers[index], Nanos(now)) {
                if asking.insert(index) {
                    events.push(Reverse((now + RETRY.0, ShareEvent::Ask(index))));
                }
                break;
            }
            queue.begin(numbers[index], job.part, Nanos(now));
            busy[index] += 1;
            events.push(Reverse((now + job.own, ShareEvent::AtLink(index))));
        }
    }
    moved
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn deep_copy_does_not_starve_shallow() {
    // 64 requests against 8 of the same size: without an arbiter the link serves eight times as many.
    let jobs =
        [SimulatedCopy::always(64 * KIB, 64, 1000), SimulatedCopy::always(64 * KIB, 40, 1000)];
    let moved = simulate(&jobs, 1000, None, SECOND);
    assert!(moved[0].abs_diff(moved[1]) < moved[0] / 50, "{moved:?}");
}

#[test]
fn a_copy_by_itself_is_not_held() {
    let one = simulate(&[SimulatedCopy::always(64 * KIB, 32, 1000)], 1000, None, SECOND)[0];
    assert!(one > 980_000_000, "{one}");
}

#[test]
fn slow_copy_leaves_link_to_fast() {
    // The slow drive takes 20 ms for a part, and has all of its requests in flight.
    let jobs = [
        SimulatedCopy::always(64 * KIB, 32, 1000),
        SimulatedCopy::always(64 * KIB, 32, 20_000_000),
    ];
    let moved = simulate(&jobs, 1000, None, SECOND);
    assert!(moved[0] + moved[1] > 950_000_000, "the link is used: {moved:?}");
    assert!(moved[0] > 900_000_000, "{moved:?}");
}

#[test]
fn common_rate_is_shared_in_turns() {
    let limit = Some(ByteRate(100_000_000));
    let jobs =
        [SimulatedCopy::always(256 * KIB, 16, 1000), SimulatedCopy::always(16 * KIB, 256, 1000)];
    let moved = simulate(&jobs, 10_000, limit, 2 * SECOND);
    let sum = moved[0] + moved[1];
    assert!((196_000_000..212_000_000).contains(&sum), "{sum}");
    assert!(moved[0].abs_diff(moved[1]) < 4 * 256 * KIB, "{moved:?}");
}

#[test]
fn unused_rate_goes_to_other_copy() {
    let limit = Some(ByteRate(100_000_000));
    let slow = SimulatedCopy::always(64 * KIB, 1, 10_000_000);
    let moved =
        simulate(&[SimulatedCopy::always(64 * KIB, 32, 1000), slow], 10_000, limit, 2 * SECOND);
    assert!(moved[0] + moved[1] > 194_000_000, "{moved:?}");
}

#[test]
fn unrelated_copies_do_not_interact() {
    let mut queue = ShareQueue::new(None);
    let demand = |name: &str| Demand { resources: vec![name.to_owned()], window: 4, part: 1 };
    let (one, other) = (queue.join(demand("a")), queue.join(demand("b")));
    for _ in 0..100 {
        assert!(queue.may_begin(one, Nanos(0)) && queue.may_begin(other, Nanos(0)));
        queue.begin(one, 1, Nanos(0));
    }
}

#[test]
fn a_share_that_is_dropped_gives_its_room_back() {
    let arbiter = Arbiter::new(None);
    let demand = || Demand { resources: vec!["link".to_owned()], window: 4, part: 1 };
    let (one, other) = (arbiter.join(demand()), arbiter.join(demand()));
    for _ in 0..2 {
        assert_eq!(one.wait(Nanos(0)), Nanos(0));
        one.begin(1, Nanos(0));
        assert_eq!(other.wait(Nanos(0)), Nanos(0));
        other.begin(1, Nanos(0));
    }
    assert_eq!(one.wait(Nanos(0)), RETRY);
    other.end(1);
    assert_eq!(one.wait(Nanos(0)), Nanos(0), "what nobody asks for goes to whoever asks");
    one.begin(1, Nanos(0));
    assert_eq!(one.wait(Nanos(0)), RETRY);
    drop(other);
    assert_eq!(one.wait(Nanos(0)), Nanos(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Copies of one kind that always want more are equal, and the link is full.
    #[test]
    fn equal_copies_get_equal_shares(
        count in 2usize..6, part in 1u64..32, slots in 8u64..64, own in 0u64..50_000,
    ) {
        let part = part * 4 * KIB;
        let slots = slots.max(count as u64 * 4);
        let end = SECOND / 4;
        let moved = simulate(&vec![SimulatedCopy::always(part, slots, own); count], 1000, None, end);
        let (least, most) = (moved.iter().min().unwrap(), moved.iter().max().unwrap());
        prop_assert!(most - least <= most / 20 + slots * part, "{moved:?}");
        // What is over for one is asked for by another 200 us later, where its own part is used up.
        let idle = if slots * part < 1 << 20 { 2 } else { 8 };
        let sum = moved.iter().sum::<u64>();
        prop_assert!(sum > end - end / idle, "{sum} {moved:?}");
    }

    /// Whatever they are like, none starves: each gets a third of an equal share at least, as far as it
    /// keeps as much in flight as the others.
    #[test]
    fn no_copy_starves(
        jobs in proptest::collection::vec((4u64..64, 1u64..64, 0u64..5_000_000, 0u64..SECOND / 8), 2..5),
        limit in proptest::option::of(50_000_000u64..500_000_000),
    ) {
        let jobs: Vec<SimulatedCopy> = jobs
            .into_iter()
            .map(|(part, slots, own, from)| SimulatedCopy { from, ..SimulatedCopy::always(part * 4 * KIB, slots, own) })
            .collect();
        let rate = limit.unwrap_or(1_000_000_000);
        let together = simulate(&jobs, 1000, limit.map(ByteRate), SECOND);
        let sum: u64 = together.iter().sum();
        prop_assert!(limit.is_none_or(|limit| sum <= limit + limit / 5 + (2 << 20)), "{sum}");
        let window = |job: &SimulatedCopy| job.part * job.slots;
        let widest = jobs.iter().map(window).max().unwrap();
        for (index, job) in jobs.iter().enumerate() {
            let alone = simulate(&[*job], 1000, limit.map(ByteRate), SECOND)[0];
            let share = rate / 1000 * ((SECOND - job.from) / 1_000_000) / jobs.len() as u64;
            // A link that serves in turn gives a copy no more than what it keeps in flight of all.
            let kept = u128::from(share) * u128::from(window(job)) / u128::from(widest);
            let least = alone.min(u64::try_from(kept).unwrap()) / 3;
            let slack = 2 * job.part;
            prop_assert!(together[index] + slack >= least, "{index}: {together:?} of {alone}, {share}");
        }
    }

    /// The same calls at the same times have the same answers.
    #[test]
    fn equal_calls_have_equal_answers(seed in 1u64..1000) {
        let jobs = [
            SimulatedCopy::always(seed * 512, 16, seed * 7),
            SimulatedCopy { until: SECOND / 20, ..SimulatedCopy::always(8 * KIB, 4, 9000) },
        ];
        let run = || simulate(&jobs, 700, Some(ByteRate(90_000_000)), SECOND / 10);
        prop_assert_eq!(run(), run());
    }
}
