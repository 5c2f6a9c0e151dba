/* gpu_l3.h - batches of L3 (bench/l3) for bench_gpu. They replace psti_gpu_block for sets of L3. */
#ifndef PST_BENCH_GPU_L3_H
#define PST_BENCH_GPU_L3_H

#include "gpu/gpu.h"

struct gpu_l3;

/* Name of the kernel, for psti_device_load_kernels. */
extern const char *const gpu_l3_kernel;

struct gpu_l3_options {
    uint32_t n_files, n_rows; /* row r of a batch is file r % n_files */
    uint32_t n_slots;         /* number of batches in flight */
    uint32_t height, width, edge;
    bool each; /* each row has a launch, as in the published code; else one launch */
};
struct gpu_l3 *gpu_l3_open(const struct gpu_l3_options *options);
void gpu_l3_close(struct gpu_l3 **batch);
/* Encodes the pixels of file i, u8 (H,W,3) without gaps. It must be called for all files before
 * gpu_l3_upload_nbytes and gpu_l3_work. */
void gpu_l3_file(struct gpu_l3 *batch, uint32_t i, const unsigned char *pixels);
size_t gpu_l3_upload_nbytes(const struct gpu_l3 *batch);
/* Fills `pinned`, which the caller copies to `upload` on the GPU. Row r is decoded to `rows` plus r
 * times the bytes of a row. `batch` owns the launches in `work`. They name gpu_l3_kernel as kernel
 * 0. */
void gpu_l3_work(struct gpu_l3 *batch, uint32_t i_slot, void *pinned, uint64_t upload,
                 uint64_t rows, struct psti_gpu_work *work);

#endif
