/* The search for a picture on a GPU: means of squares, sums over rectangles, correlation, scores, peaks.
 *
 * Leaves out which areas and which layers are asked for. Every sum is made in the order of
 * correlate.rs and without fused operations (--fmad=false), so that scores are those of the CPU,
 * bit for bit.
 *
 * NVRTC compiles this when the program runs, for the GPU that is there. It is plain C apart from CUDA's own words,
 * so that the mock of the tests compiles the same text for the processor and runs it.
 */
#ifdef __cplusplus
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#else
#define KERNEL static void
#define DEVICE static inline
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

/* Neighbouring places of one thread: as many products for each value that is loaded. */
#define PLACES 4
/* As in correlate.rs: rows that are added in short numbers, and the variance of what is flat. */
#define ROWS 16
#define FLAT 0.05
/* Bytes before the first entry of a list of peaks; as in round.rs. */
#define LIST_HEADER 16

/* An area of an image as means of squares; as in round.rs. The image's top row begins at `begin` of the frames, and the
 * next row `stride` further, which is negative where the file has the last row first. */
typedef struct {
    u64 values, sums;
    i64 begin, stride;
    u32 x, y, width, height, level, has_sums;
} Plane;

/* A layer of a picture against a plane; as in round.rs. */
typedef struct {
    u64 taps, weights, partials, scores;
    double weight, norm;
    u32 plane, width, height, layer_width, layer_height, slices, series;
    float enough;
} Task;

/* A place that is worth a closer look; as in round.rs. */
typedef struct {
    u32 task, index;
    float score;
} Peak;

DEVICE u32 sum_of_bytes(u32 word) {
    u32 pairs = (word & 0x00ff00ffu) + ((word >> 8) & 0x00ff00ffu);
    return (pairs & 0xffffu) + (pairs >> 16);
}

/* The sum of a few pixels, by words wherever they begin; a word that is read has at least one of them. */
DEVICE u32 sum_of_run(const u8 *at, u32 count) {
    u32 sum = 0, words = count / 4;
    u32 skip = (u32)((u64)at & 3) * 8;
    const u32 *word = (const u32 *)(at - (skip / 8));
    if (words == 0) {
        for (u32 index = 0; index < count; index++) sum += at[index];
        return sum;
    }
    sum = sum_of_bytes(word[0] >> skip);
    for (u32 index = 1; index < words; index++) sum += sum_of_bytes(word[index]);
    if (skip) sum += sum_of_bytes(word[words] << (32 - skip));
    return sum;
}

/* A thread a square. */
KERNEL means(const u8 *frames, u8 *arena, u64 planes) {
    Plane plane = ((const Plane *)(arena + planes))[blockIdx.z];
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= plane.width * plane.height) return;
    u32 side = 1u << plane.level, sum = 0;
    i64 row = plane.y + (i64)(index / plane.width) * side;
    const u8 *at = frames + plane.begin + row * plane.stride + plane.x + (i64)(index % plane.width) * side;
    for (u32 line = 0; line < side; line++) sum += sum_of_run(at + (i64)line * plane.stride, side);
    /* A power of two: exact. */
    ((float *)(arena + plane.values))[index] = (float)sum * (1.0f / (float)(1u << (2 * plane.level)));
}

/* Sums of values and of their squares along each row, a thread a row; the first row and column are zero. These are
 * multiples of small powers of two and exact, in whatever order. */
KERNEL sums_of_rows(u8 *arena, u64 planes) {
    Plane plane = ((const Plane *)(arena + planes))[blockIdx.z];
    u32 y = blockIdx.x * blockDim.x + threadIdx.x;
    if (!plane.has_sums || y > plane.height) return;
    double *out = (double *)(arena + plane.sums) + 2 * (u64)y * (plane.width + 1);
    const float *values = (const float *)(arena + plane.values);
    double first = 0.0, second = 0.0;
    out[0] = out[1] = 0.0;
    for (u32 x = 0; x < plane.width; x++) {
        double value = y ? values[(u64)(y - 1) * plane.width + x] : 0.0;
        first += value;
        second += value * value;
        out[2 * x + 2] = first;
        out[2 * x + 3] = second;
    }
}

/* Those sums added downwards, a thread a column. */
KERNEL sums_of_columns(u8 *arena, u64 planes) {
    Plane plane = ((const Plane *)(arena + planes))[blockIdx.z];
    u32 x = blockIdx.x * blockDim.x + threadIdx.x;
    if (!plane.has_sums || x > plane.width) return;
    double *at = (double *)(arena + plane.sums) + 2 * (u64)x;
    double first = 0.0, second = 0.0;
    for (u32 y = 0; y <= plane.height; y++) {
        at[0] = first += at[0];
        at[1] = second += at[1];
        at += 2 * (u64)(plane.width + 1);
    }
}

/* Sums of products of a layer with the plane, a thread for PLACES neighbours and one slice of the layer's rows: all of
 * them, or ROWS, whose sums `scores` adds in order. Series 0 has the picture; 1 and 2 have weights with values and
 * with their squares. */
KERNEL correlate(u8 *arena, u64 planes, u64 tasks, const float *layers) {
    const Task *task = (const Task *)(arena + tasks) + blockIdx.z;
    u32 slices = task->slices, series = blockIdx.y / slices, slice = blockIdx.y % slices;
    u32 across = (task->width + PLACES - 1) / PLACES;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (series >= task->series || index >= across * task->height) return;
    const Plane *plane = (const Plane *)(arena + planes) + task->plane;
    u32 x = index % across * PLACES, y = index / across;
    u32 from = slices > 1 ? slice * ROWS : 0;
    u32 to = slices > 1 && from + ROWS < task->layer_height ? from + ROWS : task->layer_height;
    u32 width = task->layer_width;
    const float *taps = layers + (series ? task->weights : task->taps);
    const float *values = (const float *)(arena + plane->values);
    float sums[PLACES], kept[PLACES];
    double totals[PLACES];
    for (u32 place = 0; place < PLACES; place++) sums[place] = 0.0f, totals[place] = 0.0;
    for (u32 row = from; row < to; row++) {
        if (row > from && row % ROWS == 0)
            for (u32 place = 0; place < PLACES; place++) totals[place] += sums[place], sums[place] = 0.0f;
        const float *pixels = values + (u64)(y + row) * plane->width + x;
        const float *line = taps + (u64)row * width;
        for (u32 place = 0; place + 1 < PLACES; place++) {
            kept[place] = pixels[place];
            if (series == 2) kept[place] = kept[place] * kept[place];
        }
        for (u32 tap = 0; tap < width; tap++) {
            float next = pixels[tap + PLACES - 1];
            kept[PLACES - 1] = series == 2 ? next * next : next;
            for (u32 place = 0; place < PLACES; place++) sums[place] = sums[place] + kept[place] * line[tap];
            for (u32 place = 0; place + 1 < PLACES; place++) kept[place] = kept[place + 1];
        }
    }
    u64 places = (u64)task->width * task->height;
    float *out = (float *)(arena + task->partials) + (u64)blockIdx.y * places + (u64)y * task->width;
    for (u32 place = 0; place < PLACES && x + place < task->width; place++)
        out[x + place] = (float)(totals[place] + sums[place]);
}

/* What the slices of a series come to at a place. */
DEVICE float whole(const float *partials, u32 slices, u64 places) {
    double total = 0.0;
    for (u32 slice = 0; slice < slices; slice++) total += partials[slice * places];
    return (float)total;
}

/* The score of each place, a thread a place: `normalise` of correlate.rs. */
KERNEL scores(u8 *arena, u64 planes, u64 tasks) {
    const Task *task = (const Task *)(arena + tasks) + blockIdx.z;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u64 places = (u64)task->width * task->height;
    if (index >= places) return;
    const float *partials = (const float *)(arena + task->partials) + index;
    u64 series = task->slices * places;
    float product = whole(partials, task->slices, places);
    double first, second;
    if (task->series > 1) {
        first = whole(partials + series, task->slices, places);
        second = whole(partials + 2 * series, task->slices, places);
    } else {
        const Plane *plane = (const Plane *)(arena + planes) + task->plane;
        u64 stride = plane->width + 1;
        const double *top = (const double *)(arena + plane->sums)
            + 2 * (index / task->width * stride + index % task->width);
        const double *bottom = top + 2 * stride * task->layer_height;
        u64 right = 2 * (u64)task->layer_width;
        first = bottom[right] - bottom[0] - top[right] + top[0];
        second = bottom[right + 1] - bottom[1] - top[right + 1] + top[1];
    }
    double energy = second - first * first / task->weight;
    float score = 0.0f;
    if (energy >= FLAT * task->weight) score = (float)((double)product / (task->norm * sqrt(energy)));
    ((float *)(arena + task->scores))[index] = score;
}

/* Places whose score is enough and not below that of a neighbour, in no order. The list begins with their number, which
 * goes on where the list is full. */
KERNEL peaks(u8 *arena, u64 tasks, u64 list, u64 capacity) {
    const Task *task = (const Task *)(arena + tasks) + blockIdx.z;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= task->width * task->height) return;
    const float *map = (const float *)(arena + task->scores);
    float score = map[index];
    if (!(score >= task->enough)) return;
    u32 x = index % task->width, y = index / task->width;
    for (u32 row = y ? y - 1 : 0; row <= y + 1 && row < task->height; row++)
        for (u32 column = x ? x - 1 : 0; column <= x + 1 && column < task->width; column++) {
            u32 other = row * task->width + column;
            /* Of equal neighbours the first one is the peak. */
            if (map[other] > score || (map[other] == score && other < index)) return;
        }
    u32 slot = atomicAdd((u32 *)(arena + list), 1u);
    if (slot >= capacity) return;
    Peak *peak = (Peak *)(arena + list + LIST_HEADER) + slot;
    peak->task = blockIdx.z;
    peak->index = index;
    peak->score = score;
}
