/* device_nvjpeg.h - a second door of the gate: JPEG files -> pixels on a card, by NVIDIA's nvJPEG,
 * which is opened at run time and never needed to build, to link or to import.
 *
 * Its pixels are not those of libjpeg-turbo: its inverse DCT and its colours round otherwise, by
 * few levels. They are the same each time, for one version of nvJPEG, one card and one way:
 *
 *     lane     one file at a time: Huffman codes on the thread that calls, which therefore learns
 *              of files that are corrupt; the rest in a stream
 *     batch    many files at a time by the JPEG engines of the card, where it has some, all in a
 *              stream: what is corrupt may come out as wrong pixels, so these are for bytes that a
 *              checksum has vouched for
 *
 * Memory that nvJPEG takes comes out of the device's budgets, and pinned memory out of one of the
 * caller's as well. It grows to what the largest files need and is kept.
 *
 * Threads: a lane, and a batch, belong to one thread at a time; everything else any thread may
 * call.
 *
 * Errors: PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_UNSUPPORTED nvJPEG does not take the
 * file (which says nothing of other decoders); PST_ERROR_LIMIT, PST_ERROR_MEMORY no memory for it;
 * PST_ERROR_DEVICE, PST_ERROR_FORKED as in device.h. */
#ifndef PST_DEVICE_NVJPEG_H
#define PST_DEVICE_NVJPEG_H

#include "device/device.h"

/* The library that would be used: the newest one that a driver of this version (psti_device_info;
 * 0: any) can do with. PENSTOCK_NVJPEG names it; otherwise it is looked for where the system looks,
 * and where pip puts it beside this library. PST_ERROR_UNSUPPORTED: there is none, and what was
 * looked for. Starts no context. */
struct psti_nvjpeg_library {
    char path[256];
    uint32_t major, minor, patch;
};
enum pst_status psti_device_nvjpeg_look(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library, struct pst_error *err);

/* Whether a file is of the kind that is given to nvJPEG here, which depends on its bytes alone: 8
 * bits, gray or YCbCr, Huffman codes, the usual subsamplings of chroma, an end. */
struct psti_nvjpeg_file {
    uint32_t height, width; /* as stored */
    uint8_t channels;       /* of the pixels that come out: 1 or 3 */
};
/* False: it is not, and why (static). */
bool psti_device_nvjpeg_takes(const void *bytes, size_t nbytes, struct psti_nvjpeg_file *file,
                              const char **why);

struct psti_nvjpeg;
struct psti_nvjpeg_options {
    /* Whether so many bytes of pinned memory may be taken, besides the device's budget, and that
     * they were given back; any thread. NULL: they may. */
    bool (*claim)(void *ctx, uint64_t nbytes);
    void (*give_back)(void *ctx, uint64_t nbytes);
    void *ctx;
    bool no_engines; /* as if the card had none */
};
enum pst_status psti_device_nvjpeg_open(struct psti_device *device,
                                        const struct psti_nvjpeg_options *options,
                                        struct psti_nvjpeg **out, struct pst_error *err);
/* All lanes and batches of it must be closed. NULL-safe. */
void psti_device_nvjpeg_close(struct psti_nvjpeg **nvjpeg);
struct psti_device_nvjpeg_info {
    struct psti_nvjpeg_library library;
    uint32_t n_engines;
    bool interpolates;           /* chroma, as libjpeg-turbo does by default; false: repeats it */
    uint64_t n_allocations;      /* that nvJPEG has made: stands still in the steady state */
    uint64_t memory_nbytes;      /* that it has now, on the card */
    uint64_t host_memory_nbytes; /* and pinned */
};
void psti_device_nvjpeg_info(struct psti_nvjpeg *nvjpeg, struct psti_device_nvjpeg_info *info);

struct psti_nvjpeg_lane;
enum pst_status psti_device_nvjpeg_lane_open(struct psti_nvjpeg *nvjpeg,
                                             struct psti_nvjpeg_lane **out, struct pst_error *err);
void psti_device_nvjpeg_lane_close(struct psti_nvjpeg_lane **lane); /* waits; NULL-safe */
/* The host's part (waits for the file before, if that is still in a stream). `file`: as
 * psti_device_nvjpeg_takes says; one that nvJPEG takes for another size is not decoded. The bytes
 * are needed until psti_device_nvjpeg_lane_submit returns. */
enum pst_status psti_device_nvjpeg_lane_begin(struct psti_nvjpeg_lane *lane, const void *bytes,
                                              size_t nbytes, const struct psti_nvjpeg_file *file,
                                              struct pst_error *err);
/* The card's part, for `stream`: pixels as stored, interleaved, rows `row_nbytes` apart. */
enum pst_status psti_device_nvjpeg_lane_submit(struct psti_nvjpeg_lane *lane,
                                               struct psti_stream *stream, uint64_t to,
                                               size_t row_nbytes, struct pst_error *err);
/* Whether the card's engines take the file; PST_OK also if they do not. */
enum pst_status psti_device_nvjpeg_lane_suits_engines(struct psti_nvjpeg_lane *lane,
                                                      const void *bytes, size_t nbytes,
                                                      const struct psti_nvjpeg_file *file,
                                                      bool *suits, struct pst_error *err);

/* PST_ERROR_UNSUPPORTED: the card has no engines. */
struct psti_nvjpeg_batch;
enum pst_status psti_device_nvjpeg_batch_open(struct psti_nvjpeg *nvjpeg, uint32_t n_files_max,
                                              struct psti_nvjpeg_batch **out,
                                              struct pst_error *err);
/* Its work must be done. NULL-safe. */
void psti_device_nvjpeg_batch_close(struct psti_nvjpeg_batch **batch);
struct psti_nvjpeg_item {
    const void *bytes; /* needed until the stream has passed the work */
    size_t nbytes;
    uint64_t to;
    size_t row_nbytes;
};
/* All of the same number of channels. The work that the batch had before must be done. After a
 * failure any of them may be at fault. */
enum pst_status psti_device_nvjpeg_batch_submit(struct psti_nvjpeg_batch *batch,
                                                struct psti_stream *stream,
                                                const struct psti_nvjpeg_item *items, uint32_t n,
                                                uint8_t channels, struct pst_error *err);

#endif
