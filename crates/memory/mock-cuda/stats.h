/* CUfileStatsLevel3_t as 1.15 and 1.19 have it, and as a version after the last known one may. */
typedef struct { uint64_t ok, err; } OpCounter;
typedef struct {
    OpCounter operations[6];
    uint64_t basic[10];
    OpCounter batch[15];
    uint64_t batch_basic[12];
} StatsLevel1;
typedef struct { StatsLevel1 before; OpCounter readv, writev; uint64_t vectors[10]; } StatsLevel1Of1190;
typedef struct {
    char uuid[16];
    uint64_t read_bytes, read_bw, read_utilization, read_duration_us;
    uint64_t n_total_reads, n_p2p_reads, n_nvfs_reads, n_posix_reads, n_unaligned_reads, n_dr_reads;
    uint64_t n_sparse_regions, n_inline_regions, n_reads_err;
    uint64_t writes_bytes, write_bw, write_utilization, write_duration_us;
    uint64_t n_total_writes, n_p2p_writes, n_nvfs_writes, n_posix_writes, n_unaligned_writes, n_dr_writes;
    uint64_t n_writes_err, n_mmap, n_mmap_ok, n_mmap_err, n_mmap_free, reg_bytes;
} PerGpu;

#define STATS(name, level1) \
    typedef struct { level1 basic; uint64_t read_hist[32], write_hist[32]; uint32_t num_gpus; PerGpu gpus[16]; } name
STATS(Stats, StatsLevel1);
STATS(StatsOf1190, StatsLevel1Of1190);
typedef struct { StatsLevel1Of1190 before; uint64_t more[3]; } StatsLevel1OfLater;
STATS(StatsOfLater, StatsLevel1OfLater);

_Static_assert(sizeof(Stats) == 5000 && sizeof(StatsOf1190) == 5112, "the layouts of cufile.h");

/* Two GPUs, of which the second did all; by P2PDMA, nvidia-fs and POSIX. */
static inline void fill_stats(uint32_t *num_gpus, PerGpu *gpus, const uint64_t reads[3], const uint64_t writes[3]) {
    *num_gpus = 2;
    gpus[1].n_p2p_reads = reads[0];
    gpus[1].n_nvfs_reads = reads[1];
    gpus[1].n_posix_reads = reads[2];
    gpus[1].n_p2p_writes = writes[0];
    gpus[1].n_nvfs_writes = writes[1];
    gpus[1].n_posix_writes = writes[2];
}
