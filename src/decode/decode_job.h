/* decode_job.h - a decoder, and one decode under way. */
#ifndef PST_DECODE_DECODE_JOB_H
#define PST_DECODE_DECODE_JOB_H

#include "base/fail.h"
#include "decode/decode.h"
#include "decode/decode_arena.h"

#define PSTI_ROOM "decode"
#define PSTI_SIDE_MAX 65535

struct psti_jpeg;
struct libdeflate_decompressor;

struct psti_decoder {
    struct psti_decode_arena arena;           /* scratch; reset at the start of every image */
    struct psti_jpeg *jpeg;                   /* made at the first JPEG */
    struct libdeflate_decompressor *inflater; /* made at the first PNG */
    uint64_t scratch_wanted;                  /* as in psti_decode_stats */
    uint64_t n_png_whole;                     /* PNGs that did not need libpng */
    bool libpng_only; /* true in tests that compare the two ways to decode a PNG */
    uint64_t nbytes_out, n_region_fallback, n_units, n_units_whole, n_libpng;
};

/* The parameters of one call of psti_decode_rows_scaled. `options` has all members, whatever
 * version of the struct the caller has. */
struct psti_decode_job {
    struct psti_decoder *decoder;
    const uint8_t *bytes;
    size_t nbytes;
    const struct pst_image_info *info;
    const struct psti_pli_header *pli; /* header of a PLI that the caller has parsed; else NULL */
    const struct pst_decode_options *options;
    uint8_t orientation;     /* orientation to apply: 1..8 */
    uint32_t scale_log2;     /* regions are of the picture at 1 / 2^scale_log2 of its size */
    uint32_t height, width;  /* size of the picture as stored, before the orientation */
    struct psti_rect shown;  /* the region wanted, as shown */
    struct psti_rect stored; /* the same region, as stored */
    psti_row_sink sink;
    void *ctx;
    struct pst_error *err;
};

/* Returns memory of the decoder's arena. If it returns NULL, the job's err is filled and *status
 * set. */
void *psti_decode_alloc(struct psti_decode_job *job, size_t nbytes, enum pst_status *status);
/* Fills `err` for this room, names the codec and returns `status`. `offset` is -1 if it is unknown.
 */
enum pst_status psti_decode_fail(struct pst_error *err, enum pst_status status, const char *codec,
                                 int64_t offset, const char *format, ...) PST_PRINTF(5, 6);

#endif
