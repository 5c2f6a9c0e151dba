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

/* Number of cards that loaders can be told to use.
 *
 * Returns 0 where there is no driver, no card, or no kernels for the cards that there are.
 * pst_cuda_reason then says which.
 *
 * Starts no context on any card, so a process may fork afterwards. Any thread. */
uint32_t pst_cuda_count(void);

/* Writes in one line why pst_cuda_count returns 0. The text is empty where it does not.
 *
 * buffer: receives the text and a NUL, cut to fit. May be NULL where capacity is 0.
 * capacity: bytes of buffer.
 *
 * Returns the length of the whole text in bytes without its NUL, as snprintf does. Any thread. */
size_t pst_cuda_reason(char *buffer, size_t capacity);

/* A description of one card. Numbers are those that the driver gives. */
struct pst_cuda_info {
    uint32_t ordinal;
    char name[64];
    uint32_t capability_major, capability_minor;
    /* Streaming multiprocessors. */
    uint32_t n_processors;
    /* 1000 * major + 10 * minor of the newest CUDA that the driver knows. */
    uint32_t driver_version;
    uint64_t memory_nbytes;
};

/* Describes one card.
 *
 * ordinal: CUDA's number of the card, 0 to pst_cuda_count() - 1.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_UNSUPPORTED: there is no such card, or it is too old.
 *
 * Starts no context on the card. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cuda_info(uint32_t ordinal, struct pst_cuda_info *info,
                                              size_t info_nbytes, struct pst_error *err);

/* The nvJPEG that pst_loader_options.jpeg would use on a card. */
struct pst_cuda_nvjpeg_info {
    char path[256]; /* of the library */
    uint32_t major, minor, patch;
    /* JPEG engines of the card; 0: it has none that nvJPEG uses. */
    uint32_t n_engines;
    /* Chroma, as the CPU's decoder does; false (before nvJPEG 12): repeats it, which differs
     * much more. */
    bool interpolates;
};

/* Describes the nvJPEG library that pst_loader_options.jpeg would use on a card.
 *
 * ordinal: CUDA's number of the card, 0 to pst_cuda_count() - 1.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_UNSUPPORTED: there is no such card, or no nvJPEG; the text says what was looked for.
 * PST_ERROR_DEVICE: the driver failed.
 *
 * Starts the card's context to learn of its engines: do not call it in a process that is going to
 * fork. PENSTOCK_NVJPEG in the environment names the library. Any thread. */
PST_WARN_UNUSED enum pst_status pst_cuda_nvjpeg(uint32_t ordinal, struct pst_cuda_nvjpeg_info *info,
                                                size_t info_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
