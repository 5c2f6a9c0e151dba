/* cuda.h - cards: whether there are any, which, and why not.
 *
 * Batches come onto a card by pst_loader_options.device; how the hand-over to the caller's streams
 * works is told at pst_batch_await. The CUDA driver is opened at run time: nothing here needs CUDA
 * to build, to link or to run. Environment: PENSTOCK_CUDA=0 hides all cards. */
#ifndef PENSTOCK_CUDA_H
#define PENSTOCK_CUDA_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Cards that loaders can be told to use: 0 if there is no driver, no card, or no kernels for it.
 * Starts no context. Thread-safe. */
uint32_t pst_cuda_count(void);

/* Why that is 0, in one line; "" if it is not. Returns the length, as snprintf does. Thread-safe.
 */
size_t pst_cuda_reason(char *buffer, size_t capacity);

/* What a card is. */
struct pst_cuda_info {
    uint32_t ordinal;
    char name[64];
    uint32_t capability_major, capability_minor;
    uint32_t n_processors; /* streaming multiprocessors */
    uint32_t
        driver_version; /* 1000 * major + 10 * minor of the newest CUDA that the driver knows */
    uint64_t memory_nbytes;
};
/* Fills `info` for card `ordinal`. Starts no context.
 * PST_ERROR_UNSUPPORTED: there is no such card, or it is too old. Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_cuda_info(uint32_t ordinal, struct pst_cuda_info *info,
                                              size_t info_nbytes, struct pst_error *err);

/* The nvJPEG that pst_loader_options.jpeg would use on a card. */
struct pst_cuda_nvjpeg_info {
    char path[256]; /* of the library */
    uint32_t major, minor, patch;
    uint32_t n_engines; /* JPEG engines of the card; 0: it has none that nvJPEG uses */
    bool interpolates;  /* chroma, as the CPU's decoder does; false (before nvJPEG 12): repeats it,
                           which differs much more */
};
/* Fills `info`. To learn of engines it starts the card's context: not for
 * processes that are going to fork. PST_ERROR_UNSUPPORTED: there is no such card, or no nvJPEG, and
 * what was looked for. Environment: PENSTOCK_NVJPEG names the library. Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_cuda_nvjpeg(uint32_t ordinal, struct pst_cuda_nvjpeg_info *info,
                                                size_t info_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
