// A stand-in for libxrt_coreutil.so.2: writes down each call, checks that handles are used while they
// are valid, and refuses where it was compiled to. Signatures are those of xrt_device.h, xrt_bo.h and xrt_kernel.h.
// Kernels: `invert` inverts its chunk, `never` does not end, `fails` ends in an error, `lost` in no response, and any
// other name is none. They have run when their state is asked for the second time.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *handle;

struct device { int open, buffers, kernels, loaded; };
struct buffer { struct device *device; void *map; size_t size; struct buffer *parent; size_t offset; int parts, busy; };
struct kernel { struct device *device; char name[64]; int runs; };
struct run { struct kernel *kernel; struct buffer *chunk; uint64_t bytes, offset; int set, looks, at_work, number; };

static void note(const char *format, const char *text, unsigned long long a, unsigned long long b,
		 unsigned long long c)
{
	FILE *log = fopen(LOG, "a");

	if (!log)
		abort();
	fprintf(log, format, text, a, b, c);
	fclose(log);
}

handle xrtDeviceOpenByBDF(const char *bdf)
{
	struct device *device;

	note("open %s\n", bdf, 0, 0, 0);
#ifdef NO_DEVICE
	errno = ENODEV;
	return NULL;
#endif
	device = calloc(1, sizeof(*device));
	device->open = 1;
	return device;
}

int xrtDeviceClose(handle opened)
{
	struct device *device = opened;

	note(device->open && !device->buffers && !device->kernels ? "close%s\n" : "MISUSE close%s\n", "", 0, 0, 0);
	device->open = 0;
	return 0;
}

int xrtDeviceLoadXclbinFile(handle opened, const char *file)
{
	(void)opened;
	(void)file;
	note("load%s\n", "", 0, 0, 0);
#ifdef LOAD_FAILS
	return errno = EPERM;
#else
	((struct device *)opened)->loaded = 1;
	return 0;
#endif
}

handle xrtBOAlloc(handle opened, size_t size, uint64_t flags, uint32_t group)
{
	struct device *device = opened;
	struct buffer *buffer;

	note(device->open ? "alloc%s %llu %#llx %llu\n" : "MISUSE alloc%s %llu %#llx %llu\n", "", size, flags,
	     group);
#ifdef ALLOC_FAILS
	errno = ENOMEM;
	return NULL;
#endif
	buffer = calloc(1, sizeof(*buffer));
	buffer->device = device;
	buffer->size = size;
	device->buffers++;
	return buffer;
}

size_t xrtBOSize(handle allocated)
{
	struct buffer *buffer = allocated;

#ifdef SHORT
	return buffer->size / 2;
#else
	return buffer->size;
#endif
}

#ifndef NO_MAP_FUNCTION
void *xrtBOMap(handle allocated)
{
	struct buffer *buffer = allocated;

	note("map%s\n", "", 0, 0, 0);
#ifdef MAP_FAILS
	errno = EINVAL;
	return NULL;
#endif
	buffer->map = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
#ifdef UNALIGNED
	return (char *)buffer->map + 16;
#else
	return buffer->map;
#endif
}
#endif

int xrtBOFree(handle allocated)
{
	struct buffer *buffer = allocated;

	if (buffer->parent) {
		note(buffer->device->open && !buffer->busy ? "free part%s\n" : "MISUSE free part%s\n", "", 0, 0, 0);
		buffer->parent->parts--;
		free(buffer);
		return 0;
	}
	note(buffer->device->open && !buffer->parts ? "free%s\n" : "MISUSE free%s\n", "", 0, 0, 0);
	if (buffer->map)
		munmap(buffer->map, buffer->size);
	buffer->device->buffers--;
	return 0;
}

#ifndef OLD
unsigned int xrtVersionCode(void)
{
	return 2 << 16 | 25;
}
#endif

#ifndef NO_KERNELS
// The image has the number 1, 2, ... 16.
int xrtDeviceGetXclbinUUID(handle opened, unsigned char *id)
{
	struct device *device = opened;

	note(device->open ? "uuid%s\n" : "MISUSE uuid%s\n", "", 0, 0, 0);
	for (int i = 0; i < 16; i++)
		id[i] = device->loaded ? i + 1 : 0;
	return 0;
}

handle xrtPLKernelOpen(handle opened, const unsigned char *id, const char *name)
{
	static const char *const known[] = { "invert", "never", "fails", "lost" };
	struct device *device = opened;
	struct kernel *kernel;
	int is_known = 0;

	note(device->open && id[0] == 1 && id[15] == 16 ? "open kernel %s\n" : "MISUSE open kernel %s\n", name, 0, 0,
	     0);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		is_known |= !strcmp(known[i], name);
	// As XRT does for most failures, without errno.
	if (!is_known)
		return NULL;
	kernel = calloc(1, sizeof(*kernel));
	kernel->device = device;
	strncpy(kernel->name, name, sizeof(kernel->name) - 1);
	device->kernels++;
	return kernel;
}

int xrtKernelClose(handle opened)
{
	struct kernel *kernel = opened;

	note(kernel->device->open && !kernel->runs ? "close kernel%s\n" : "MISUSE close kernel%s\n", "", 0, 0, 0);
	kernel->device->kernels--;
	return 0;
}

#ifndef BANK
#define BANK 2
#endif
int xrtKernelArgGroupId(handle opened, int argument)
{
	(void)opened;
	note("group%s %llu\n", "", argument, 0, 0);
	// XRT 2.25 has the slot of the image above the bank.
	return 1 << 16 | BANK;
}

handle xrtBOSubAlloc(handle allocated, size_t size, size_t offset)
{
	struct buffer *parent = allocated, *part;

	note("part%s %llu %llu\n", "", size, offset, 0);
	if (offset > parent->size || size > parent->size - offset) {
		errno = EINVAL;
		return NULL;
	}
#ifdef PART_FAILS
	errno = ENOMEM;
	return NULL;
#endif
	part = calloc(1, sizeof(*part));
	part->device = parent->device;
	part->parent = parent;
	part->size = size;
	part->offset = offset;
	parent->parts++;
	return part;
}

handle xrtRunOpen(handle opened)
{
	static int runs;
	struct kernel *kernel = opened;
	struct run *run = calloc(1, sizeof(*run));

	run->kernel = kernel;
	run->number = runs++;
	kernel->runs++;
	note("run%s %llu\n", "", run->number, 0, 0);
	return run;
}

int xrtRunClose(handle opened)
{
	struct run *run = opened;

	// XRT ends the process here.
	note(run->at_work ? "MISUSE close run%s %llu\n" : "close run%s %llu\n", "", run->number, 0, 0);
	run->kernel->runs--;
	return 0;
}

int xrtRunSetArg(handle opened, int index, ...)
{
	struct run *run = opened;
	va_list more;

	va_start(more, index);
	if (index == 0)
		run->chunk = va_arg(more, handle);
	else if (index == 1)
		run->bytes = va_arg(more, uint64_t);
	else
		run->offset = va_arg(more, uint64_t);
	va_end(more);
	note(run->at_work ? "MISUSE set%s %llu %llu %llu\n" : "set%s %llu %llu %llu\n", "", run->number, index,
	     index == 0 ? run->chunk->offset : index == 1 ? run->bytes : run->offset);
	run->set |= 1 << index;
	return 0;
}

int xrtRunStart(handle opened)
{
	struct run *run = opened;

	note(run->set == 7 && !run->at_work && run->bytes <= run->chunk->size ? "start%s %llu\n" :
									       "MISUSE start%s %llu\n",
	     "", run->number, 0, 0);
#ifdef START_FAILS
	errno = EBUSY;
	return -1;
#endif
	run->at_work = 1;
	run->looks = 0;
	run->chunk->busy++;
	return 0;
}

unsigned int xrtRunState(handle opened)
{
	struct run *run = opened;
	const char *name = run->kernel->name;
	unsigned char *chunk = (unsigned char *)run->chunk->parent->map + run->chunk->offset;

	note("state%s %llu\n", "", run->number, 0, 0);
	// SUBMITTED and RUNNING.
	if (!strcmp(name, "never") || !run->looks++)
		return run->looks ? 7 : 3;
	if (!strcmp(name, "lost"))
		return 9;
	run->at_work = 0;
	run->chunk->busy--;
	if (!strcmp(name, "fails"))
		return 5;
	for (uint64_t i = 0; i < run->bytes; i++)
		chunk[i] = ~chunk[i];
	return 4;
}
#endif
