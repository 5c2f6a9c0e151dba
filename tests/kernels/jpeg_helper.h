/* jpeg_helper.h - decodes JPEGs kept as PLI with the CPU build of the GPU kernels, in the steps
 * of the host code: plan, fill, coefficients, pixels. All memory that kernels get ends at guard
 * pages. */
#ifndef PST_TEST_KERNELS_JPEG_HELPER_H
#define PST_TEST_KERNELS_JPEG_HELPER_H

#include "base/test_input.h"

#include "gpu/work/gpu_jpeg.h"
#include "gpu/work/gpu_units.h"

struct jpeg_case {
    const void *bytes;
    size_t nbytes;
    struct pst_pli_region region; /* region of the stored image */
    uint8_t orientation;          /* orientation that the kernel's output undoes; 0: none */
    /* Out: */
    enum pst_status status; /* status of the host's plan */
    struct pst_error err;
    uint32_t code; /* the image's status as the kernels left it */
    struct psti_gpu_jpeg_plan plan;
    struct guarded pixels; /* pixels of the shown region, (height, width, channels) */
};

/* Decodes the cases in common launches. All must have the same number of channels. */
void jpeg_decode(struct jpeg_case *cases, uint32_t n);
void jpeg_free(struct jpeg_case *cases, uint32_t n);

/* Decodes the cases and compares each with the CPU's decoder (kernels_check.h). For rotated images
 * the caller compares the pixels. Returns how many images are not corrupt. */
uint32_t jpeg_check(struct jpeg_case *cases, uint32_t n);

#endif
