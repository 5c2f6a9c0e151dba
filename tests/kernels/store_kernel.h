/* store_kernel.h - a kernel for the test of sink_row and sink_quads: it stores the pixels of a
 * picture in memory. Plain C and CUDA. */
#ifndef PST_TEST_STORE_KERNEL_H
#define PST_TEST_STORE_KERNEL_H

#include "gpu/work/gpu_store.h"

struct test_store_args {
    uint64_t pixels; /* u16 (sink.height, sink.width, sink.channels) */
    uint64_t asked;  /* u32 [2]: samples requested outside of the runs; warps that had quads */
    uint32_t run_px; /* pixels per call of sink_row or sink_quads */
    uint32_t quads;  /* 1: rectangles by sink_quads, if that takes them */
    struct psti_gpu_sink sink;
    struct psti_gpu_finish finish;
};

#endif
