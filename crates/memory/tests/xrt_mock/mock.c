// A stand-in for libxrt_coreutil.so.2: writes down each call, checks that handles are used while they
// are valid, and refuses where it was compiled to. Signatures are those of xrt_device.h and xrt_bo.h.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef void *handle;

struct device { int open, buffers; };
struct buffer { struct device *device; void *map; size_t size; };

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

	note(device->open && !device->buffers ? "close%s\n" : "MISUSE close%s\n", "", 0, 0, 0);
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

	note(buffer->device->open ? "free%s\n" : "MISUSE free%s\n", "", 0, 0, 0);
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
