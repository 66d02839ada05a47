/* CUDA's own words for a processor: what stands before a source of kernels that the mock compiles. */
#include <math.h>

typedef struct { unsigned x, y, z; } Place;
/* One thread at a time runs kernels: the mock holds its lock. */
static Place blockIdx, blockDim, threadIdx, gridDim;

static inline unsigned atomicAdd(unsigned *at, unsigned more) {
    unsigned before = *at;
    *at = before + more;
    return before;
}

/* Every thread of a grid, one after the other. */
#define RUN(call) do { \
    Place grid_ = { x, y, z }, block_ = { threads, 1, 1 }; \
    gridDim = grid_; blockDim = block_; \
    for (blockIdx.z = 0; blockIdx.z < z; blockIdx.z++) \
        for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++) \
            for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) \
                for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) call; \
} while (0)
