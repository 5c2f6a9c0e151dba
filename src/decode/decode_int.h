/* decode_int.h - inside of decode: what its files share. */
#ifndef PST_DECODE_DECODE_INT_H
#define PST_DECODE_DECODE_INT_H

#include "base/fail.h"
#include "decode/decode.h"
#include "decode/decode_arena.h"

#define PSTI_ROOM "decode"
/* Rows that a codec hands on at a time: few enough to stay in the first cache. */
#define PSTI_BAND_ROWS 16
#define PSTI_SIDE_MAX 65535

struct psti_jpeg;
struct libdeflate_decompressor;

struct psti_decoder {
    struct psti_decode_arena arena;           /* reset at the start of every image */
    struct psti_jpeg *jpeg;                   /* made at the first JPEG */
    struct libdeflate_decompressor *inflater; /* made at the first PNG */
    uint64_t scratch_wanted;                  /* see psti_decode_stats */
    uint64_t n_png_whole;                     /* PNGs that did not need libpng */
    bool libpng_only;                         /* for tests, which compare the two roads */
    uint64_t nbytes_out, n_region_fallback, n_units, n_units_whole, n_libpng;
};

/* What one call of psti_decode_rows is about; options are complete (no struct_size to mind). */
struct psti_decode_job {
    struct psti_decoder *decoder;
    const uint8_t *bytes;
    size_t nbytes;
    const struct pst_image_info *info;
    const struct psti_pli_header *pli; /* of a PLI, parsed before; or NULL */
    const struct pst_decode_options *options;
    uint8_t orientation;     /* to apply: 1..8 */
    uint32_t scale_log2;     /* regions are of the picture at 1 / 2^scale_log2 of its size */
    uint32_t height, width;  /* as stored, before the orientation */
    struct psti_rect shown;  /* the region wanted, as shown */
    struct psti_rect stored; /* the same region, as stored */
    psti_row_sink sink;
    void *ctx;
    struct pst_error *err;
};

/* Rows as a codec makes them -> rows as asked for: channels, bits, orientation, sink. */
struct psti_emit {
    struct psti_decode_job *job;
    uint8_t channels_in, bits_in, channels, bits;
    bool converts;
    size_t pixel_nbytes; /* after the conversions */
    size_t row_nbytes;   /* of `band` and `frame` */
    uint8_t *band;       /* a band of converted or turned rows; NULL if neither is asked for */
    uint8_t *frame;      /* stored region, for orientations that need all of it; or NULL */
    uint32_t y;          /* rows so far */
};

/* `channels_in`, `bits_in`: what the codec will hand over, which may be info's or already what the
 * options ask for. Memory comes from the arena. */
enum pst_status psti_decode_emit_begin(struct psti_emit *emit, struct psti_decode_job *job,
                                       uint8_t channels_in, uint8_t bits_in);
/* The next rows of job->stored, `row_nbytes` apart; at most PSTI_BAND_ROWS. Never fails but with
 * what the sink returns. */
enum pst_status psti_decode_emit_rows(struct psti_emit *emit, const void *rows, size_t row_nbytes,
                                      uint32_t n_rows);
/* After the last row. */
enum pst_status psti_decode_emit_end(struct psti_emit *emit);

/* Memory of the decoder's arena; on NULL `err` is filled and *status set. */
void *psti_decode_alloc(struct psti_decode_job *job, size_t nbytes, enum pst_status *status);
/* psti_fail of this room with the codec named; `offset` -1 unknown. */
enum pst_status psti_decode_fail(struct pst_error *err, enum pst_status status, const char *codec,
                                 int64_t offset, const char *format, ...) PST_PRINTF(5, 6);

/* decode_convert.c: n pixels of `channels_in` samples of `bits_in` -> `channels` of `bits`.
 * Not in place. */
void psti_decode_convert(const void *from, uint8_t channels_in, uint8_t bits_in, void *to,
                         uint8_t channels, uint8_t bits, size_t n);

/* decode_turn.c: a stored region turned as EXIF orientation says. */
static inline bool psti_decode_turn_swaps(uint8_t orientation) { return orientation >= 5; }
/* The stored rectangle that is shown as `shown`, in a picture of height x width as stored. */
struct psti_rect psti_decode_turn_to_stored(const struct psti_rect *shown, uint8_t orientation,
                                            uint32_t height, uint32_t width);
/* Shown rows [y, y + n_rows) of a stored region of height x width pixels of pixel_nbytes (1, 2, 3,
 * 4, 6 or 8), rows from_nbytes apart. */
void psti_decode_turn_rows(const uint8_t *from, size_t from_nbytes, uint32_t height, uint32_t width,
                           uint8_t orientation, size_t pixel_nbytes, uint8_t *to, size_t to_nbytes,
                           uint32_t y, uint32_t n_rows);

/* Each codec: headers -> info (orientation recorded, dimensions as stored), and rows. */
enum pst_status psti_decode_jpeg_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_jpeg_rows(struct psti_decode_job *job);
void psti_decode_jpeg_open(struct psti_decoder *decoder); /* its objects, before the first image */
void psti_decode_jpeg_close(struct psti_jpeg *jpeg);
enum pst_status psti_decode_png_probe(const uint8_t *bytes, size_t nbytes, bool palette_indices,
                                      struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_png_rows(struct psti_decode_job *job);
void psti_decode_png_open(struct psti_decoder *decoder);
void psti_decode_png_close(struct psti_decoder *decoder);
enum pst_status psti_decode_webp_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_webp_rows(struct psti_decode_job *job);
/* Bytes that libwebp may ask malloc for beside the pixels it gives out; `height` and `width` as
 * stored. */
uint64_t psti_decode_webp_work_nbytes(bool lossless, bool has_alpha, uint32_t height,
                                      uint32_t width);
enum pst_status psti_decode_pli_probe(const uint8_t *bytes, size_t nbytes,
                                      struct pst_image_info *info, struct psti_pli_header *header,
                                      struct pst_error *err);
enum pst_status psti_decode_pli_rows(struct psti_decode_job *job);
enum pst_status psti_decode_raw_probe(size_t nbytes, const struct pst_image_info *info,
                                      struct pst_error *err);
enum pst_status psti_decode_raw_rows(struct psti_decode_job *job);

#endif
