/* units_helper.h - decodes PLI of pixels by the CPU build of the kernels, as the host would use a
 * GPU: plan, fill, one launch per list. All memory that kernels get ends at guard pages. */
#ifndef PST_TEST_KERNELS_UNITS_HELPER_H
#define PST_TEST_KERNELS_UNITS_HELPER_H

#include "base/test_input.h"

#include "gpu/work/gpu_units.h"

struct units_case {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region;
    /* Out: */
    enum pst_status status; /* result of the plan */
    struct pst_error err;
    uint32_t code; /* the image's status as the kernels left it */
    struct psti_gpu_units_plan plan;
    struct guarded pixels; /* pixels of the region, (height, width, channels) */
};

/* Cases of one number of channels and bits; launched together. */
void units_decode(struct units_case *cases, uint32_t n);
void units_free(struct units_case *cases, uint32_t n);

/* Decodes the cases and compares each with the CPU's decoder (kernels_check.h). Returns how many
 * are not corrupt. */
uint32_t units_check(struct units_case *cases, uint32_t n);

#endif
