//! Numbers and layouts of `cufile.h` (cuFile API reference). `headers.rs` compares them with the published headers.

use std::ops::RangeInclusive;

/// Boolean parameters (`CUFileBoolConfigParameter_t`).
pub(super) mod parameter {
    pub(in crate::cufile) const ALLOW_COMPATIBLE: i32 = 1;
    pub(in crate::cufile) const FORCE_COMPATIBLE: i32 = 2;
    pub(in crate::cufile) const USE_P2PDMA: i32 = 7;
    /// Since 1.19, as is the next one.
    pub(in crate::cufile) const POSIX_IO: i32 = 12;
    pub(in crate::cufile) const FALLBACK_IO: i32 = 13;
}

/// Bits of `dcontrolflags` (`CUfileDriverControlFlags_t`).
pub(super) mod control {
    pub(in crate::cufile) const ALLOW_COMPATIBLE: u32 = 1;
    /// Since 1.17, as is the next one.
    pub(in crate::cufile) const POSIX_IO: u32 = 2;
    pub(in crate::cufile) const FALLBACK_IO: u32 = 4;
}

/// Kinds of storage (`CUfileDriverStatusFlags_t`).
pub(super) mod storage {
    pub(in crate::cufile) const NVME: i32 = 4;
    pub(in crate::cufile) const NVME_OF: i32 = 5;
}

/// Bits of a set of P2P flags (`CUfileP2PFlags_t`, since 1.16), with their names.
pub(super) const P2P_FLAGS: [(u32, &str); 5] =
    [(0, "P2PDMA"), (1, "nvidia-fs"), (2, "dma-buf"), (3, "C2C"), (4, "nvidia-peermem")];

/// `CU_FILE_INVALID_VALUE`: the answer to a parameter that the library does not have.
pub(super) const INVALID_VALUE: i32 = 5022;

/// Layout of `CUfileStatsLevel3_t`, in words of 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StatsLayout {
    /// Versions that have it, as [`super::Version`] counts them.
    pub(super) versions: RangeInclusive<i32>,
    /// Size of the structure.
    pub(super) words: usize,
    /// Word whose low half is `num_gpus`.
    pub(super) gpu_count: usize,
    /// First word of the first `CUfilePerGpuStats_t`.
    pub(super) first_gpu: usize,
}

/// Known layouts, oldest first. The counters came with 1.15; 1.19 put 14 words of `readv` and `writev` before
/// those of the GPUs.
pub(super) const LAYOUTS: [StatsLayout; 2] = [
    StatsLayout { versions: 1150..=1189, words: 625, gpu_count: 128, first_gpu: 129 },
    StatsLayout { versions: 1190..=1200, words: 639, gpu_count: 142, first_gpu: 143 },
];

/// Words of each `CUfilePerGpuStats_t`.
pub(super) const GPU_WORDS: usize = 31;
/// GPUs that there is room for.
pub(super) const GPUS_MAX: usize = 16;
/// Words of each GPU with its reads by P2PDMA, by nvidia-fs and by POSIX.
pub(super) const READS: [usize; 3] = [7, 8, 9];
/// The same of writes.
pub(super) const WRITES: [usize; 3] = [20, 21, 22];
