/* prepare_helper.h - prepares rows with the CPU build of the GPU kernels and compares them with
 * rows of the CPU's chain. */
#ifndef PST_TEST_PREPARE_HELPER_H
#define PST_TEST_PREPARE_HELPER_H

#include "base/test_input.h"

#include "gpu/work/gpu_prepare.h"

#define PREPARE_ROWS_MAX 3

struct prepare_row {
    uint32_t height, width; /* size of the source image */
    uint16_t *samples;      /* samples of the region */
    struct psti_draw draw;
    unsigned char *expected;
    size_t nbytes;
    struct guarded slot;
    struct psti_gpu_prepare prepare;
    bool is_picture;
    unsigned char *tables, *scratch, *picture;
};

struct prepare_batch {
    struct psti_chain *chain;
    struct psti_chain_output output;
    struct psti_gpu_finish finish;
    uint32_t n_rows;
    struct prepare_row rows[PREPARE_ROWS_MAX];
    bool may_refuse; /* a chain that needs the CPU counts as unsuitable for every image */
    /* Stores the region as a decoder would: through a sink (the kernel's output code), or as a
     * picture. NULL: always as a picture. */
    void (*put_region)(const struct prepare_batch *batch, struct prepare_row *row);
    /* counts over all batches */
    uint32_t n_launches[PSTI_GPU_N_PASS_KERNELS], n_kinds[PSTI_GPU_N_PASS_KINDS], n_direct;
};

/* Compiles the chain, prepares the batch's rows, whose sizes are set, in both ways, and asserts
 * that they are the same. Returns false if the chain is refused or suits none of the images. */
bool prepare_run_chain(struct test_random *random, struct prepare_batch *batch,
                       const struct pst_op *ops, size_t n_ops);

#endif
