/* fake_nvjpeg.h - functions with which a test controls the stand-in for nvJPEG (fake_nvjpeg.c).
 *
 * It decodes with libjpeg-turbo as the CPU's decoder does, so pixels are the CPU's to the bit. It
 * moves them to the GPU of the fake driver by that driver's own functions: copies, and for batches
 * launches that read the files when the stream comes to them. PENSTOCK_NVJPEG names it to Penstock.
 * Without the flag for interpolated chroma it repeats chroma.
 *
 * Environment, read when a handle is made: PENSTOCK_FAKE_NVJPEG_VERSION (major, 13),
 * PENSTOCK_FAKE_NVJPEG_ENGINES (0), PENSTOCK_FAKE_NVJPEG_PLAIN (1: the flag for interpolation is
 * refused). */
#ifndef FAKE_NVJPEG_H
#define FAKE_NVJPEG_H

#include "device/device_nvjpeg_api.h" /* for result numbers */

#include <stdint.h>

enum fake_nvjpeg_what {
    FAKE_NVJPEG_CREATE, /* any call that creates */
    FAKE_NVJPEG_HOST,
    FAKE_NVJPEG_TRANSFER,
    FAKE_NVJPEG_DEVICE,
    FAKE_NVJPEG_BATCH,
    FAKE_NVJPEG_KINDS
};

/* Calls since fake_nvjpeg_reset, and objects that exist. */
struct fake_nvjpeg_counts {
    uint64_t n[FAKE_NVJPEG_KINDS];
    uint64_t n_batch_files; /* files in batches */
    uint64_t n_live;
};
void fake_nvjpeg_counts(struct fake_nvjpeg_counts *counts);
void fake_nvjpeg_reset(void);
/* Makes call number n (1 = the next) of that kind return `result`; n = 0 disarms. */
void fake_nvjpeg_fail(enum fake_nvjpeg_what what, uint64_t n, unsigned result);

#endif
