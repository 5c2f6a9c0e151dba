/* fake_driver.h - what a test may ask and tell the driver that stands for a card (fake_driver.c).
 *
 * The library that it makes has the entry points of the CUDA driver. Device memory is memory of
 * the host, a stream is a thread with a queue, a launch calls the CPU build of a kernel; the image
 * of a module is a struct fake_image. PENSTOCK_CUDA_DRIVER names it to Penstock; a program may link
 * with it as well and call what is here (Python: by ctypes).
 *
 * Environment, read by cuInit: PENSTOCK_FAKE_DEVICES (2), PENSTOCK_FAKE_MEMORY (bytes per card,
 * 1 GiB), PENSTOCK_FAKE_DELAY (microseconds before each operation of a stream, 0).
 *
 * Wrong use is said on stderr and breaks the card, as an illegal address breaks a real one: all
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
    uint32_t n_kernels; /* 0: `find` knows them */
    const struct fake_kernel *kernels;
    fake_kernel_fn (*find)(const char *name); /* NULL: there is none of that name */
};

enum fake_what { FAKE_ALLOC, FAKE_HOST_ALLOC, FAKE_LAUNCH, FAKE_COPY, FAKE_SYNC, FAKE_KINDS };

/* Calls since fake_reset_counts, and what is there now. */
struct fake_counts {
    uint64_t n_calls;          /* of anything */
    uint64_t n[FAKE_KINDS];    /* copies: uploads, downloads, copies, clears */
    uint64_t n_made, n_freed;  /* streams and events made; memory, streams and events given back */
    uint64_t live_nbytes;      /* on all cards */
    uint64_t live_host_nbytes; /* pinned */
    uint64_t n_uploaded;       /* uploads that streams have done */
    uint64_t n_live;           /* blocks of memory, streams, events, modules, contexts retained */
};
void fake_counts(struct fake_counts *counts);
void fake_reset_counts(void);
/* Call number n (1 = the next) of that kind returns `result`; 0 disarms. */
void fake_fail(enum fake_what what, uint64_t n, unsigned result);
/* Breaks a card: every call in its context returns `result` until fake_repair. */
void fake_break(uint32_t ordinal, unsigned result);
void fake_repair(uint32_t ordinal);
/* Microseconds before each operation of every stream. */
void fake_set_delay(uint32_t us);
/* Streams stop before a launch, for as long as it is so. */
void fake_hold_launches(bool hold);
/* Contexts on this thread's stack. */
uint32_t fake_context_depth(void);
/* Priority that a stream was made with. */
int fake_stream_priority(void *stream);

#endif
