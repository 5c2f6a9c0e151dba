/* decode_job.h - a decoder, and the job struct of one decode. */
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
    struct psti_decode_arena arena;           /* scratch; emptied at the start of every image */
    struct psti_jpeg *jpeg;                   /* made at the first JPEG */
    struct libdeflate_decompressor *inflater; /* made at the first PNG */
    uint64_t scratch_wanted;                  /* see psti_decode_stats.scratch_wanted */
    uint64_t n_png_whole;                     /* number of PNGs that did not need libpng */
    bool libpng_only;                         /* set in tests, to compare libpng with libdeflate */
    bool is_trial;                            /* a decoder of decode_jpeg_trial.c */
    bool libjpeg_only; /* set if libjpeg-turbo must decode all JPEGs, as what others are compared
                          with */
    uint32_t cpu;      /* PSTI_CPU_*: the level of the kernels that decode JPEGs without libjpeg */
    struct psti_pli_jpeg_codes *codes; /* for decode_jpeg_direct.c; NULL: not taken yet */
    bool withholds_codes, wants_codes; /* see psti_decode_withhold_codes */
    uint64_t n_jpeg_direct;            /* number of JPEGs that did not need libjpeg's decoder */
    uint64_t nbytes_out, n_region_fallback, n_units, n_units_whole, n_libpng, n_libjpeg;
};

/* The parameters of one call of psti_decode_rows_scaled. `options` has every member filled in, even
 * if the caller passed an older version of the struct. */
struct psti_decode_job {
    struct psti_decoder *decoder;
    const uint8_t *bytes;
    size_t nbytes;
    const struct pst_image_info *info;
    const struct psti_pli_header *pli; /* the PLI header that the caller has parsed, or NULL */
    const struct pst_decode_options *options;
    uint8_t orientation;     /* the orientation to apply, 1..8 */
    uint32_t scale_log2;     /* the picture is decoded at 1 / 2^scale_log2 of its size */
    uint32_t height, width;  /* size of the stored picture, before it is rotated */
    struct psti_rect shown;  /* the wanted region, in the picture as shown */
    struct psti_rect stored; /* the same region, in the picture as stored */
    psti_row_sink sink;
    void *ctx;
    struct pst_error *err;
};

/* Returns memory from the decoder's arena. On failure it returns NULL, fills the job's err and sets
 * *status. */
void *psti_decode_alloc(struct psti_decode_job *job, size_t nbytes, enum pst_status *status);
/* Fills `err` for the module decode, names the codec and returns `status`. `offset` is the byte of
 * the file at fault, or -1 if it is unknown. */
enum pst_status psti_decode_fail(struct pst_error *err, enum pst_status status, const char *codec,
                                 int64_t offset, const char *format, ...) PST_PRINTF(5, 6);

#endif
