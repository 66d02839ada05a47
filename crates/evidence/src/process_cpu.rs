//! CPU time of this process.

use std::fs;

use peerlane_results::CpuTime;
use peerlane_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this process up to now.
///
/// The sum is the process clock's, to the nanosecond. Its division is that of `/proc/self/stat`,
/// which the kernel itself only samples (`kernel/sched/cputime.c`, `cputime_adjust`).
#[derive(Debug, Clone, Copy)]
pub struct CpuMark {
    total: Nanos,
    user_ticks: u64,
    system_ticks: u64,
}

impl CpuMark {
    /// Reads it.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (user_ticks, system_ticks) = ticks(&stat).unwrap_or_default();
        Self { total: Nanos::seconds(seconds).after(Nanos(nanos)), user_ticks, system_ticks }
    }

    /// The time between `earlier` and this.
    pub fn since(self, earlier: Self) -> CpuTime {
        let total = self.total.since(earlier.total);
        let user = self.user_ticks.saturating_sub(earlier.user_ticks);
        let system = self.system_ticks.saturating_sub(earlier.system_ticks);
        // Shorter than a tick: a mover's time is the kernel's.
        let share = u128::from(total.0) * u128::from(user) / u128::from((user + system).max(1));
        let user_ns = Nanos(u64::try_from(share).unwrap_or(total.0));
        CpuTime { user_ns, system_ns: total.since(user_ns) }
    }
}

/// Ticks in user mode and in the kernel: fields 14 and 15, behind a name that may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_behind_any_name() {
        let stat = "42 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 110 22 0 0 20 0";
        assert_eq!(ticks(stat), Some((110, 22)));
        assert_eq!(ticks("42"), None);
    }

    #[test]
    fn work_takes_cpu_time() {
        let before = CpuMark::now();
        let mut sum = 0u64;
        while CpuMark::now().total.since(before.total) < Nanos(2_000_000) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = CpuMark::now().since(before);
        assert!(spent.user_ns.0 + spent.system_ns.0 >= 2_000_000);
    }
}
