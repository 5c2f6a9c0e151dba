/* store_kernel.h - a kernel for the test of sink_row: brings the pixels of a picture in memory.
 * Plain C and CUDA. */
#ifndef PST_TEST_STORE_KERNEL_H
#define PST_TEST_STORE_KERNEL_H

#include "cuda/cuda_store.h"

struct test_store_args {
    uint64_t pixels; /* u16 (sink.height, sink.width, sink.channels) */
    uint64_t asked;  /* u32: counts samples asked for outside of the runs */
    uint32_t run_px; /* per sink_row */
    struct psti_cuda_sink sink;
    struct psti_cuda_finish finish;
};

#endif
