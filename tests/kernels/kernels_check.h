/* kernels_check.h - compares the result of the GPU kernels for a PLI with the CPU decoder's. */
#ifndef PST_TEST_KERNELS_CHECK_H
#define PST_TEST_KERNELS_CHECK_H

#include "test.h"

#include <penstock/pli.h>

#include <stdbool.h>

struct cuda_outcome {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region;
    enum pst_status status;      /* status of the host's plan */
    const struct pst_error *err; /* error of the host's plan */
    uint32_t code;               /* the image's status as the kernels left it */
    const void *pixels;          /* pixels of the region; NULL: not compared */
};

/* Decodes the region in plain C, the reference implementation, and asserts that status, first
 * corrupt unit and pixels are the same. Returns true if the image is not corrupt. */
bool cuda_check(const struct cuda_outcome *outcome);

#endif
