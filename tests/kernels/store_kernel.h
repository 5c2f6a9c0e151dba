/* store_kernel.h - a kernel for the test of sink_row and sink_quads: it passes the pixels of a
 * picture in memory to them. Plain C and CUDA. */
#ifndef PST_TEST_STORE_KERNEL_H
#define PST_TEST_STORE_KERNEL_H

#include "gpu/work/gpu_store.h"

struct test_store_args {
    uint64_t pixels; /* address of the picture: u16 (sink.height, sink.width, sink.channels) */
    uint64_t asked;  /* address of u32 [2]: samples requested outside of runs; warps with quads */
    uint32_t run_px; /* pixels per call of sink_row or sink_quads */
    uint32_t quads;  /* 1: rectangles by sink_quads, if that function takes them */
    struct psti_gpu_sink sink;
    struct psti_gpu_finish finish;
};

#endif
