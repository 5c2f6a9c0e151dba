/* jpeg_helper.h - decodes JPEGs kept as PLI by the CPU build of the kernels, as the host would have
 * a card do it: plan, fill, coefficients, pixels. All memory that kernels get ends at guard pages.
 */
#ifndef PST_TEST_KERNELS_JPEG_HELPER_H
#define PST_TEST_KERNELS_JPEG_HELPER_H

#include "base/test_input.h"

#include "gpu/work/gpu_jpeg.h"
#include "gpu/work/gpu_units.h"

struct jpeg_case {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region; /* as stored */
    uint8_t orientation;          /* that the sink undoes; 0: none */
    /* Out: */
    enum pst_status status; /* of the plan */
    struct pst_error err;
    uint32_t code; /* what the kernels made of the image's status */
    struct psti_gpu_jpeg_plan plan;
    struct guarded pixels; /* of the region as shown, (height, width, channels) */
};

/* Cases of one number of channels; launched together. */
void jpeg_decode(struct jpeg_case *cases, uint32_t n);
void jpeg_free(struct jpeg_case *cases, uint32_t n);

/* Decodes the cases and holds each to the CPU's decoder (kernels_check.h); of those that are
 * turned, pixels are the caller's affair. Returns how many are not corrupt. */
uint32_t jpeg_check(struct jpeg_case *cases, uint32_t n);

#endif
