/* cuda.h - GPUs that loaders can use: their number, their properties, and why there are none.
 *
 * pst_loader_options.placement and .device put batches on a GPU. pst_batch_await explains how the
 * caller's streams get them. The CUDA driver is opened at run time: building, linking and running
 * need no CUDA. The environment variable PENSTOCK_CUDA=0 hides all GPUs. */
#ifndef PENSTOCK_CUDA_H
#define PENSTOCK_CUDA_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Number of GPUs that loaders can use.
 *
 * Returns 0 if there is no driver, no GPU, or no kernel built for the GPUs of this machine.
 * pst_cuda_reason then says which of these it is.
 *
 * Creates no CUDA context, so a process may fork afterwards. Any thread. */
uint32_t pst_cuda_count(void);

/* Writes in one line why pst_cuda_count returns 0. The text is empty if it returns more.
 *
 * buffer: receives the text and a NUL, cut to fit. May be NULL if capacity is 0.
 * capacity: bytes of buffer.
 *
 * Returns the length of the whole text in bytes without its NUL, as snprintf does. Any thread. */
size_t pst_cuda_reason(char *buffer, size_t capacity);

/* Properties of one GPU, as the CUDA driver reports them. */
struct pst_cuda_info {
    uint32_t ordinal;
    char name[64];
    uint32_t capability_major, capability_minor;
    /* Streaming multiprocessors. */
    uint32_t n_processors;
    /* Newest CUDA version that the driver supports: 1000 * major + 10 * minor. */
    uint32_t driver_version;
    uint64_t memory_nbytes;
};

/* Describes one GPU.
 *
 * ordinal: CUDA's number of the GPU, 0 to pst_cuda_count() - 1.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_UNSUPPORTED: there is no such GPU, or it is too old.
 *
 * Creates no CUDA context. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cuda_info(uint32_t ordinal, struct pst_cuda_info *info,
                                              size_t info_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
