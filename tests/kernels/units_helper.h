/* units_helper.h - decodes PLI of pixels with the CPU build of the GPU kernels, in the steps of the
 * host code: plan, fill, one launch for each list of units. All memory that kernels get ends at
 * guard pages. */
#ifndef PST_TEST_KERNELS_UNITS_HELPER_H
#define PST_TEST_KERNELS_UNITS_HELPER_H

#include "base/test_input.h"

#include "gpu/work/gpu_units.h"

struct units_case {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region;
    /* Out: */
    enum pst_status status; /* status of the host's plan */
    struct pst_error err;
    uint32_t code; /* the image's status as the kernels left it */
    struct psti_gpu_units_plan plan;
    struct guarded pixels; /* pixels of the region, (height, width, channels) */
};

/* Decodes the cases in common launches. All must have the same number of channels and bits. */
void units_decode(struct units_case *cases, uint32_t n);
void units_free(struct units_case *cases, uint32_t n);

/* Decodes the cases and compares each with the CPU's decoder (kernels_check.h). Returns how many
 * images are not corrupt. */
uint32_t units_check(struct units_case *cases, uint32_t n);

#endif
