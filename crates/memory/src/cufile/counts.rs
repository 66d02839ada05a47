//! What cuFile says of the ways that its requests took.

use std::fmt;

/// Words of `CUfileStatsLevel3_t`, with room for what later versions append.
pub(super) const WORDS: usize = 4096;
/// Where `num_gpus` lies, and the first `CUfilePerGpuStats_t`; words of each, and how many there are.
const GPUS: (usize, usize, usize, usize) = (128, 129, 31, 16);
/// Within each: reads by P2PDMA, nvidia-fs and POSIX, then the same of writes.
const BY_WAY: [usize; 6] = [7, 8, 9, 20, 21, 22];

/// Requests by the way that they took, counted since the session was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// By the kernel's P2PDMA.
    pub p2pdma: u64,
    /// By nvidia-fs.
    pub nvidia_fs: u64,
    /// Through host memory.
    pub posix: u64,
}

/// cuFile did what it was told not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cuFile moved {posix} of {all} requests through host memory, though its compatibility mode was off"
)]
pub struct FellBack {
    /// Requests through host memory.
    pub posix: u64,
    /// All requests.
    pub all: u64,
}

impl Counts {
    /// Sums the counters of all GPUs.
    pub(super) fn of(words: &[u64]) -> Self {
        let (place, first, size, most) = GPUS;
        // The low half of the word on every machine that CUDA runs on.
        let gpus = words.get(place).map_or(0, |word| word & u64::from(u32::MAX));
        let gpus = usize::try_from(gpus).unwrap_or(0).min(most);
        let sum = |field: usize| -> u64 {
            let of = |gpu| words.get(first + gpu * size + field).copied().unwrap_or(0);
            (0..gpus).map(of).fold(0, u64::saturating_add)
        };
        let [reads, nvfs_reads, posix_reads, writes, nvfs_writes, posix_writes] = BY_WAY.map(sum);
        Self {
            p2pdma: reads.saturating_add(writes),
            nvidia_fs: nvfs_reads.saturating_add(nvfs_writes),
            posix: posix_reads.saturating_add(posix_writes),
        }
    }

    /// What was counted after `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            p2pdma: self.p2pdma.saturating_sub(before.p2pdma),
            nvidia_fs: self.nvidia_fs.saturating_sub(before.nvidia_fs),
            posix: self.posix.saturating_sub(before.posix),
        }
    }

    /// Requests by any way.
    pub fn all(&self) -> u64 {
        self.p2pdma.saturating_add(self.nvidia_fs).saturating_add(self.posix)
    }

    /// Judges requests that were all to go directly.
    ///
    /// # Errors
    /// [`FellBack`] where one went through host memory.
    pub fn all_direct(self) -> Result<(), FellBack> {
        match self.posix {
            0 => Ok(()),
            posix => Err(FellBack { posix, all: self.all() }),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p2pdma, nvidia_fs, posix } = self;
        write!(
            f,
            "{p2pdma} requests by P2PDMA, {nvidia_fs} by nvidia-fs, {posix} through host memory"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{BY_WAY, Counts, FellBack, GPUS, WORDS};

    #[test]
    fn counters_of_all_gpus_are_summed_and_a_count_of_too_many_reads_no_further() {
        let (place, first, size, most) = GPUS;
        let mut words = vec![0; WORDS];
        words[place] = u64::MAX;
        for gpu in 0..=most {
            for field in BY_WAY {
                words[first + gpu * size + field] = 1;
            }
        }
        let each = 2 * most as u64;
        let expected = Counts { p2pdma: each, nvidia_fs: each, posix: each };
        assert_eq!(Counts::of(&words), expected);
        assert_eq!(Counts::of(&words[..place]), Counts::default(), "a shorter answer");
    }

    #[test]
    fn one_request_through_host_memory_is_a_fallback() {
        let counts = |posix| Counts { p2pdma: 4, nvidia_fs: 2, posix };
        assert_eq!(counts(0).all_direct(), Ok(()));
        assert_eq!(counts(1).all_direct(), Err(FellBack { posix: 1, all: 7 }));
    }
}
