/* device_nvjpeg.h - a second door of the room: NVIDIA's nvJPEG turns JPEG files into pixels on a
 * GPU. nvJPEG is opened at run time; it is never needed to build, to link or to import.
 *
 * Its pixels differ from libjpeg-turbo's by few levels, because its inverse DCT and its colours
 * round otherwise. They are the same each time, for one version of nvJPEG, one GPU and one of these
 * ways:
 *
 *     lane     one file at a time. The calling thread decodes Huffman codes and therefore finds
 *              corrupt files. The rest runs in a stream.
 *     batch    many files at a time by the JPEG engines of the GPU, if it has some, all in a
 *              stream. A corrupt file may come out as wrong pixels, so a checksum must have proven
 *              the bytes before.
 *
 * nvJPEG's memory is counted in the device's budgets; its pinned memory also in one of the
 * caller's. It grows to the needs of the largest files and is kept.
 *
 * Threads: a lane, and a batch, belong to one thread at a time. Any thread may call the other
 * functions.
 *
 * Errors: PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_UNSUPPORTED nvJPEG rejects the file
 * (other decoders may accept it); PST_ERROR_LIMIT, PST_ERROR_MEMORY no memory for it;
 * PST_ERROR_DEVICE, PST_ERROR_FORKED as in device.h. */
#ifndef PST_DEVICE_NVJPEG_H
#define PST_DEVICE_NVJPEG_H

#include "device/device.h"

/* Finds the library that would be used: the newest one that works with a driver of this version
 * (psti_device_info; 0: any). PENSTOCK_NVJPEG names it. Otherwise the search goes where the system
 * looks, and where pip puts it beside this library. PST_ERROR_UNSUPPORTED: there is none; the text
 * says what was tried. Makes no context. */
struct psti_nvjpeg_library {
    char path[256];
    uint32_t major, minor, patch;
};
enum pst_status psti_device_nvjpeg_look(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library, struct pst_error *err);

/* A file that nvJPEG may decode here. That depends on its bytes alone: 8 bits, gray or YCbCr,
 * Huffman codes, a usual subsampling of chroma, an end. */
struct psti_nvjpeg_file {
    uint32_t height, width; /* size of the stored image */
    uint8_t channels;       /* channels of the decoded pixels: 1 or 3 */
};
/* False: the file is of another kind, and `why` (static) says which. */
bool psti_device_nvjpeg_takes(const void *bytes, size_t nbytes, struct psti_nvjpeg_file *file,
                              const char **why);

struct psti_nvjpeg;
struct psti_nvjpeg_options {
    /* claim: may so many bytes of pinned memory be taken, besides the device's budget? The other
     * function reports that they were freed. Any thread. NULL: always. */
    bool (*claim)(void *ctx, uint64_t nbytes);
    void (*give_back)(void *ctx, uint64_t nbytes);
    void *ctx;
    bool no_engines; /* treats the GPU as if it had no engines */
};
enum pst_status psti_device_nvjpeg_open(struct psti_device *device,
                                        const struct psti_nvjpeg_options *options,
                                        struct psti_nvjpeg **out, struct pst_error *err);
/* All its lanes and batches must be closed. NULL-safe. */
void psti_device_nvjpeg_close(struct psti_nvjpeg **nvjpeg);
struct psti_device_nvjpeg_info {
    struct psti_nvjpeg_library library;
    uint32_t n_engines;
    /* Interpolates chroma, as libjpeg-turbo does by default; false: repeats it. */
    bool interpolates;
    uint64_t n_allocations;      /* allocations by nvJPEG so far; constant in the steady state */
    uint64_t memory_nbytes;      /* nvJPEG's memory on the GPU */
    uint64_t host_memory_nbytes; /* nvJPEG's pinned memory */
};
void psti_device_nvjpeg_info(struct psti_nvjpeg *nvjpeg, struct psti_device_nvjpeg_info *info);

struct psti_nvjpeg_lane;
enum pst_status psti_device_nvjpeg_lane_open(struct psti_nvjpeg *nvjpeg,
                                             struct psti_nvjpeg_lane **out, struct pst_error *err);
void psti_device_nvjpeg_lane_close(struct psti_nvjpeg_lane **lane); /* waits; NULL-safe */
/* Does the host's part. Waits for the file before, if that is still in a stream. `file` comes from
 * psti_device_nvjpeg_takes; a file for which nvJPEG finds another size is not decoded. The bytes
 * are needed until psti_device_nvjpeg_lane_submit returns. */
enum pst_status psti_device_nvjpeg_lane_begin(struct psti_nvjpeg_lane *lane, const void *bytes,
                                              size_t nbytes, const struct psti_nvjpeg_file *file,
                                              struct pst_error *err);
/* Adds the GPU's part to `stream`. Pixels are as stored, interleaved, rows `row_nbytes` apart. */
enum pst_status psti_device_nvjpeg_lane_submit(struct psti_nvjpeg_lane *lane,
                                               struct psti_stream *stream, uint64_t to,
                                               size_t row_nbytes, struct pst_error *err);
/* Finds out if the GPU's engines take the file. Returns PST_OK also if they do not. */
enum pst_status psti_device_nvjpeg_lane_suits_engines(struct psti_nvjpeg_lane *lane,
                                                      const void *bytes, size_t nbytes,
                                                      const struct psti_nvjpeg_file *file,
                                                      bool *suits, struct pst_error *err);

/* PST_ERROR_UNSUPPORTED: the GPU has no engines. */
struct psti_nvjpeg_batch;
enum pst_status psti_device_nvjpeg_batch_open(struct psti_nvjpeg *nvjpeg, uint32_t n_files_max,
                                              struct psti_nvjpeg_batch **out,
                                              struct pst_error *err);
/* The batch's work must be done. NULL-safe. */
void psti_device_nvjpeg_batch_close(struct psti_nvjpeg_batch **batch);
struct psti_nvjpeg_item {
    const void *bytes; /* needed until the stream has passed the work */
    size_t nbytes;
    uint64_t to;
    size_t row_nbytes;
};
/* All files have the same number of channels. Earlier work of the batch must be done. After a
 * failure any of the files may be at fault. */
enum pst_status psti_device_nvjpeg_batch_submit(struct psti_nvjpeg_batch *batch,
                                                struct psti_stream *stream,
                                                const struct psti_nvjpeg_item *items, uint32_t n,
                                                uint8_t channels, struct pst_error *err);

#endif
