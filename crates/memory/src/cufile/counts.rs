//! Requests by the way that they took, as cuFile counts them.

use std::fmt;

use super::abi::{GPU_WORDS, GPUS_MAX, LAYOUTS, READS, StatsLayout, WRITES};

/// Words that a library is given room for: six times the largest known layout.
pub(super) const BUFFER_WORDS: usize = 4096;

/// Version of the library, as `cuFileGetVersion` returns it: 1000 for each major one, 10 for each minor one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub(super) i32);

impl Version {
    /// First version that reads holes of ext4 and XFS files through host memory, whatever mode it is in.
    pub const HOLES_BY_HOST: Self = Self(1190);
    /// Last version whose counters are known.
    pub(crate) const LAST_KNOWN: Self = Self(1200);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        write!(f, "{}.{}", number / 1000, number % 1000 / 10)
    }
}

/// Reason why the route of requests is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCounter {
    /// The library is older than its counters.
    #[error("this libcufile has no counters, which came with 1.15")]
    Absent,
    /// The library does not report its version, which decides the layout of the counters.
    #[error(
        "this libcufile does not tell its version, on which the layout of its counters depends"
    )]
    NoVersion,
    /// The layout of the counters is unknown.
    #[error("the layout of the counters of libcufile {0} is unknown (known: 1.15 to {last})", last = Version::LAST_KNOWN)]
    UnknownVersion(Version),
    /// A call failed.
    #[error("the counters of libcufile cannot be read: {call} failed ({code})")]
    Refused {
        /// The function.
        call: &'static str,
        /// `CUfileOpError`.
        code: i32,
    },
    /// The library counted less than was asked of it.
    #[error("the counters of libcufile show {counted} of {made} requests")]
    Incomplete {
        /// Requests counted.
        counted: u64,
        /// Requests that moved bytes.
        made: u64,
    },
}

impl NoCounter {
    /// Advice on how to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent => {
                "install GPUDirect Storage of CUDA 13.0 or later, whose libcufile counts; `--route host`, or \
                 `--routes host` of a benchmark, goes through host memory"
            }
            Self::NoVersion | Self::UnknownVersion(_) => {
                "use a newer peerlane, or a libcufile of a known version; `--route host`, or `--routes host` of a \
                 benchmark, goes through host memory"
            }
            Self::Refused { .. } | Self::Incomplete { .. } => {
                "`cufile.log` may say why; `--route host`, or `--routes host` of a benchmark, goes through host memory"
            }
        }
    }
}

/// Requests by way, or the reason why that is unknown.
pub type Counted = Result<Counts, NoCounter>;

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

/// cuFile fell back to host memory, though it was told not to.
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

/// Counters at one moment, and the requests that were under way or done by then.
#[derive(Debug, Clone, Copy)]
pub struct CounterMark {
    pub(super) counts: Counted,
    pub(super) requests: u64,
}

impl CounterMark {
    /// Checks that the library counts at all.
    ///
    /// # Errors
    /// [`NoCounter`] where it does not.
    pub fn check(&self) -> Result<(), NoCounter> {
        self.counts.map(|_| ())
    }
}

/// The layout of a version.
///
/// # Errors
/// [`NoCounter`] where it is unknown.
pub(super) fn layout_of(version: Option<Version>) -> Result<&'static StatsLayout, NoCounter> {
    let version = version.ok_or(NoCounter::NoVersion)?;
    let known = LAYOUTS.iter().find(|layout| layout.versions.contains(&version.0));
    known.ok_or(NoCounter::UnknownVersion(version))
}

impl Counts {
    /// Sums the counters of all GPUs.
    pub(super) fn read(words: &[u64], layout: &StatsLayout) -> Self {
        // The low half of the word on every machine that CUDA runs on.
        let gpus = words.get(layout.gpu_count).map_or(0, |word| word & u64::from(u32::MAX));
        let gpus = usize::try_from(gpus).unwrap_or(0).min(GPUS_MAX);
        let sum = |field: usize| -> u64 {
            let word = |gpu| words.get(layout.first_gpu + gpu * GPU_WORDS + field);
            (0..gpus).filter_map(word).fold(0, |sum, &more| sum.saturating_add(more))
        };
        let [p2pdma, nvidia_fs, posix] =
            [0, 1, 2].map(|way| sum(READS[way]).saturating_add(sum(WRITES[way])));
        Self { p2pdma, nvidia_fs, posix }
    }

    /// Requests counted after `before`; `made` of them moved bytes for sure.
    ///
    /// # Errors
    /// [`NoCounter::Incomplete`] where the library counted fewer, and none through host memory.
    pub(super) fn since(&self, before: &Self, made: u64) -> Counted {
        let new = Self {
            p2pdma: self.p2pdma.saturating_sub(before.p2pdma),
            nvidia_fs: self.nvidia_fs.saturating_sub(before.nvidia_fs),
            posix: self.posix.saturating_sub(before.posix),
        };
        match new.all() {
            counted if counted < made && new.posix == 0 => {
                Err(NoCounter::Incomplete { counted, made })
            }
            _ => Ok(new),
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
    use super::*;

    #[test]
    fn excess_gpus_are_not_read() {
        for layout in &LAYOUTS {
            let mut words = vec![0; BUFFER_WORDS];
            words[layout.gpu_count] = u64::MAX;
            for gpu in 0..=GPUS_MAX {
                for field in READS.into_iter().chain(WRITES) {
                    words[layout.first_gpu + gpu * GPU_WORDS + field] = 1;
                }
            }
            let each = 2 * GPUS_MAX as u64;
            let expected = Counts { p2pdma: each, nvidia_fs: each, posix: each };
            assert_eq!(Counts::read(&words, layout), expected);
            let short = &words[..layout.gpu_count];
            assert_eq!(Counts::read(short, layout), Counts::default(), "a shorter answer");
        }
    }

    #[test]
    fn layouts_cover_all_known_versions_once() {
        let [old, new] = &LAYOUTS;
        assert_eq!(new.versions.start() - 1, *old.versions.end());
        assert_eq!(*new.versions.end(), Version::LAST_KNOWN.0);
        for layout in &LAYOUTS {
            assert_eq!(layout.words, layout.first_gpu + GPUS_MAX * GPU_WORDS);
            assert!(layout.words < BUFFER_WORDS);
        }
    }

    #[test]
    fn unknown_versions_have_no_layout() {
        assert_eq!(layout_of(None), Err(NoCounter::NoVersion));
        for number in [0, -1, 1140, 1201, 1210, 2000] {
            let version = Version(number);
            assert_eq!(layout_of(Some(version)), Err(NoCounter::UnknownVersion(version)));
        }
        let words = NoCounter::UnknownVersion(Version(1210)).to_string();
        assert!(words.contains("libcufile 1.21") && words.contains("1.15 to 1.20"), "{words}");
    }

    #[test]
    fn one_host_request_is_a_fallback() {
        let counts = |posix| Counts { p2pdma: 4, nvidia_fs: 2, posix };
        assert_eq!(counts(0).all_direct(), Ok(()));
        assert_eq!(counts(1).all_direct(), Err(FellBack { posix: 1, all: 7 }));
    }

    #[test]
    fn missing_counts_are_incomplete() {
        let (none, two) = (Counts::default(), Counts { p2pdma: 2, ..Counts::default() });
        assert_eq!(two.since(&none, 2), Ok(two));
        assert_eq!(two.since(&none, 3), Err(NoCounter::Incomplete { counted: 2, made: 3 }));
        assert_eq!(two.since(&two, 1), Err(NoCounter::Incomplete { counted: 0, made: 1 }));
        assert_eq!(two.since(&two, 0), Ok(none), "nothing was asked");
        let posix = Counts { posix: 1, ..none };
        assert_eq!(posix.since(&none, 2), Ok(posix), "enough to know better");
    }
}
