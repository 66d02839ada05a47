//! Check of the clock that rates are computed with against another.

use peerlane_engine::Clock;
use peerlane_results::CaseRecord;
use peerlane_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

use super::Nonsense;

/// By how much two clocks may disagree, in millionths. A clock whose synchronisation has settled is
/// slewed by at most 500 against the hardware's (`MAXFREQ` in `include/linux/timex.h`); one that is being
/// set right (chrony slews by up to 83,333) makes every rate as wrong.
const PPM: u128 = 1_000;
/// A machine that is not suspended shows less between two clocks that are read one after the other.
const SHORTEST_SLEEP: Nanos = Nanos(10_000_000);
/// A process that is held up between two readings tries again, so often at most.
const TRIES: u32 = 5;
/// Two readings that are this close together are close enough.
const CLOSE: Nanos = Nanos(1_000);

/// The clock of the hardware, which nothing slews (`CLOCK_MONOTONIC_RAW`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RawClock;

impl Clock for RawClock {
    fn now(&self) -> Nanos {
        read(ClockId::MonotonicRaw)
    }
}

/// Readings of three clocks between the start and the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// The clock that rates are computed with.
    pub claimed: Nanos,
    /// A clock read next to it.
    pub beside: Nanos,
    /// Largest possible time between the readings of the two.
    pub doubt: Nanos,
    /// Time that the machine was suspended.
    pub asleep: Nanos,
}

/// The clock of a run and another, read at its begin.
#[derive(Debug, Clone, Copy)]
pub struct TwoClocks {
    at: ClockPair,
    asleep: Asleep,
}

impl TwoClocks {
    /// Reads both before the first request.
    pub fn begin(clock: &dyn Clock, beside: &dyn Clock) -> Self {
        Self { asleep: Asleep::read(read), at: ClockPair::read(clock, beside) }
    }

    /// Reads both after the last completion.
    pub fn end(self, clock: &dyn Clock, beside: &dyn Clock) -> ClockReading {
        let now = ClockPair::read(clock, beside);
        ClockReading {
            claimed: now.clock.since(self.at.clock),
            beside: now.beside.since(self.at.beside),
            doubt: now.doubt.after(self.at.doubt),
            asleep: Asleep::read(read).since(self.asleep),
        }
    }
}

/// Two clocks at about the same time.
#[derive(Debug, Clone, Copy)]
struct ClockPair {
    clock: Nanos,
    beside: Nanos,
    doubt: Nanos,
}

impl ClockPair {
    /// Reads one between two readings of the other: they are not further apart than these.
    fn read(clock: &dyn Clock, beside: &dyn Clock) -> Self {
        let once = || {
            let before = beside.now();
            let clock = clock.now();
            Self { clock, beside: before, doubt: beside.now().since(before) }
        };
        let mut best = once();
        for _ in 1..TRIES {
            if best.doubt <= CLOSE {
                break;
            }
            let again = once();
            if again.doubt < best.doubt {
                best = again;
            }
        }
        best
    }
}

/// Time that the machine was suspended since its start, which `CLOCK_BOOTTIME` counts and
/// `CLOCK_MONOTONIC` does not: a range, since a process may be held up between two readings.
#[derive(Debug, Clone, Copy)]
struct Asleep {
    least: Nanos,
    most: Nanos,
}

impl Asleep {
    fn read(clock: impl Fn(ClockId) -> Nanos) -> Self {
        let before = clock(ClockId::Monotonic);
        let boot = clock(ClockId::Boottime);
        Self { least: boot.since(clock(ClockId::Monotonic)), most: boot.since(before) }
    }

    /// Returns the least time that the machine was suspended in between.
    fn since(self, earlier: Self) -> Nanos {
        self.least.since(earlier.most)
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Nanos(
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)),
    )
}

pub(super) fn check(case: &CaseRecord, reading: Option<&ClockReading>) -> Result<(), Nonsense> {
    let name = || case.asked.name.clone();
    if case.elapsed_ns == Nanos(0) && case.bytes.0 > 0 {
        return Err(Nonsense::NoTime { case: name(), bytes: case.bytes });
    }
    let Some(&ClockReading { claimed, beside, doubt, asleep }) = reading else { return Ok(()) };
    if asleep >= SHORTEST_SLEEP {
        return Err(Nonsense::Suspended { case: name(), asleep });
    }
    let allowed = u128::from(claimed.0.max(beside.0)) * PPM / 1_000_000 + u128::from(doubt.0);
    if u128::from(claimed.0.abs_diff(beside.0)) > allowed {
        return Err(Nonsense::ClockWrong { case: name(), claimed, other: beside });
    }
    let flows = case.flows.iter().map(|flow| flow.elapsed_ns);
    let longest = flows.chain([case.elapsed_ns]).max().unwrap_or_default();
    if longest > claimed {
        return Err(Nonsense::TimeOutside { case: name(), elapsed: longest, window: claimed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use peerlane_engine::MonotonicClock;
    use peerlane_results::Path;
    use peerlane_units::Bytes;

    use super::*;
    use crate::testing::run;

    fn judged(reading: ClockReading, elapsed: u64) -> Result<(), Nonsense> {
        check(&run("1M p2p", Path::P2p, Bytes(4096), Nanos(elapsed)), Some(&reading))
    }

    const SECOND: u64 = 1_000_000_000;
    const GOOD: ClockReading = ClockReading {
        claimed: Nanos(SECOND),
        beside: Nanos(SECOND),
        doubt: Nanos(100),
        asleep: Nanos(0),
    };

    #[test]
    fn delayed_readings_are_not_suspension() {
        let (time, slept) = (Cell::new(0), Cell::new(5 * SECOND));
        // Every reading comes a second after the one before.
        let held_up = |clock| {
            time.set(time.get() + SECOND);
            Nanos(if clock == ClockId::Boottime { time.get() + slept.get() } else { time.get() })
        };
        let begin = Asleep::read(held_up);
        assert_eq!(Asleep::read(held_up).since(begin), Nanos(0));
        slept.set(15 * SECOND);
        assert_eq!(Asleep::read(held_up).since(begin), Nanos::seconds(8), "10, less the doubt");
    }

    #[test]
    fn clocks_may_disagree_as_much_as_synchronisation_slews_them() {
        assert_eq!(judged(GOOD, SECOND), Ok(()));
        let slewed = ClockReading { beside: Nanos(SECOND + SECOND / 2000), ..GOOD };
        assert_eq!(judged(slewed, SECOND), Ok(()), "500 millionths");
        for wrong in [SECOND + SECOND / 500, SECOND - SECOND / 500, 0, u64::MAX] {
            let wrong = ClockReading { beside: Nanos(wrong), ..GOOD };
            assert!(matches!(judged(wrong, SECOND), Err(Nonsense::ClockWrong { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_run_takes_time_and_no_more_than_passed() {
        assert!(matches!(judged(GOOD, 0), Err(Nonsense::NoTime { .. })));
        assert!(matches!(judged(GOOD, SECOND + 1), Err(Nonsense::TimeOutside { .. })));
        let asleep = ClockReading { asleep: Nanos::seconds(3), ..GOOD };
        assert!(matches!(judged(asleep, SECOND), Err(Nonsense::Suspended { .. })));
    }

    #[test]
    fn the_clocks_of_this_machine_agree() {
        let clock = MonotonicClock::start();
        let clocks = TwoClocks::begin(&clock, &RawClock);
        while clock.now() < Nanos(2_000_000) {
            std::hint::spin_loop();
        }
        let reading = clocks.end(&clock, &RawClock);
        assert_eq!(judged(reading, 1_000), Ok(()), "{reading:?}");
    }

    /// A clock that a process is held up at every second reading.
    struct HaltingClock(Cell<u64>);

    impl Clock for HaltingClock {
        fn now(&self) -> Nanos {
            let count = self.0.get() + 1;
            self.0.set(count);
            Nanos(count / 2 * 1_000_000)
        }
    }

    #[test]
    fn delayed_readings_raise_doubt_not_error() {
        let halting = HaltingClock(Cell::new(0));
        let steady = HaltingClock(Cell::new(0));
        let reading = TwoClocks::begin(&steady, &halting).end(&steady, &halting);
        assert!(reading.doubt >= Nanos(1_000_000), "{reading:?}");
        assert_eq!(judged(reading, 1), Ok(()), "{reading:?}");
    }
}
