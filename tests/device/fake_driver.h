/* fake_driver.h - functions with which a test controls the driver that stands for a GPU
 * (fake_driver.c).
 *
 * The library has the entry points of the CUDA driver. Device memory is memory of the host, a
 * stream is a thread with a queue, a launch calls the CPU build of a kernel. The image of a module
 * is a struct fake_image. PENSTOCK_CUDA_DRIVER names the library to Penstock. A program may also
 * link with it and call the functions below (Python: by ctypes).
 *
 * Environment: PENSTOCK_FAKE_DEVICES (2), PENSTOCK_FAKE_MEMORY (bytes per GPU, 1 GiB),
 * PENSTOCK_FAKE_PROCESSORS (132), PENSTOCK_FAKE_DELAY (microseconds before each operation of a
 * stream, 0), PENSTOCK_FAKE_BLOCK_NS (0: launches compute. Else they compute nothing, and take so
 * many nanoseconds for each block: a GPU of known speed).
 *
 * Wrong use is reported on stderr and breaks the GPU, as an illegal address breaks a real one: all
 * later calls return the same error. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_IMAGE_MAGIC 0x6b616650u

/* A kernel of the CPU build (warp_host.cuh). */
typedef void (*fake_kernel_fn)(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                               const void *args);
struct fake_kernel {
    const char *name;
    fake_kernel_fn fn;
};
struct fake_image {
    uint32_t magic;
    uint32_t n_kernels; /* 0: `find` looks them up */
    const struct fake_kernel *kernels;
    fake_kernel_fn (*find)(const char *name); /* returns NULL if no kernel has that name */
};

enum fake_what {
    FAKE_ALLOC,
    FAKE_HOST_ALLOC,
    FAKE_LAUNCH,
    FAKE_COPY,
    FAKE_SYNC,
    FAKE_REGISTER,
    FAKE_KINDS
};

/* Calls since fake_reset_counts, and objects that exist now. */
struct fake_counts {
    uint64_t n_calls;          /* calls of any kind */
    uint64_t n[FAKE_KINDS];    /* uploads, downloads, copies and clears */
    uint64_t n_made, n_freed;  /* streams and events made; memory, streams and events freed */
    uint64_t live_nbytes;      /* bytes of device memory in use, on all GPUs */
    uint64_t live_host_nbytes; /* bytes of pinned memory, including registered memory */
    uint64_t n_uploaded;       /* uploads that streams have finished */
    uint64_t n_live;           /* live memory blocks, streams, events, modules, retained contexts */
};
void fake_counts(struct fake_counts *counts);
void fake_reset_counts(void);
/* Makes call number n (1: the next) of that kind return `result`. n = 0 cancels this. */
void fake_fail(enum fake_what what, uint64_t n, unsigned result);
/* Breaks a GPU: every call in its context returns `result` until fake_repair. */
void fake_break(uint32_t ordinal, unsigned result);
void fake_repair(uint32_t ordinal);
/* Sets the delay in microseconds before each operation of every stream. */
void fake_set_delay(uint32_t us);
/* As PENSTOCK_FAKE_BLOCK_NS. */
void fake_set_block_ns(uint32_t ns);
/* While set, streams stop before each launch. */
void fake_hold_launches(bool hold);
/* Returns the number of contexts on this thread's stack. */
uint32_t fake_context_depth(void);
/* Returns the priority with which a stream was made. */
int fake_stream_priority(void *stream);

#endif
