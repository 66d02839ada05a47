/* What the two halves of the mock share. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_WORDS 16

typedef void Runner(void **, unsigned, unsigned, unsigned, unsigned);
/* A launch with a copy of its parameters, which are words of 64 bits. */
typedef struct {
    Runner *runner;
    unsigned x, y, z, threads;
    int words;
    uint64_t word[MOST_WORDS];
    /* Does not end, or ends in an error of the context. */
    int never, fails;
} Launch;

extern pthread_mutex_t lock;
extern int modules_loaded;

const char *beside(const char *end);
void note(const char *format, ...);
long number(const char *key, long otherwise);
int wrong(const char *call, const char *why);

int launch_of(Launch *launch, void *function, unsigned x, unsigned y, unsigned z, unsigned threads, void **parameters);
void run(Launch *launch);

#define ENTER(name) pthread_mutex_lock(&lock); note("%s", name)
#define LEAVE(code) do { int code_ = (code); pthread_mutex_unlock(&lock); return code_; } while (0)
