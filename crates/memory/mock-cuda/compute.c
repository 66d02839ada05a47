/* NVRTC, and modules of its code, for the processor.
 *
 * A source of kernels is compiled by `cc` behind shim.h, with a function for each kernel that runs all threads of a
 * grid: what is tested is the text that a GPU would get. Kernels are found as `KERNEL name(TYPE parameter, ...) {`;
 * their parameters are words of 64 bits. The code that is handed out is the path of the library that came of it.
 *
 * Kernels of users are found as `extern "C" __global__ void name(TYPE parameter, ...) {`, whose first words C does
 * without.
 *
 * Threads run one after the other. Where the source has `__syncthreads`, those of a block run to the next barrier in
 * turn, forwards and backwards by turns, so that a missing barrier shows. Nothing here shows how fast a GPU is, or
 * whether it orders its memory as it is hoped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mock.h"

#define MOST 64
static const char *const marks[] = { "\nKERNEL ", "\nextern \"C\" __global__ void " };
typedef struct { char *source, *log, *code, *error; size_t code_size; bool used, is_machine_code; } Program;
typedef struct { void *library; bool used; } Module;
typedef struct { Runner *runner; Module *module; int words, never, fails; } Function;

int modules_loaded;
static Program programs[MOST];
static Module modules[MOST];
static Function functions[MOST * 16];
static int compiled, found_functions;

int nvrtcVersion(int *major, int *minor) { *major = 12, *minor = 8; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = number("no_arch", 0) ? 1 : 3; return 0; }
int nvrtcGetSupportedArchs(int *all) {
    all[0] = 75;
    if (!number("no_arch", 0)) all[1] = 80, all[2] = 90;
    return 0;
}

static Program *known(const char *call, void *handle) {
    Program *program = handle;
    if (program && program->used) return program;
    wrong(call, "of no program");
    return 0;
}

int nvrtcCreateProgram(void **handle, const char *source, const char *name, int headers, const char *const *texts,
                       const char *const *names) {
    ENTER("nvrtcCreateProgram");
    if (!source || !name || headers || texts || names) LEAVE(wrong("nvrtcCreateProgram", "arguments") ? 3 : 3);
    for (int i = 0; i < MOST; i++)
        if (!programs[i].used) {
            Program program = { strdup(source), strdup(""), 0, 0, 0, true, false };
            programs[i] = program;
            *handle = &programs[i];
            LEAVE(0);
        }
    LEAVE(1);
}
int nvrtcDestroyProgram(void **handle) {
    ENTER("nvrtcDestroyProgram");
    Program *program = known("nvrtcDestroyProgram", *handle);
    if (!program) LEAVE(4);
    free(program->source), free(program->log), free(program->code);
    memset(program, 0, sizeof *program);
    *handle = 0;
    LEAVE(0);
}

/* `run_NAME`, and how many parameters it has, behind the source. */
static void add_runners_of(FILE *out, const char *source, const char *mark) {
    bool waits = strstr(source, "__syncthreads");
    for (const char *at = strstr(source, mark); at; at = strstr(at + 1, mark)) {
        const char *name = at + strlen(mark), *open = strchr(name, '('), *close = strchr(name, ')');
        /* A declaration has no body. */
        if (!open || !close || close[1 + strspn(close + 1, " \n")] != '{') continue;
        int count = 0, length = (int)(open - name);
        fprintf(out, "\nstatic void **words_now_%.*s;\nstatic void once_%.*s(void) {\n    void **p = words_now_%.*s;\n",
                length, name, length, name, length, name);
        for (const char *one = open + 1; one < close; count++) {
            const char *end = one + strcspn(one, ",)"), *last = end;
            while (last[-1] != ' ' && last[-1] != '*') last--;
            fprintf(out, "    %.*s a%d = *(%.*s *)p[%d];\n", (int)(last - one), one, count, (int)(last - one), one,
                    count);
            one = end + 1;
        }
        fprintf(out, "    %.*s(", length, name);
        for (int i = 0; i < count; i++) fprintf(out, "%sa%d", i ? ", " : "", i);
        fprintf(out, ");\n}\nvoid run_%.*s(void **p, unsigned x, unsigned y, unsigned z, unsigned threads) {\n"
                "    words_now_%.*s = p;\n    run_grid(once_%.*s, %d, x, y, z, threads);\n}\nint words_%.*s = %d;\n",
                length, name, length, name, length, name, waits, length, name, count);
    }
}
static void add_runners(FILE *out, const char *source) {
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) add_runners_of(out, source, marks[i]);
}
/* C has no `extern "C"`. */
static void put_as_c(FILE *out, const char *source) {
    static const char word[] = "extern \"C\"";
    for (const char *at; (at = strstr(source, word)); source = at + strlen(word))
        fprintf(out, "%.*s          ", (int)(at - source), source);
    fputs(source, out);
}

static char *all_of(const char *path, size_t *size) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    size_t length = file ? fread(text, 1, (1 << 20) - 1, file) : 0;
    if (file) fclose(file);
    if (size) *size = length;
    return text;
}

int nvrtcCompileProgram(void *handle, int count, const char *const *options) {
    ENTER("nvrtcCompileProgram");
    Program *program = known("nvrtcCompileProgram", handle);
    if (!program) LEAVE(4);
    bool is_named = false, is_unfused = false;
    for (int i = 0; i < count; i++) {
        if (!strncmp(options[i], "--gpu-architecture=sm_", 22)) is_named = program->is_machine_code = true;
        else if (!strncmp(options[i], "--gpu-architecture=compute_", 27)) is_named = true;
        else if (!strcmp(options[i], "--fmad=false")) is_unfused = true;
        else LEAVE(5);
    }
    if (!is_named) LEAVE(5);
    char stem[4096], path[4200], command[16384];
    snprintf(stem, sizeof stem, "%s-%d-%d", beside("code"), (int)getpid(), ++compiled);
    snprintf(path, sizeof path, "%s.c", stem);
    FILE *out = fopen(path, "w");
    if (!out) LEAVE(11);
    fprintf(out, "#include \"%s\"\n", SHIM);
    put_as_c(out, program->source);
    if (number("bad_kernels", 0)) fputs("\nthis is no kernel;\n", out);
    add_runners(out, program->source);
    fclose(out);
    snprintf(command, sizeof command,
             "cc -std=gnu11 -Wall -Wno-unused -O2 -fno-strict-aliasing -ffp-contract=%s -shared -fPIC -o '%s.so' '%s.c' "
             "-lm >'%s.log' 2>&1",
             is_unfused ? "off" : "fast", stem, stem, stem);
    int failed = system(command);
    snprintf(path, sizeof path, "%s.log", stem);
    free(program->log);
    program->log = all_of(path, 0);
    if (failed) LEAVE(6);
    char code[4200];
    snprintf(code, sizeof code, "MOCK %s.so", stem);
    program->code = strdup(code);
    program->code_size = strlen(code) + 1;
    LEAVE(0);
}
int nvrtcGetProgramLogSize(void *handle, size_t *size) {
    ENTER("nvrtcGetProgramLogSize");
    Program *program = known("nvrtcGetProgramLogSize", handle);
    if (program) *size = strlen(program->log) + 1;
    LEAVE(program ? 0 : 4);
}
int nvrtcGetProgramLog(void *handle, char *log) {
    ENTER("nvrtcGetProgramLog");
    Program *program = known("nvrtcGetProgramLog", handle);
    if (program) memcpy(log, program->log, strlen(program->log) + 1);
    LEAVE(program ? 0 : 4);
}
/* The real one has no machine code where none was asked for. */
static int give(const char *call, void *handle, size_t *size, char *code, bool is_machine_code) {
    ENTER(call);
    Program *program = known(call, handle);
    if (!program || !program->code) LEAVE(wrong(call, "before it was compiled") ? 4 : 4);
    if (is_machine_code && !program->is_machine_code) LEAVE(wrong(call, "of code for no one GPU") ? 4 : 4);
    if (size) *size = program->code_size;
    if (code) memcpy(code, program->code, program->code_size);
    LEAVE(0);
}
int nvrtcGetPTXSize(void *handle, size_t *size) { return give("nvrtcGetPTXSize", handle, size, 0, false); }
int nvrtcGetPTX(void *handle, char *code) { return give("nvrtcGetPTX", handle, 0, code, false); }
int nvrtcGetCUBINSize(void *handle, size_t *size) { return give("nvrtcGetCUBINSize", handle, size, 0, true); }
int nvrtcGetCUBIN(void *handle, char *code) { return give("nvrtcGetCUBIN", handle, 0, code, true); }

int cuModuleLoadData(void **handle, const void *code) {
    ENTER("cuModuleLoadData");
    if (strncmp(code, "MOCK ", 5)) LEAVE(200);
    if (number("late_code", 0)) {
        note("cuModuleLoadData refused");
        LEAVE(222);
    }
    for (int i = 0; i < MOST; i++)
        if (!modules[i].used) {
            modules[i].library = dlopen((const char *)code + 5, RTLD_NOW | RTLD_LOCAL);
            if (!modules[i].library) LEAVE(200);
            modules[i].used = true;
            modules_loaded++;
            *handle = &modules[i];
            LEAVE(0);
        }
    LEAVE(2);
}
int cuModuleUnload(void *handle) {
    ENTER("cuModuleUnload");
    Module *module = handle;
    if (!module->used) LEAVE(wrong("cuModuleUnload", "of no module"));
    module->used = false;
    modules_loaded--;
    /* The library stays: a launch that comes too late is to be told, and not to crash. */
    LEAVE(0);
}
int cuModuleGetFunction(void **handle, void *from, const char *name) {
    ENTER("cuModuleGetFunction");
    Module *module = from;
    if (!module->used) LEAVE(wrong("cuModuleGetFunction", "of no module"));
    char symbol[256];
    snprintf(symbol, sizeof symbol, "run_%s", name);
    Function function = { 0, module, 0, !strcmp(name, "never"), !strcmp(name, "fails") };
    *(void **)&function.runner = dlsym(module->library, symbol);
    snprintf(symbol, sizeof symbol, "words_%s", name);
    int *words = dlsym(module->library, symbol);
    if (!function.runner || !words || found_functions >= MOST * 16) LEAVE(500);
    function.words = *words;
    functions[found_functions] = function;
    *handle = &functions[found_functions++];
    LEAVE(0);
}

/* With the lock held. */
int launch_of(Launch *launch, void *handle, unsigned x, unsigned y, unsigned z, unsigned threads, void **parameters) {
    Function *function = handle;
    if (function < functions || function >= functions + found_functions || !function->module->used) return 0;
    Launch one = { function->runner, x, y, z, threads, function->words, { 0 }, function->never, function->fails };
    for (int i = 0; i < one.words; i++) memcpy(&one.word[i], parameters[i], sizeof one.word[i]);
    *launch = one;
    return 1;
}
void run(Launch *launch) {
    void *parameters[MOST_WORDS];
    for (int i = 0; i < launch->words; i++) parameters[i] = &launch->word[i];
    launch->runner(parameters, launch->x, launch->y, launch->z, launch->threads);
}
