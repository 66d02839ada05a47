/* CUDA's own words for a processor: what stands before a source of kernels that the mock compiles. */
#include <math.h>
#include <stdlib.h>
#include <ucontext.h>

typedef struct { unsigned x, y, z; } Place;
/* One thread at a time runs kernels: the mock holds its lock. */
static Place blockIdx, blockDim, threadIdx, gridDim;

static inline unsigned atomicAdd(unsigned *at, unsigned more) {
    unsigned before = *at;
    *at = before + more;
    return before;
}

static inline unsigned long long __umul64hi(unsigned long long one, unsigned long long other) {
    return (unsigned long long)((unsigned __int128)one * other >> 64);
}

#define __global__
#define __device__
#define __forceinline__ inline
#define __constant__ static const
/* One block runs at a time. */
#define __shared__ static

/* The threads of a block, which wait for each other by changing to the next. */
#define MOST_THREADS 1024
static ucontext_t between, thread_at[MOST_THREADS];
static unsigned char is_over[MOST_THREADS];
static void (*thread_of)(void);

static inline void __syncthreads(void) {
    swapcontext(&thread_at[threadIdx.x], &between);
}
static void run_thread(void) {
    thread_of();
    is_over[threadIdx.x] = 1;
}
static void run_block(void (*once)(void), unsigned threads) {
    static char *stacks;
    const size_t size = 64 << 10;
    unsigned left = threads;
    if (!stacks) stacks = malloc(MOST_THREADS * size);
    thread_of = once;
    for (unsigned i = 0; i < threads; i++) {
        getcontext(&thread_at[i]);
        thread_at[i].uc_stack.ss_sp = stacks + i * size;
        thread_at[i].uc_stack.ss_size = size;
        thread_at[i].uc_link = &between;
        is_over[i] = 0;
        makecontext(&thread_at[i], run_thread, 0);
    }
    for (int is_backwards = 0; left; is_backwards = !is_backwards)
        for (unsigned i = 0; i < threads; i++) {
            unsigned at = is_backwards ? threads - 1 - i : i;
            if (is_over[at]) continue;
            threadIdx.x = at;
            swapcontext(&between, &thread_at[at]);
            left -= is_over[at];
        }
}

/* Every thread of a grid. */
static inline void run_grid(void (*once)(void), int waits, unsigned x, unsigned y, unsigned z, unsigned threads) {
    Place grid = { x, y, z }, block = { threads, 1, 1 };
    gridDim = grid;
    blockDim = block;
    for (blockIdx.z = 0; blockIdx.z < z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++)
                if (waits) run_block(once, threads);
                else
                    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) once();
}
