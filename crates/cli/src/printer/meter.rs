//! Rate and remaining time of a phase; knows no clock and writes nothing.

use peerlane_engine::Phase;
use peerlane_results::Route;
use peerlane_units::{ByteRate, Bytes, Nanos};
use serde::Serialize;

/// Time over which the rate of the moment is taken.
const WINDOW: Nanos = Nanos::seconds(1);

/// Progress and rate of a phase.
#[derive(Debug)]
pub(super) struct Meter {
    phase: Phase,
    /// Time and bytes at the first report of the phase, after the bytes of an earlier run.
    start: Option<(Nanos, Bytes)>,
    /// Time and progress of the latest report.
    now: Nanos,
    done: Bytes,
    total: Bytes,
    /// Start of the window, and the rate of the one before.
    window: (Nanos, Bytes),
    rate: Option<ByteRate>,
}

/// One line of `--json-progress`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ProgressLine {
    done: Bytes,
    total: Bytes,
    rate: ByteRate,
    mean_rate: ByteRate,
    remaining_s: Option<u64>,
    route: Option<Route>,
    phase: &'static str,
}

impl Meter {
    pub(super) fn new(phase: Phase) -> Self {
        Self {
            phase,
            start: None,
            now: Nanos(0),
            done: Bytes::ZERO,
            total: Bytes::ZERO,
            window: (Nanos(0), Bytes::ZERO),
            rate: None,
        }
    }

    pub(super) fn set(&mut self, done: Bytes, total: Bytes, now: Nanos) {
        (self.done, self.total, self.now) = (done, total, now);
        if self.start.is_none() {
            self.start = Some((now, done));
            self.window = (now, done);
        }
        let (since, before) = self.window;
        if now.since(since) >= WINDOW {
            self.rate = ByteRate::mean(Bytes(done.0.saturating_sub(before.0)), now.since(since));
            self.window = (now, done);
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn done(&self) -> Bytes {
        self.done
    }

    pub(super) fn total(&self) -> Bytes {
        self.total
    }

    /// The rate of the last whole window; before there is one, the mean.
    pub(super) fn rate(&self) -> ByteRate {
        self.rate.unwrap_or_else(|| self.mean())
    }

    /// Mean rate of this run.
    pub(super) fn mean(&self) -> ByteRate {
        let (since, before) = self.start.unwrap_or_default();
        let bytes = Bytes(self.done.0.saturating_sub(before.0));
        ByteRate::mean(bytes, self.now.since(since)).unwrap_or_default()
    }

    /// Seconds that are left at the mean rate; `None` while there is none.
    pub(super) fn seconds_left(&self) -> Option<u64> {
        let left = self.total.0.saturating_sub(self.done.0);
        match self.mean().0 {
            _ if self.start.is_some() && left == 0 => Some(0),
            0 => None,
            mean => Some(left.div_ceil(mean)),
        }
    }

    pub(super) fn line(&self, route: Option<Route>) -> ProgressLine {
        ProgressLine {
            done: self.done,
            total: self.total,
            rate: self.rate(),
            mean_rate: self.mean(),
            remaining_s: self.seconds_left(),
            route,
            phase: match self.phase {
                Phase::Check => "check",
                Phase::Move => "move",
                Phase::Verify => "verify",
            },
        }
    }

    /// Rates and time left in words.
    pub(super) fn speed(&self) -> String {
        let left = self.seconds_left().map(|seconds| format!(", {} left", in_words(seconds)));
        format!("{}, mean {}{}", self.rate(), self.mean(), left.unwrap_or_default())
    }
}

fn in_words(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: Bytes = Bytes(10_000_000);

    #[test]
    fn earlier_run_is_in_no_rate() {
        let mut meter = Meter::new(Phase::Move);
        meter.set(Bytes(8_000_000), TOTAL, Nanos::seconds(5));
        assert_eq!((meter.mean(), meter.seconds_left()), (ByteRate(0), None));
        meter.set(Bytes(8_500_000), TOTAL, Nanos::seconds(10));
        assert_eq!((meter.mean(), meter.rate()), (ByteRate(100_000), ByteRate(100_000)));
        assert_eq!(meter.seconds_left(), Some(15));
    }

    #[test]
    fn current_rate_covers_last_second() {
        let mut meter = Meter::new(Phase::Move);
        for (second, done) in [(0, 0), (1, 1_000_000), (2, 2_000_000), (3, 2_100_000)] {
            meter.set(Bytes(done), TOTAL, Nanos::seconds(second));
        }
        assert_eq!((meter.rate(), meter.mean()), (ByteRate(100_000), ByteRate(700_000)));
        assert_eq!(meter.speed(), "100 KB/s, mean 700 KB/s, 12 s left");
    }

    #[test]
    fn a_line_has_every_field() {
        let mut meter = Meter::new(Phase::Verify);
        let text = |meter: &Meter| serde_json::to_string(&meter.line(None)).unwrap();
        let nothing = r#"{"done":0,"total":0,"rate":0,"mean_rate":0,"remaining_s":null,"route":null,"phase":"verify"}"#;
        assert_eq!(text(&meter), nothing);
        meter.set(Bytes(0), TOTAL, Nanos(0));
        meter.set(TOTAL, TOTAL, Nanos::seconds(2));
        let all = r#"{"done":10000000,"total":10000000,"rate":5000000,"mean_rate":5000000,"remaining_s":0,"route":null,"phase":"verify"}"#;
        assert_eq!(text(&meter), all);
    }
}
