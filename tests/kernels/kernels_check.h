/* kernels_check.h - what kernels made of a PLI, held to what the CPU's decoder makes of it. */
#ifndef PST_TEST_KERNELS_CHECK_H
#define PST_TEST_KERNELS_CHECK_H

#include "test.h"

#include <penstock/pli.h>

#include <stdbool.h>

struct cuda_outcome {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region;
    enum pst_status status;      /* of the plan */
    const struct pst_error *err; /* the plan's */
    uint32_t code;               /* of the image, by the kernels */
    const void *pixels;          /* of the region; NULL: not to be looked at */
};

/* Decodes the region in plain C, the judge: status, first corrupt unit and pixels must be the same.
 * Returns whether it is not corrupt. */
bool cuda_check(const struct cuda_outcome *outcome);

#endif
