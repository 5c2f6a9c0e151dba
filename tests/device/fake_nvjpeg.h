/* fake_nvjpeg.h - what a test may ask and tell the nvJPEG that stands for NVIDIA's (fake_nvjpeg.c).
 *
 * It decodes with libjpeg-turbo as the CPU's decoder does, so pixels are the CPU's to the bit, and
 * brings them onto the card of the fake driver by that driver's own functions: copies, and for
 * batches launches that read the files when the stream comes to them. PENSTOCK_NVJPEG names it to
 * Penstock. Without the flag for interpolated chroma it repeats chroma.
 *
 * Environment, read when a handle is made: PENSTOCK_FAKE_NVJPEG_VERSION (major, 13),
 * PENSTOCK_FAKE_NVJPEG_ENGINES (0), PENSTOCK_FAKE_NVJPEG_PLAIN (1: the flag for interpolation is
 * refused). */
#ifndef FAKE_NVJPEG_H
#define FAKE_NVJPEG_H

#include "device/device_nvjpeg_api.h" /* results */

#include <stdint.h>

enum fake_nvjpeg_what {
    FAKE_NVJPEG_CREATE, /* of anything */
    FAKE_NVJPEG_HOST,
    FAKE_NVJPEG_TRANSFER,
    FAKE_NVJPEG_DEVICE,
    FAKE_NVJPEG_BATCH,
    FAKE_NVJPEG_KINDS
};

/* Calls since fake_nvjpeg_reset, and things that exist. */
struct fake_nvjpeg_counts {
    uint64_t n[FAKE_NVJPEG_KINDS];
    uint64_t n_batch_files; /* in batches */
    uint64_t n_live;
};
void fake_nvjpeg_counts(struct fake_nvjpeg_counts *counts);
void fake_nvjpeg_reset(void);
/* Call number n (1 = the next) of that kind returns `result`; 0 disarms. */
void fake_nvjpeg_fail(enum fake_nvjpeg_what what, uint64_t n, unsigned result);

#endif
