//! A token bucket: how soon the next part may begin under a rate.

use peerlane_units::{ByteRate, Nanos};

/// Largest burst after a pause: as much as the rate allows in this time.
const BURST: Nanos = Nanos(100_000_000);

/// Bounds the rate at which parts begin; told the time, so a simulated clock drives it too.
///
/// The bucket is kept as the time when its debt ends: a part larger than the burst begins on time
/// and is paid for afterwards, so the mean holds for any size.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    rate: ByteRate,
    /// From then on a part may begin; `None` before the first.
    free: Option<Nanos>,
}

impl Pace {
    /// A full bucket for a rate of at least one byte a second.
    pub(crate) fn new(rate: ByteRate) -> Self {
        Self { rate: ByteRate(rate.0.max(1)), free: None }
    }

    /// Time until a part may begin; zero when one may now.
    pub(crate) fn wait(&self, now: Nanos) -> Nanos {
        self.free.map_or(Nanos(0), |free| free.since(now))
    }

    /// Pays for a part that begins.
    pub(crate) fn begin(&mut self, bytes: u64, now: Nanos) {
        let full = Nanos(now.0.saturating_sub(BURST.0));
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.0);
        let from = self.free.map_or(full, |free| free.max(full));
        self.free = Some(from.after(Nanos(u64::try_from(cost).unwrap_or(u64::MAX))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_short_mean_is_rate() {
        let mut pace = Pace::new(ByteRate(1_000_000));
        let mut now = Nanos::seconds(9);
        let mut begun = 0;
        while pace.wait(now) == Nanos(0) {
            pace.begin(1000, now);
            begun += 1000;
        }
        assert_eq!(begun, 101_000, "the burst, and what is paid for afterwards");
        for _ in 0..5000 {
            now = now.after(pace.wait(now));
            pace.begin(1000, now);
        }
        assert_eq!(now.since(Nanos::seconds(9)), Nanos::seconds(5));
    }

    #[test]
    fn a_pause_saves_up_no_more_than_a_burst() {
        let mut pace = Pace::new(ByteRate(1_000_000));
        pace.begin(1, Nanos(0));
        let now = Nanos::seconds(3600);
        pace.begin(300_000, now);
        assert_eq!(pace.wait(now), Nanos(200_000_000));
    }

    #[test]
    fn century_long_part_does_not_overflow() {
        let mut pace = Pace::new(ByteRate(0));
        pace.begin(u64::MAX, Nanos(0));
        assert!(pace.wait(Nanos(0)) > Nanos::seconds(1_000_000_000));
    }
}
