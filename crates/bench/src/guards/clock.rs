//! Whether the clock that rates are computed with runs as another does.

use peerlane_engine::Clock;
use peerlane_results::CaseRecord;
use peerlane_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

use super::Nonsense;

/// By how much two clocks may disagree, in millionths. Time synchronisation slews `CLOCK_MONOTONIC` by
/// at most 500 against the hardware's (`MAXFREQ` in `include/linux/timex.h`); twice that is wrong.
const PPM: u128 = 1_000;
/// What reading two clocks one after the other may take where the process is held up in between.
const SLACK: Nanos = Nanos(1_000_000);

/// The clock of the hardware, which nothing slews (`CLOCK_MONOTONIC_RAW`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RawClock;

impl Clock for RawClock {
    fn now(&self) -> Nanos {
        read(ClockId::MonotonicRaw)
    }
}

/// What three clocks showed between the begin and the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// The clock that rates are computed with.
    pub claimed: Nanos,
    /// A clock beside it.
    pub beside: Nanos,
    /// How long the machine was suspended.
    pub asleep: Nanos,
}

/// The clock of a run and another, read at its begin.
#[derive(Debug, Clone, Copy)]
pub struct TwoClocks {
    claimed: Nanos,
    beside: Nanos,
    asleep: Nanos,
}

impl TwoClocks {
    /// Reads both before the first request.
    pub fn begin(clock: &dyn Clock, beside: &dyn Clock) -> Self {
        Self { claimed: clock.now(), beside: beside.now(), asleep: asleep() }
    }

    /// Reads both after the last completion.
    pub fn end(self, clock: &dyn Clock, beside: &dyn Clock) -> ClockReading {
        ClockReading {
            claimed: clock.now().since(self.claimed),
            beside: beside.now().since(self.beside),
            asleep: asleep().since(self.asleep),
        }
    }
}

/// Time that the machine was suspended since it was started: what `CLOCK_BOOTTIME` counts and
/// `CLOCK_MONOTONIC` does not.
fn asleep() -> Nanos {
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).since(monotonic)
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
    let Some(&ClockReading { claimed, beside, asleep }) = reading else { return Ok(()) };
    if asleep > SLACK {
        return Err(Nonsense::Suspended { case: name(), asleep });
    }
    let allowed = u128::from(claimed.0.max(beside.0)) * PPM / 1_000_000 + u128::from(SLACK.0);
    if u128::from(claimed.0.abs_diff(beside.0)) > allowed {
        return Err(Nonsense::ClockWrong { case: name(), claimed, beside });
    }
    let flows = case.flows.iter().map(|flow| flow.elapsed_ns);
    let longest = flows.chain([case.elapsed_ns]).max().unwrap_or_default();
    if longest > claimed.after(SLACK) {
        return Err(Nonsense::TimeOutside { case: name(), elapsed: longest, window: claimed });
    }
    Ok(())
}
