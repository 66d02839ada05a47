//! Bounds of a load on this machine: threads, and pinned host memory.

use std::str::FromStr as _;
use std::sync::OnceLock;
use std::thread;

use peerlane_units::Bytes;

use super::LoadError;

/// Environment variable that bounds pinned host memory.
pub const PINNED_VARIABLE: &str = "PEERLANE_PINNED";
/// The bound if nothing else is said.
const DEFAULT_PINNED: Bytes = Bytes::mib(128);
/// Threads at most: with 12 to 16, each with two slots of 4 MiB, the page cache of an H100's machine came to within
/// 6 % of the rate of the copy engine alone (November 2026).
const MAX_WORKERS: usize = 16;
/// Threads at least: those that wait for a drive need no processor.
const MIN_WORKERS: usize = 4;
/// The copy engine reads the page cache itself on machines of up to this many processors:
/// registering gave 9.6 to 12.8 GB/s on that machine whatever the number of threads, and a thread
/// that copies 6 GB/s.
const FEW_PROCESSORS: usize = 2;

/// Bounds of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSettings {
    /// Threads that read and send at a time.
    pub workers: usize,
    /// Registers cached files with the GPU instead of copying them.
    pub registers: bool,
    /// Stops half of the workers when the load average exceeds the machine's processors.
    pub yields: bool,
    /// Limit of pinned host memory for all loads of the process.
    pub pinned: Bytes,
}

impl LoadSettings {
    /// Bounds for the processors of this process, by CPU affinity and cgroup quota.
    ///
    /// # Errors
    /// [`LoadError::Setting`] if [`PINNED_VARIABLE`] is needed and is not a size.
    pub fn here(pinned: Option<Bytes>) -> Result<Self, LoadError> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let pinned = match pinned {
            Some(pinned) => pinned,
            None => variable()?.unwrap_or(DEFAULT_PINNED),
        };
        let (workers, registers) =
            (processors.clamp(MIN_WORKERS, MAX_WORKERS), processors <= FEW_PROCESSORS);
        Ok(Self { workers, registers, yields: true, pinned })
    }

    /// Workers allowed at the current load average.
    pub(super) fn allowed(&self) -> usize {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        let is_busy = self.yields && is_busy(load.as_deref(), processors());
        if is_busy { self.workers.div_ceil(2) } else { self.workers }
    }
}

fn variable() -> Result<Option<Bytes>, LoadError> {
    let Some(text) = std::env::var_os(PINNED_VARIABLE) else { return Ok(None) };
    let text = text.to_string_lossy();
    let size = Bytes::from_str(&text).ok().filter(|size| *size > Bytes::ZERO);
    size.map(Some).ok_or_else(|| LoadError::Setting { text: text.into_owned() })
}

/// The machine's processors, also in a container, whose load average is that of the machine.
fn processors() -> usize {
    /// Counted once: `/proc/stat` takes the kernel a millisecond if there are hundreds.
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let count = || std::fs::read_to_string("/proc/stat").map_or(0, |stat| count_processors(&stat));
    *PROCESSORS.get_or_init(count)
}

fn count_processors(stat: &str) -> usize {
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    stat.lines().filter(is_processor).count()
}

/// Whether the load average exceeds the number of processors; 0 if that is unknown.
fn is_busy(loadavg: Option<&str>, processors: usize) -> bool {
    let load = loadavg.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    load.is_some_and(|load| processors > 0 && load > processors as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_by_processors_of_the_machine() {
        let stat = "cpu  9 9\ncpu0 4 4\ncpu1 5 5\nintr 7\n";
        let processors = count_processors(stat);
        assert_eq!(processors, 2);
        assert!(is_busy(Some("2.50 1.1 0.2 1/321 77"), processors));
        for load in [Some("2.00 9.0 9.0"), Some("x"), None] {
            assert!(!is_busy(load, processors), "{load:?}");
        }
        assert!(!is_busy(Some("9.0"), count_processors("")));
    }

    #[test]
    fn own_bound_comes_first() {
        let settings = LoadSettings::here(Some(Bytes::mib(1))).unwrap();
        assert_eq!(settings.pinned, Bytes::mib(1));
        assert!((MIN_WORKERS..=MAX_WORKERS).contains(&settings.workers));
    }
}
