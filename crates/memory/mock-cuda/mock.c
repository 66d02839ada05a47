/* A CUDA driver and a cuFile that live in host memory and check what the real ones demand.
 *
 * Written against cuda.h and the cuFile API reference, by itself: it shares nothing with the tables that it is
 * there to check. Device addresses are handed out of a map that nobody may touch, so that a load or store by
 * the program ends it; copies happen when their event is found to be over, and not before, so that memory
 * reused too early shows in the content. Kernels run then, too, in the order of their stream, on the processor:
 * only then is device memory open at the addresses that were handed out (compute.c).
 *
 * Beside the library lie NAME.conf (lines `key=value`, read at cuInit and cuFileDriverOpen) and NAME.log
 * (every call, and `VIOLATION` where one came in the wrong order). Keys: devices, memory, delay (looks before
 * a copy is over), fail_copy (which copy fails), mode (p2pdma, nvfs, compat: what the machine offers), no_set
 * (no parameters), sticky (compat cannot be switched off), fail_launch (which launch fails), fail_io (which request fails), short_io, lie
 * (counters say host memory), lose (which request moves nothing and says that it did), lie_from (the request from
 * which on counters say host memory), no_window (bytes from which on memory cannot be registered with cuFile).
 * Of cuFile besides: version (1200 unless it is said: 1000 for each major one, 10 for each minor one; counters,
 * parameters and flags are those of that version, and what comes after 1200 has a layout of its own), no_version
 * (which it does not tell), no_counts (counters stay at zero), posix_mode and fallback_io (on whatever is set),
 * p2p_flags (of NVMe), no_udev (no file can be registered, and cufile.log says why), crash (registering a file ends the
 * process). From 1190 on reads of holes go through host memory.
 * Of copies besides: null (they move nothing), shuffled (each is over after looks by chance), hang (the work from which
 * on none is over), pinnable (bytes of host memory that can be registered), no_register (no pages of a file can).
 * Of two GPUs: peers (0: none has access to the other), peer_lies (drop, mirror) and peer_window, as `loses` says.
 * While `held` is 1 no kernel ends. A kernel by the name `never` does not end, and one by the name `fails` ends in an error that all later calls give.
 * Memory that is freed is noted as `left zeroes` or `left content`, and pinned memory so with `host` before it. Beside
 * the calls stand `VERB begins at ADDRESS for BYTES, NUMBER` and `VERB ends at ADDRESS`: read and write by cuFile (NUMBER
 * is the offset in the file), load, store and kernel by the GPU (NUMBER is that of the stream). An address is that of
 * device memory, and of a kernel its first two words.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "mock.h"
#include "stats.h"

#define MANY 4096
#define PAGE 4096
/* `map` is `size` rounded up to pages between two that nobody may ever touch; `shown` and `real` are the same memory,
 * which ends where a page does as far as addresses are multiples of 256. */
typedef struct { char *shown, *real, *map, *real_map; size_t size, pages; int used, registered, busy, device; } Memory;
/* `only` may be read by the GPU alone: pages of a file, which the copy engine has for as long as they are registered. */
typedef struct { char *at; size_t size; int used, busy, only; } Host;
/* A copy, a fill (`from` is null), or a launch (`size` is 0). */
typedef struct {
    char *to, *from;
    size_t size;
    Memory *memory;
    Host *host;
    void *stream;
    int done, byte;
    Launch launch;
    /* Of a copy, and where it is in device memory. */
    const char *verb;
    uint64_t at;
} Work;
/* `at` is when the work before it was over, in ns; 0 while it is not. */
typedef struct Event { int used, flags, looks, recorded; long until, order, at; void *stream; } Event;
typedef struct { int used, device; struct Event *after; } Stream;
typedef struct { int used, fd, busy; } OpenFile;

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Memory memories[MANY];
static Host hosts[MANY];
static Work work[1 << 16];
static long works;
static Event events[MANY];
static Stream streams[MANY];
/* The default streams, whose handles are 1 and 2. */
static Stream defaults[3];
static OpenFile files[MANY];
#define MOST_DEVICES 8
static int initialised, retained, retained_of[MOST_DEVICES], may_access[MOST_DEVICES][MOST_DEVICES];
static int open_driver, level, started;
/* What a plain copy took from the host and the device may not have yet. */
static int staged;
/* A kernel failed, and the context with it. */
static int failed;
static bool may_compat = true, force_compat, use_p2pdma;
static long copies, requests, taken, launches, records;
static uint64_t reads[3], writes[3];
static __thread void *current;
static char contexts[MOST_DEVICES];

const char *beside(const char *end) {
    static __thread char path[PATH_MAX + 16], file[PATH_MAX];
    Dl_info info;
    /* One file by several names has one set of settings, whichever is opened first. */
    if (!dladdr((void *)beside, &info) || !realpath(info.dli_fname, file)) return "/dev/null";
    snprintf(path, sizeof path, "%s.%s", file, end);
    return path;
}

void note(const char *format, ...) {
    FILE *log = fopen(beside("log"), "a");
    if (!log) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
    fclose(log);
}

long number(const char *key, long otherwise) {
    FILE *file = fopen(beside("conf"), "r");
    char line[256];
    long value = otherwise;
    size_t length = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == '=') value = strtol(line + length + 1, 0, 10);
    if (file) fclose(file);
    return value;
}

static int is(const char *key, const char *wanted) {
    FILE *file = fopen(beside("conf"), "r");
    char line[256];
    int found = 0;
    size_t length = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == '=') {
            line[strcspn(line, "\n")] = 0;
            found = !strcmp(line + length + 1, wanted);
        }
    if (file) fclose(file);
    return found;
}

int wrong(const char *call, const char *why) {
    note("VIOLATION %s: %s", call, why);
    return 999;
}

/* The device of a context. */
static int device_of(void *handle) { return (int)((char *)handle - contexts); }
static int is_current(void) { return current && retained_of[device_of(current)]; }

#define INIT(name) do { ENTER(name); if (!initialised) LEAVE(wrong(name, "before cuInit") ? 3 : 3); } while (0)
#define CURRENT(name) do { INIT(name); \
    if (!is_current()) LEAVE(wrong(name, "without a current context")); } while (0)

int cuInit(unsigned flags) {
    ENTER("cuInit");
    if (flags) LEAVE(wrong("cuInit", "flags"));
    if (number("devices", 1) == 0) LEAVE(100);
    initialised = 1;
    LEAVE(0);
}
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { INIT("cuDeviceGetCount"); *count = (int)number("devices", 1); LEAVE(0); }
int cuDeviceGet(int *device, int ordinal) {
    INIT("cuDeviceGet");
    if (ordinal < 0 || ordinal >= number("devices", 1)) LEAVE(101);
    *device = ordinal;
    LEAVE(0);
}
int cuDeviceGetName(char *name, int length, int device) {
    INIT("cuDeviceGetName");
    snprintf(name, (size_t)length, "Mock GPU %d", device);
    LEAVE(0);
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    INIT("cuDeviceTotalMem");
    (void)device;
    *bytes = (size_t)number("memory", 64 << 20);
    LEAVE(0);
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    INIT("cuDeviceGetAttribute");
    (void)device;
    /* Compute capability 9.0; 2619 MHz of 5120 bits; 132 multiprocessors at 1980 MHz. */
    static const int known[][2] = {{75, 9}, {36, 2619000}, {37, 5120}, {13, 1980000}, {16, 132}};
    *value = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) *value = known[i][1];
    LEAVE(0);
}
/* The fastest comes first, which is not the order of addresses. */
int cuDeviceGetPCIBusId(char *text, int length, int device) {
    INIT("cuDeviceGetPCIBusId");
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0xC1 - 0x40 * device);
    LEAVE(0);
}
int cuDevicePrimaryCtxRetain(void **handle, int device) {
    INIT("cuDevicePrimaryCtxRetain");
    retained++, retained_of[device]++;
    *handle = &contexts[device];
    LEAVE(0);
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    INIT("cuDevicePrimaryCtxRelease");
    retained--;
    if (retained_of[device]-- < 1) LEAVE(wrong("cuDevicePrimaryCtxRelease", "not retained"));
    if (!retained)
        for (int i = 0; i < MANY; i++) {
            if (memories[i].used) wrong("cuDevicePrimaryCtxRelease", "with memory allocated");
            if (hosts[i].used) wrong("cuDevicePrimaryCtxRelease", "with host memory registered");
            if (streams[i].used) wrong("cuDevicePrimaryCtxRelease", "with a stream");
        }
    if (!retained && modules_loaded) wrong("cuDevicePrimaryCtxRelease", "with a module");
    LEAVE(0);
}
int cuCtxSetCurrent(void *handle) {
    pthread_mutex_lock(&lock);
    if (handle && !retained_of[device_of(handle)]) LEAVE(wrong("cuCtxSetCurrent", "of a context that is not retained"));
    if (!handle) note("cuCtxSetCurrent none");
    current = handle;
    LEAVE(0);
}
int cuCtxGetCurrent(void **handle) {
    INIT("cuCtxGetCurrent");
    *handle = current;
    LEAVE(0);
}
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    CURRENT("cuMemGetInfo");
    *total = (size_t)number("memory", 64 << 20);
    *available = *total - (size_t)taken;
    LEAVE(0);
}

static Memory *memory_at(uint64_t address, size_t size) {
    for (int i = 0; i < MANY; i++) {
        uint64_t base = (uint64_t)(uintptr_t)memories[i].shown;
        if (memories[i].used && address >= base && size <= memories[i].size && address - base <= memories[i].size - size)
            return &memories[i];
    }
    return 0;
}
static Host *host_at(const char *address, size_t size) {
    for (int i = 0; i < MANY; i++)
        if (hosts[i].used && address >= hosts[i].at && address + size <= hosts[i].at + hosts[i].size)
            return &hosts[i];
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    CURRENT("cuMemAlloc");
    if (!size) LEAVE(1);
    if (taken + (long)size > number("memory", 64 << 20)) {
        note("cuMemAlloc refused");
        LEAVE(2);
    }
    for (int i = 0; i < MANY; i++)
        if (!memories[i].used) {
            size_t pages = (size + PAGE - 1) / PAGE * PAGE, skip = (pages - size) & ~(size_t)255;
            int both = memfd_create("mock", MFD_CLOEXEC);
            if (both < 0 || ftruncate(both, (off_t)pages)) LEAVE(2);
            char *map = mmap(0, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            mmap(map + PAGE, pages, PROT_NONE, MAP_SHARED | MAP_FIXED, both, 0);
            char *real = mmap(0, pages, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0);
            close(both);
            Memory memory = { map + PAGE + skip, real + skip, map, real, size, pages, 1, 0, 0, device_of(current) };
            memset(memory.real, 0xEE, size);
            memories[i] = memory;
            taken += (long)size;
            *address = (uint64_t)(uintptr_t)memory.shown;
            LEAVE(0);
        }
    LEAVE(2);
}
int cuMemFree_v2(uint64_t address) {
    CURRENT("cuMemFree");
    Memory *memory = memory_at(address, 1);
    if (!memory) LEAVE(wrong("cuMemFree", "of no memory"));
    if (memory->busy) LEAVE(wrong("cuMemFree", "of memory in flight"));
    if (memory->registered) LEAVE(wrong("cuMemFree", "of memory that is registered with cuFile"));
    size_t zeroes = 0;
    while (zeroes < memory->size && !memory->real[zeroes]) zeroes++;
    note(zeroes == memory->size ? "left zeroes" : "left content");
    munmap(memory->map, memory->pages + 2 * PAGE);
    munmap(memory->real_map, memory->pages);
    taken -= (long)memory->size;
    memory->used = 0;
    LEAVE(0);
}
int cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
    CURRENT("cuMemHostRegister");
    int only = (flags & 8) != 0;
    if (host_at(address, 1)) LEAVE(712);
    size_t pinned = 0;
    for (int i = 0; i < MANY; i++)
        if (hosts[i].used && !hosts[i].only) pinned += hosts[i].size;
    if (only ? number("no_register", 0) : pinned + size > (size_t)number("pinnable", LONG_MAX)) {
        note("cuMemHostRegister refused");
        LEAVE(1);
    }
    /* As the kernel pins pages: those that a file has lost are an error (MADV_POPULATE_READ). */
    if (only && madvise(address, size, 22)) {
        note("cuMemHostRegister refused");
        LEAVE(1);
    }
    if (only) note("registered a file");
    for (int i = 0; i < MANY; i++)
        if (!hosts[i].used) {
            Host host = { address, size, 1, 0, only };
            hosts[i] = host;
            LEAVE(0);
        }
    LEAVE(2);
}
int cuMemHostUnregister(void *address) {
    CURRENT("cuMemHostUnregister");
    Host *host = host_at(address, 1);
    if (!host) LEAVE(wrong("cuMemHostUnregister", "of memory that is not registered"));
    if (host->busy) LEAVE(wrong("cuMemHostUnregister", "of memory in flight"));
    size_t zeroes = 0;
    while (!host->only && zeroes < host->size && !host->at[zeroes]) zeroes++;
    if (!host->only) note(zeroes == host->size ? "host left zeroes" : "host left content");
    host->used = 0;
    LEAVE(0);
}

/* The beginning of work on device memory; its end is noted by `note_end`. */
static void note_begin(const char *verb, uint64_t at, size_t size, long number) {
    note("%s begins at %#llx for %zu, %ld", verb, (unsigned long long)at, size, number);
}
static void note_end(const char *verb, uint64_t at) { note("%s ends at %#llx", verb, (unsigned long long)at); }

static int ask(char *to, char *from, size_t size, Memory *memory, Host *host, void *stream) {
    if (!stream || !((Stream *)stream)->used) return wrong("cuMemcpyAsync", "in no stream");
    if (++copies == number("fail_copy", 0)) return 719;
    bool loads = to >= memory->real && to < memory->real + memory->size;
    uint64_t at = (uint64_t)(uintptr_t)memory->shown + (uint64_t)((loads ? to : from) - memory->real);
    Work one = { to, from, size, memory, host, stream, 0, 0, { 0 }, loads ? "load" : "store", at };
    work[works++ % (1 << 16)] = one;
    note_begin(one.verb, at, size, (Stream *)stream - streams);
    memory->busy++;
    host->busy++;
    return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t size, void *stream) {
    CURRENT("cuMemsetD8Async");
    Memory *memory = memory_at(to, size);
    if (!stream || !((Stream *)stream)->used) LEAVE(wrong("cuMemsetD8Async", "in no stream"));
    if (!memory) LEAVE(wrong("cuMemsetD8Async", "beyond device memory"));
    char *real = memory->real + (to - (uint64_t)(uintptr_t)memory->shown);
    Work one = { real, 0, size, memory, 0, stream, 0, byte, { 0 }, 0, 0 };
    work[works++ % (1 << 16)] = one;
    memory->busy++;
    LEAVE(0);
}
/* How a driver lies about peer access: `drop` and `mirror` (stores go nowhere, or to a copy that only their GPU sees),
 * `window` (those beyond so many bytes of a memory are lost). */
static int loses(void) { return is("peer_lies", "drop") || is("peer_lies", "mirror"); }
/* Takes back what a GPU stored in memory of another that the driver's lie leaves out; `kept` is what was there. */
static void lie(Memory *memory, char *kept) {
    size_t from = loses() ? 0 : (size_t)number("peer_window", LONG_MAX);
    if (from < memory->size) memcpy(memory->real + from, kept + from, memory->size - from);
}
/* The first memory of another device that a launch points to. */
static Memory *peer_of(const Launch *launch, int device) {
    for (int i = 0; i < launch->words; i++)
        for (int at = 0; at < MANY; at++)
            if (memories[at].used && memories[at].device != device
                && launch->word[i] == (uint64_t)(uintptr_t)memories[at].shown)
                return &memories[at];
    return 0;
}
/* What a launch points to is busy until it has run. */
static void touch(const Launch *launch, int by) {
    for (int i = 0; i < launch->words; i++)
        for (int at = 0; at < MANY; at++) {
            uint64_t base = (uint64_t)(uintptr_t)memories[at].shown;
            if (memories[at].used && launch->word[i] >= base && launch->word[i] < base + memories[at].size)
                memories[at].busy += by;
        }
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned one_y, unsigned one_z,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    CURRENT("cuLaunchKernel");
    if (!stream || !((Stream *)stream)->used) LEAVE(wrong("cuLaunchKernel", "in no stream"));
    if (!x || !y || !z || y > 65535 || z > 65535 || x > 0x7fffffff) LEAVE(wrong("cuLaunchKernel", "no such grid"));
    if (!threads || threads > 1024 || one_y != 1 || one_z != 1) LEAVE(wrong("cuLaunchKernel", "no such block"));
    if (shared || !parameters || extra) LEAVE(wrong("cuLaunchKernel", "parameters"));
    if (++launches == number("fail_launch", 0)) LEAVE(719);
    note("cuLaunchKernel %u x %u in %d", x, threads, (int)((Stream *)stream - streams));
    Work one = { 0, 0, 0, 0, 0, stream, 0, 0, { 0 }, 0, 0 };
    if (!launch_of(&one.launch, function, x, y, z, threads, parameters)) LEAVE(wrong("cuLaunchKernel", "no function"));
    note_begin("kernel", one.launch.word[0], (size_t)one.launch.word[1], (Stream *)stream - streams);
    Memory *peer = peer_of(&one.launch, ((Stream *)stream)->device);
    if (peer && !may_access[((Stream *)stream)->device][peer->device])
        LEAVE(wrong("cuLaunchKernel", "on memory of another GPU without access"));
    touch(&one.launch, 1);
    work[works++ % (1 << 16)] = one;
    LEAVE(0);
}
static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}
static void open_memory(int protection) {
    for (int i = 0; i < MANY; i++)
        if (memories[i].used) mprotect(memories[i].map + PAGE, memories[i].pages, protection);
}
static void carry_out(Work *one) {
    if (one->from && number("null", 0)) {
        /* Nothing is moved, so that what comes before a copy can be timed. */
    } else if (one->from && one->host && one->host->only) {
        /* Pages that the file has lost since are zeroes, and no signal. */
        struct iovec to = { one->to, one->size }, from = { one->from, one->size };
        memset(one->to, 0, one->size);
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0) note("lost pages");
    } else if (one->from) memcpy(one->to, one->from, one->size);
    else if (one->size) memset(one->to, one->byte, one->size);
    else {
        Memory *peer = peer_of(&one->launch, ((Stream *)one->stream)->device);
        char *kept = peer ? malloc(peer->size) : 0;
        if (peer) memcpy(kept, peer->real, peer->size);
        open_memory(PROT_READ | PROT_WRITE);
        run(&one->launch);
        open_memory(PROT_NONE);
        if (peer) lie(peer, kept);
        free(kept);
        touch(&one->launch, -1);
        note_end("kernel", one->launch.word[0]);
    }
    if (one->verb) note_end(one->verb, one->at);
    one->done = 1;
    if (one->memory) one->memory->busy--;
    if (one->host) one->host->busy--;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
    CURRENT("cuMemcpyHtoDAsync");
    Memory *memory = memory_at(to, size);
    Host *host = host_at(from, size);
    if (!memory) LEAVE(wrong("cuMemcpyHtoDAsync", "beyond device memory"));
    if (!host) LEAVE(wrong("cuMemcpyHtoDAsync", "from memory that is not registered"));
    char *real = memory->real + (to - (uint64_t)(uintptr_t)memory->shown);
    LEAVE(ask(real, (char *)from, size, memory, host, stream));
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
    CURRENT("cuMemcpyDtoHAsync");
    Memory *memory = memory_at(from, size);
    Host *host = host_at(to, size);
    if (staged) LEAVE(wrong("cuMemcpyDtoHAsync", "while a copy may still be on its way"));
    if (!memory) LEAVE(wrong("cuMemcpyDtoHAsync", "beyond device memory"));
    if (!host) LEAVE(wrong("cuMemcpyDtoHAsync", "to memory that is not registered"));
    char *real = memory->real + (from - (uint64_t)(uintptr_t)memory->shown);
    LEAVE(ask(to, real, size, memory, host, stream));
}
/* Plain host memory: read or written at once, and pages of a mapped file come in then. */
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    CURRENT("cuMemcpyHtoD");
    Memory *memory = memory_at(to, size);
    if (!memory) LEAVE(wrong("cuMemcpyHtoD", "beyond device memory"));
    if (host_at(from, size)) LEAVE(wrong("cuMemcpyHtoD", "from memory that is registered"));
    if (++copies == number("fail_copy", 0)) LEAVE(719);
    memcpy(memory->real + (to - (uint64_t)(uintptr_t)memory->shown), from, size);
    staged = 1;
    LEAVE(0);
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    CURRENT("cuMemcpyDtoH");
    Memory *memory = memory_at(from, size);
    if (!memory) LEAVE(wrong("cuMemcpyDtoH", "beyond device memory"));
    if (host_at(to, size)) LEAVE(wrong("cuMemcpyDtoH", "to memory that is registered"));
    if (staged) LEAVE(wrong("cuMemcpyDtoH", "while a copy may still be on its way"));
    if (++copies == number("fail_copy", 0)) LEAVE(719);
    memcpy(to, memory->real + (from - (uint64_t)(uintptr_t)memory->shown), size);
    LEAVE(0);
}
/* Whole memories alone are known, by any address within them. `memory_type`, `ordinal` and
 * `other_context` of the configuration say something else of them. */
int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    INIT("cuPointerGetAttribute");
    Memory *memory = memory_at(address, 1);
    if (!memory) LEAVE(1);
    switch (attribute) {
    case 1: *(void **)value = number("other_context", 0) ? (void *)&lock : (void *)&contexts[memory->device]; LEAVE(0);
    case 2: *(unsigned *)value = (unsigned)number("memory_type", 2); LEAVE(0);
    case 9: *(int *)value = (int)number("ordinal", memory->device); LEAVE(0);
    case 11: *(uint64_t *)value = (uint64_t)(uintptr_t)memory->shown; LEAVE(0);
    case 12: *(size_t *)value = memory->size; LEAVE(0);
    default: LEAVE(1);
    }
}
/* On the device, asked for in the order of the default stream: over only when the context was waited for. */
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
    CURRENT("cuMemcpyDtoD");
    Memory *source = memory_at(from, size), *target = memory_at(to, size);
    if (!size) LEAVE(wrong("cuMemcpyDtoD", "of nothing"));
    if (!source || !target) LEAVE(1);
    if (source->busy || target->busy) LEAVE(wrong("cuMemcpyDtoD", "of memory in flight"));
    if (++copies == number("fail_copy", 0)) LEAVE(719);
    memcpy(target->real + (to - (uint64_t)(uintptr_t)target->shown),
           source->real + (from - (uint64_t)(uintptr_t)source->shown), size);
    staged = 1;
    LEAVE(0);
}
/* The driver's word on peer access: `peers=0` refuses it, so that copies between GPUs go through host memory. */
int cuDeviceCanAccessPeer(int *answer, int device, int peer) {
    INIT("cuDeviceCanAccessPeer");
    *answer = device != peer && number("peers", 1);
    LEAVE(0);
}
int cuCtxEnablePeerAccess(void *peer, unsigned flags) {
    CURRENT("cuCtxEnablePeerAccess");
    int own = device_of(current), other = device_of(peer);
    if (flags || own == other) LEAVE(wrong("cuCtxEnablePeerAccess", "flags, or of itself"));
    if (!number("peers", 1)) LEAVE(217);
    if (may_access[own][other]++) LEAVE(704);
    LEAVE(0);
}
int cuCtxDisablePeerAccess(void *peer) {
    CURRENT("cuCtxDisablePeerAccess");
    if (!may_access[device_of(current)][device_of(peer)]) LEAVE(wrong("cuCtxDisablePeerAccess", "without access"));
    may_access[device_of(current)][device_of(peer)] = 0;
    LEAVE(0);
}
int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t size, void *stream) {
    CURRENT("cuMemcpyPeerAsync");
    Memory *target = memory_at(to, size), *source = memory_at(from, size);
    if (!target || !source) LEAVE(wrong("cuMemcpyPeerAsync", "beyond device memory"));
    if (target->device != device_of(to_context) || source->device != device_of(from_context))
        LEAVE(wrong("cuMemcpyPeerAsync", "of memory of another context"));
    int is_direct = may_access[source->device][target->device];
    note(is_direct ? "copied straight" : "copied through host memory");
    char *real = target->real + (to - (uint64_t)(uintptr_t)target->shown);
    size_t kept = size;
    if (is_direct && loses()) kept = 0;
    else if (is_direct && (size_t)number("peer_window", LONG_MAX) < size) kept = (size_t)number("peer_window", LONG_MAX);
    if (!kept) LEAVE(0);
    Work one = { real, source->real + (from - (uint64_t)(uintptr_t)source->shown), kept, target, 0, stream, 0, 0, { 0 }, 0, 0 };
    work[works++ % (1 << 16)] = one;
    target->busy++;
    LEAVE(0);
}
int cuCtxSynchronize(void) {
    CURRENT("cuCtxSynchronize");
    staged = 0;
    LEAVE(0);
}
int cuStreamCreate(void **stream, unsigned flags) {
    CURRENT("cuStreamCreate");
    (void)flags;
    for (int i = 0; i < MANY; i++)
        if (!streams[i].used) {
            streams[i].used = 1;
            streams[i].after = 0;
            streams[i].device = device_of(current);
            *stream = &streams[i];
            LEAVE(0);
        }
    LEAVE(2);
}
int cuStreamDestroy_v2(void *stream) {
    CURRENT("cuStreamDestroy");
    for (long i = 0; i < works && i < (1 << 16); i++)
        if (work[i].stream == stream && !work[i].done) LEAVE(wrong("cuStreamDestroy", "with work in it"));
    ((Stream *)stream)->used = 0;
    LEAVE(0);
}
int cuEventCreate(void **event, unsigned flags) {
    CURRENT("cuEventCreate");
    for (int i = 0; i < MANY; i++)
        if (!events[i].used) {
            Event one = { 1, (int)flags, 0, 0, 0, 0, 0, 0 };
            events[i] = one;
            *event = &events[i];
            LEAVE(0);
        }
    LEAVE(2);
}
int cuEventRecord(void *event, void *stream) {
    CURRENT("cuEventRecord");
    if ((uintptr_t)stream <= 2) stream = &defaults[(uintptr_t)stream];
    note("cuEventRecord in %d", (int)((Stream *)stream - streams));
    Event one = { 1, ((Event *)event)->flags, 0, 1, works, ++records, 0, stream };
    *(Event *)event = one;
    LEAVE(0);
}
/* The other events of a stream that come before this work. */
static void pass(const Event *last, long next) {
    for (int i = 0; i < MANY; i++) {
        Event *event = &events[i];
        if (event->used && event->recorded && !event->at && event->stream == last->stream && event->until <= next
            && event->order < last->order)
            event->at = nanoseconds();
    }
}
/* Carries out what comes before an event; whether that is over. */
static int look(Event *event) {
    if (failed) return 719;
    Event *before = ((Stream *)event->stream)->after;
    if (before && !before->at) {
        int code = look(before);
        if (code) return code;
    }
    if (event->looks++ < (number("shuffled", 0) ? rand() % 8 : number("delay", 2))) return 600;
    if (number("hang", 0) && event->until >= number("hang", 0)) return 600;
    for (long i = works > 1 << 16 ? works - (1 << 16) : 0; i < event->until; i++) {
        Work *one = &work[i % (1 << 16)];
        if (one->done || one->stream != event->stream) continue;
        if (one->launch.never || (one->launch.runner && number("held", 0))) return 600;
        if (one->launch.fails) {
            failed = 1;
            return 719;
        }
        pass(event, i);
        carry_out(one);
    }
    pass(event, event->until);
    event->at = nanoseconds();
    return 0;
}
int cuEventQuery(void *handle) {
    CURRENT("cuEventQuery");
    Event *event = handle;
    if (!event->used) LEAVE(wrong("cuEventQuery", "of no event"));
    if (!event->recorded) LEAVE(wrong("cuEventQuery", "of an event that was never recorded"));
    LEAVE(look(event));
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    CURRENT("cuStreamWaitEvent");
    if (flags || !((Event *)event)->recorded) LEAVE(wrong("cuStreamWaitEvent", "flags, or an event that was never recorded"));
    note("cuStreamWaitEvent in %d for %d", (int)((Stream *)stream - streams), (int)((Stream *)((Event *)event)->stream - defaults));
    ((Stream *)stream)->after = event;
    LEAVE(0);
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    CURRENT("cuEventElapsedTime");
    Event *begin = from, *end = to;
    if (!begin->used || !end->used || !begin->recorded || !end->recorded || (begin->flags | end->flags) & 2)
        LEAVE(wrong("cuEventElapsedTime", "of events that tell no time"));
    if (!begin->at || !end->at) LEAVE(600);
    *milliseconds = (float)(end->at - begin->at) / 1e6f;
    LEAVE(0);
}
int cuEventDestroy_v2(void *event) {
    CURRENT("cuEventDestroy");
    if (!((Event *)event)->used) LEAVE(wrong("cuEventDestroy", "of no event"));
    for (int i = 0; i < MANY; i++)
        if (streams[i].after == event) streams[i].after = 0;
    ((Event *)event)->used = 0;
    LEAVE(0);
}

/* cuFile. */
typedef struct { int err, cu_err; } Status;
typedef struct { int type; union { int fd; void *handle; } handle; const void *fs_ops; } Descriptor;
typedef struct {
    struct {
        unsigned major_version, minor_version;
        size_t poll_thresh_size, max_direct_io_size;
        unsigned dstatusflags, dcontrolflags;
    } nvfs;
    unsigned fflags, max_device_cache_size, per_buffer_cache_size, max_device_pinned_mem_size;
    unsigned max_batch_io_size, max_batch_io_timeout_msecs;
} Properties;
#define GIVE(code) do { Status status_ = { (code), 0 }; pthread_mutex_unlock(&lock); return status_; } while (0)

#define INVALID_VALUE 5022
static long version(void) { return number("version", 1200); }
static int last_parameter(void) { return version() < 1190 ? 11 : 13; }
/* POSIX mode and the second try, which came with 1.17. */
static bool has_mode(const char *key) { return version() >= 1170 && number(key, 0); }

Status cuFileSetParameterBool(int parameter, bool value) {
    ENTER("cuFileSetParameterBool");
    if (open_driver) { wrong("cuFileSetParameterBool", "after cuFileDriverOpen"); GIVE(5022); }
    if (number("no_set", 0)) GIVE(5002);
    if (parameter == 1) may_compat = value || number("sticky", 0);
    if (parameter == 2) force_compat = value;
    if (parameter == 7) use_p2pdma = value;
    GIVE(parameter < 0 || parameter > last_parameter() ? INVALID_VALUE : 0);
}
/* Before the driver is open the answer is what was set, and not what the settings file makes of it. */
Status cuFileGetParameterBool(int parameter, bool *value) {
    ENTER("cuFileGetParameterBool");
    if (parameter < 0 || parameter > last_parameter()) GIVE(INVALID_VALUE);
    *value = (parameter == 1 && may_compat) || (parameter == 2 && force_compat) || (parameter == 7 && use_p2pdma);
    if (open_driver && parameter == 12) *value = has_mode("posix_mode");
    if (open_driver && parameter == 13) *value = has_mode("fallback_io");
    GIVE(0);
}
Status cuFileGetVersion(int *value) {
    ENTER("cuFileGetVersion");
    if (number("no_version", 0)) GIVE(5005);
    *value = (int)version();
    GIVE(0);
}
Status cuFileDriverGetP2PFlags(int storage, int *flags) {
    ENTER("cuFileDriverGetP2PFlags");
    if (!open_driver) wrong("cuFileDriverGetP2PFlags", "opens the driver, which nobody asked for");
    if (version() < 1160) GIVE(INVALID_VALUE);
    *flags = storage == 4 ? (int)number("p2p_flags", is("mode", "nvfs") ? 2 : 3) : 0;
    GIVE(0);
}
Status cuFileSetStatsLevel(int wanted) { ENTER("cuFileSetStatsLevel"); level = wanted; GIVE(0); }
Status cuFileStatsStart(void) {
    ENTER("cuFileStatsStart");
    if (!open_driver || !level) { wrong("cuFileStatsStart", "before level and driver"); GIVE(5001); }
    started = 1;
    GIVE(0);
}
Status cuFileDriverOpen(void) {
    ENTER("cuFileDriverOpen");
    if (open_driver++) { wrong("cuFileDriverOpen", "twice"); GIVE(5026); }
    memset(reads, 0, sizeof reads);
    memset(writes, 0, sizeof writes);
    GIVE(0);
}
Status cuFileDriverClose_v2(void) {
    ENTER("cuFileDriverClose");
    if (open_driver-- != 1) { wrong("cuFileDriverClose", "not open"); GIVE(5001); }
    for (int i = 0; i < MANY; i++) {
        if (files[i].used) wrong("cuFileDriverClose", "with a file registered");
        if (memories[i].used && memories[i].registered) wrong("cuFileDriverClose", "with memory registered");
    }
    GIVE(0);
}
Status cuFileDriverGetProperties(Properties *properties) {
    ENTER("cuFileDriverGetProperties");
    if (!open_driver) { wrong("cuFileDriverGetProperties", "not open"); GIVE(5001); }
    memset(properties, 0, sizeof *properties);
    if (is("mode", "nvfs")) properties->nvfs.major_version = 2;
    properties->nvfs.dcontrolflags =
        (may_compat ? 1u << 1 : 0) | (has_mode("posix_mode") ? 1u << 2 : 0) | (has_mode("fallback_io") ? 1u << 4 : 0);
    properties->max_device_pinned_mem_size = 33554432;
    GIVE(0);
}
/* Which way a request takes: 0 P2PDMA, 1 nvidia-fs, 2 POSIX; -1 for none. */
static int way(void) {
    if ((force_compat && may_compat) || has_mode("posix_mode")) return 2;
    if (use_p2pdma && is("mode", "p2pdma")) return 0;
    if (!use_p2pdma && is("mode", "nvfs")) return 1;
    return may_compat || has_mode("fallback_io") ? 2 : -1;
}
/* cuFile's own log, in its form: in the working directory unless the environment says another place. */
static void log_error(const char *words) {
    const char *path = getenv("CUFILE_LOGFILE_PATH");
    FILE *log = fopen(path ? path : "cufile.log", "a");
    if (!log) return;
    fprintf(log, " 27-11-2026 10:11:12:131 [pid=%d tid=%d] ERROR  %s\n", (int)getpid(), (int)getpid(), words);
    fclose(log);
}
Status cuFileHandleRegister(void **handle, Descriptor *descriptor) {
    ENTER("cuFileHandleRegister");
    if (!open_driver) { wrong("cuFileHandleRegister", "not open"); GIVE(5001); }
    if (descriptor->type != 1 || descriptor->fs_ops) { wrong("cuFileHandleRegister", "descriptor"); GIVE(5022); }
    if (number("crash", 0)) abort();
    if (number("no_udev", 0)) {
        log_error("cufio-udev:131 no devices found by udev enumeration for pci class: nvme");
        log_error("cufio:307 cuFileHandleRegister error, failed to allocate file object");
        note("cuFileHandleRegister refused");
        GIVE(5027);
    }
    if (way() < 0) {
        note("cuFileHandleRegister refused");
        GIVE(5049);
    }
    for (int i = 0; i < MANY; i++)
        if (files[i].used && files[i].fd == descriptor->handle.fd) GIVE(5028);
    for (int i = 0; i < MANY; i++)
        if (!files[i].used) {
            OpenFile one = { 1, descriptor->handle.fd, 0 };
            files[i] = one;
            *handle = &files[i];
            GIVE(0);
        }
    GIVE(5030);
}
void cuFileHandleDeregister(void *handle) {
    ENTER("cuFileHandleDeregister");
    OpenFile *file = handle;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    if (!file->used) wrong("cuFileHandleDeregister", "of no file");
    if (file->busy) wrong("cuFileHandleDeregister", "of a file in flight");
    if (access(path, F_OK)) wrong("cuFileHandleDeregister", "after the file was closed");
    file->used = 0;
    pthread_mutex_unlock(&lock);
}
Status cuFileBufRegister(const void *base, size_t size, int flags) {
    ENTER("cuFileBufRegister");
    if (!open_driver || flags) { wrong("cuFileBufRegister", "not open"); GIVE(5001); }
    if (!is_current()) { wrong("cuFileBufRegister", "without a current context"); GIVE(5015); }
    Memory *memory = memory_at((uint64_t)(uintptr_t)base, size);
    if (!memory) { wrong("cuFileBufRegister", "of no device memory"); GIVE(5013); }
    if (memory->registered) GIVE(5023);
    if (number("no_window", 0) && size >= (size_t)number("no_window", 0)) {
        note("cuFileBufRegister refused");
        GIVE(5045);
    }
    memory->registered = 1;
    GIVE(0);
}
Status cuFileBufDeregister(const void *base) {
    ENTER("cuFileBufDeregister");
    Memory *memory = memory_at((uint64_t)(uintptr_t)base, 1);
    if (!memory || !memory->registered) { wrong("cuFileBufDeregister", "not registered"); GIVE(5024); }
    if (memory->busy) { wrong("cuFileBufDeregister", "of memory in flight"); GIVE(5022); }
    memory->registered = 0;
    GIVE(0);
}

/* Whether a file has a hole within what is read of it; an unwritten extent is one. */
static int has_hole(OpenFile *file, size_t size, off_t at) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end = lseek(fd, 0, SEEK_END), hole = lseek(fd, at, SEEK_HOLE);
    if (fd >= 0) close(fd);
    return hole >= at && hole < at + (off_t)size && hole < end;
}

static ssize_t move(OpenFile *file, uint64_t base, size_t size, off_t at, off_t offset, int is_write) {
    pthread_mutex_lock(&lock);
    note(is_write ? "cuFileWrite" : "cuFileRead");
    Memory *memory = memory_at(base + (uint64_t)offset, size);
    int taken_way = way();
    long turn = ++requests;
    if (!open_driver || !file->used || !memory || !is_current() || taken_way < 0) {
        wrong("cuFileRead or cuFileWrite", "of what is not registered, or without a context");
        pthread_mutex_unlock(&lock);
        return -5022;
    }
    if (!memory->registered) {
        wrong("cuFileRead or cuFileWrite", "of memory that is not registered");
        pthread_mutex_unlock(&lock);
        return -5024;
    }
    if (turn == number("fail_io", 0)) {
        pthread_mutex_unlock(&lock);
        errno = EIO;
        return -1;
    }
    if (turn == number("short_io", 0) && size > 4096) size = 4096;
    char *real = memory->real + (base + (uint64_t)offset - (uint64_t)(uintptr_t)memory->shown);
    int loses = turn == number("lose", 0);
    uint64_t *counted = is_write ? writes : reads;
    long lie_from = number("lie_from", 0);
    int lies = number("lie", 0) || (lie_from && turn >= lie_from);
    int by_host = !is_write && taken_way == 0 && version() >= 1190 && has_hole(file, size, at);
    if (started && !number("no_counts", 0)) counted[lies || by_host ? 2 : taken_way]++;
    memory->busy++;
    file->busy++;
    const char *verb = is_write ? "write" : "read";
    note_begin(verb, base + (uint64_t)offset, size, (long)at);
    pthread_mutex_unlock(&lock);
    void *through = 0;
    ssize_t moved = -1;
    if (loses) moved = (ssize_t)size;
    else if (!posix_memalign(&through, 4096, (size + 4095) & ~(size_t)4095)) {
        if (is_write) {
            memcpy(through, real, size);
            moved = pwrite(file->fd, through, size, at);
        } else {
            moved = pread(file->fd, through, size, at);
            if (moved > 0) memcpy(real, through, (size_t)moved);
        }
    }
    int kept = errno;
    free(through);
    pthread_mutex_lock(&lock);
    note_end(verb, base + (uint64_t)offset);
    memory->busy--;
    file->busy--;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return moved;
}
ssize_t cuFileRead(void *file, void *base, size_t size, off_t at, off_t offset) {
    return move(file, (uint64_t)(uintptr_t)base, size, at, offset, 0);
}
ssize_t cuFileWrite(void *file, const void *base, size_t size, off_t at, off_t offset) {
    return move(file, (uint64_t)(uintptr_t)base, size, at, offset, 1);
}
Status cuFileGetStatsL3(void *stats) {
    ENTER("cuFileGetStatsL3");
    if (!started) GIVE(INVALID_VALUE);
    Stats *old = stats;
    StatsOf1190 *new = stats;
    StatsOfLater *later = stats;
    memset(stats, 0, version() < 1190 ? sizeof *old : version() <= 1200 ? sizeof *new : sizeof *later);
    if (version() < 1190) fill_stats(&old->num_gpus, old->gpus, reads, writes);
    else if (version() <= 1200) fill_stats(&new->num_gpus, new->gpus, reads, writes);
    else fill_stats(&later->num_gpus, later->gpus, reads, writes);
    GIVE(0);
}
