/* gpu_l3.h - batches of L3 (bench/l3) for bench_gpu, in place of psti_gpu_block. */
#ifndef PST_BENCH_GPU_L3_H
#define PST_BENCH_GPU_L3_H

#include "gpu/gpu.h"

struct gpu_l3;

/* The kernel's name, for psti_device_load_kernels. */
extern const char *const gpu_l3_kernel;

struct gpu_l3_options {
    uint32_t n_files, n_rows; /* row r of a batch is file r % n_files */
    uint32_t n_slots;         /* batches in flight */
    uint32_t height, width, edge;
    bool each; /* a launch for each row, as published; else one for all */
};
struct gpu_l3 *gpu_l3_open(const struct gpu_l3_options *options);
void gpu_l3_close(struct gpu_l3 **batch);
/* Encodes the pixels of a file, u8 (H,W,3) without gaps. All files come before what follows. */
void gpu_l3_file(struct gpu_l3 *batch, uint32_t i, const unsigned char *pixels);
size_t gpu_l3_upload_nbytes(const struct gpu_l3 *batch);
/* Fills `pinned`, which will be copied to `upload` on the GPU. Row r is decoded to rows + r * its
 * bytes. `work` belongs to the batch. Kernel 0 is the one of gpu_l3_kernel. */
void gpu_l3_work(struct gpu_l3 *batch, uint32_t i_slot, void *pinned, uint64_t upload,
                 uint64_t rows, struct psti_gpu_work *work);

#endif
