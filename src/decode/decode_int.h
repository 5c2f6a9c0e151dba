/* decode_int.h - declarations that the source files of the module decode share. */
#ifndef PST_DECODE_DECODE_INT_H
#define PST_DECODE_DECODE_INT_H

#include "decode/decode_job.h"

/* Rows that a codec delivers at a time: few enough to stay in the CPU's first-level cache. */
#define PSTI_BAND_ROWS 16

/* Converts the rows that a codec delivers to the channels, bits and orientation that the caller
 * wants, and hands them to the sink. */
struct psti_emit {
    struct psti_decode_job *job;
    uint8_t channels_in, bits_in, channels, bits;
    bool converts;
    size_t pixel_nbytes; /* bytes of a pixel after all conversions */
    size_t row_nbytes;   /* bytes of a row in `band` and in `frame` */
    /* buffer of PSTI_BAND_ROWS converted rows and as many rotated or mirrored ones; NULL if rows
     * are handed on unchanged */
    uint8_t *band;
    uint8_t *frame; /* the whole stored region, for an orientation that needs it; otherwise NULL */
    uint32_t y;     /* rows that the codec has delivered so far */
};

/* Prepares to receive a region's rows from the codec. `channels_in` and `bits_in` describe the rows
 * that the codec will deliver: either the image's own, or already those that the options ask for.
 * Memory comes from the arena. */
enum pst_status psti_decode_emit_begin(struct psti_emit *emit, struct psti_decode_job *job,
                                       uint8_t channels_in, uint8_t bits_in);
/* Takes the next rows of job->stored from the codec, at most PSTI_BAND_ROWS of them, `row_nbytes`
 * apart. Fails only if the sink fails, with the sink's status. */
enum pst_status psti_decode_emit_rows(struct psti_emit *emit, const void *rows, size_t row_nbytes,
                                      uint32_t n_rows);
/* A band of rows on its way from a decoder of src/pli to the sink. psti_decode_emit_band is a
 * psti_pli_band (pli/pli.h); its ctx is the struct. It takes any number of rows. */
struct psti_emit_band {
    struct psti_emit *emit;
    const uint8_t *pixels;
    size_t row_nbytes;
};
enum pst_status psti_decode_emit_band(void *ctx, uint32_t y, uint32_t n_rows);
/* Must be called after the last row: hands the sink the rows that are still in `frame`. */
enum pst_status psti_decode_emit_end(struct psti_emit *emit);

/* Defined in decode_convert.c. Converts n pixels with `channels_in` samples of `bits_in` bits to
 * pixels with `channels` samples of `bits` bits. `from` and `to` must not overlap. */
void psti_decode_convert(const void *from, uint8_t channels_in, uint8_t bits_in, void *to,
                         uint8_t channels, uint8_t bits, size_t n);

/* Returns whether an EXIF orientation swaps height and width. (decode_turn.c rotates and
 * mirrors.) */
static inline bool psti_decode_turn_swaps(uint8_t orientation) { return orientation >= 5; }
/* Returns the rectangle of the stored picture that is shown as `shown`. The stored picture has
 * height x width pixels. */
struct psti_rect psti_decode_turn_to_stored(const struct psti_rect *shown, uint8_t orientation,
                                            uint32_t height, uint32_t width);
/* Writes the shown rows [y, y + n_rows) of a stored region to `to`. The region has height x width
 * pixels of pixel_nbytes bytes each (1, 2, 3, 4, 6 or 8), in rows from_nbytes apart. */
void psti_decode_turn_rows(const uint8_t *from, size_t from_nbytes, uint32_t height, uint32_t width,
                           uint8_t orientation, size_t pixel_nbytes, uint8_t *to, size_t to_nbytes,
                           uint32_t y, uint32_t n_rows);

/* Each codec has two functions. The function _probe reads the headers into `info`; height and width
 * are as stored, and the orientation is not applied to them. The function _rows decodes the rows of
 * a job. */
enum pst_status psti_decode_jpeg_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_jpeg_rows(struct psti_decode_job *job);
/* Does what psti_decode_hash_rows does; libjpeg-turbo's decoder, the reference, decodes JPEGs. */
enum pst_status psti_decode_hash_reference(struct psti_decoder *decoder, const void *bytes,
                                           size_t nbytes, const struct pst_image_info *info,
                                           const struct pst_decode_options *options,
                                           uint32_t n_rows, uint64_t *hash, struct pst_error *err);
/* makes libjpeg's object before the first image */
void psti_decode_jpeg_open(struct psti_decoder *decoder);
void psti_decode_jpeg_close(struct psti_jpeg *jpeg);
/* Tries the installed libjpeg-turbo, unless that was done in this process. If memory is short, a
 * later call tries again: the second one after that, then the third, the fifth, the ninth, and so
 * on. libjpeg-turbo decodes all JPEGs until then. */
void psti_decode_jpeg_try(void);
/* Keeps the result of the trial. `agrees`: the library makes the pixels of decode_jpeg_direct.c.
 * `saturates`: its inverse DCT saturates, as its vector code and PLI's do; its plain C code wraps
 * around instead. */
void psti_decode_jpeg_found(bool agrees, bool saturates);
bool psti_decode_jpeg_is_tried(void);
bool psti_decode_jpeg_saturates(void); /* false before the trial, too */
enum pst_status psti_decode_png_probe(const uint8_t *bytes, size_t nbytes, bool palette_indices,
                                      struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_png_rows(struct psti_decode_job *job);
void psti_decode_png_open(struct psti_decoder *decoder);
void psti_decode_png_close(struct psti_decoder *decoder);
enum pst_status psti_decode_webp_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_webp_rows(struct psti_decode_job *job);
/* Returns how many bytes libwebp may allocate by malloc, besides the decoded pixels. `height` and
 * `width` are as stored. */
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
