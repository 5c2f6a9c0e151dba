/* decode_int.h - the declarations that the files of decode share. */
#ifndef PST_DECODE_DECODE_INT_H
#define PST_DECODE_DECODE_INT_H

#include "decode/decode_job.h"

/* The number of rows that a codec hands on at a time, small enough for them to stay in the first
 * cache. */
#define PSTI_BAND_ROWS 16

/* Turns the rows that a codec makes into the rows that the caller wants (channels, bits,
 * orientation), and hands them to the sink. */
struct psti_emit {
    struct psti_decode_job *job;
    uint8_t channels_in, bits_in, channels, bits;
    bool converts;
    size_t pixel_nbytes; /* bytes of a pixel after the conversions */
    size_t row_nbytes;   /* bytes of a row of `band` and `frame` */
    /* a band of rows that are converted, rotated or mirrored; NULL if rows stay as they are */
    uint8_t *band;
    uint8_t *frame; /* the whole stored region, for orientations that need it; or NULL */
    uint32_t y;     /* rows handed over so far */
};

/* Prepares the way of a region's rows to the sink. `channels_in` and `bits_in` are those of the
 * rows that the codec will hand over: the image's own, or already those that the options ask for.
 * Memory comes from the arena. */
enum pst_status psti_decode_emit_begin(struct psti_emit *emit, struct psti_decode_job *job,
                                       uint8_t channels_in, uint8_t bits_in);
/* Takes the next rows of job->stored, `row_nbytes` apart, at most PSTI_BAND_ROWS of them. Fails
 * only if the sink does, with the sink's status. */
enum pst_status psti_decode_emit_rows(struct psti_emit *emit, const void *rows, size_t row_nbytes,
                                      uint32_t n_rows);
/* Hands over what is left, after the last row was taken. */
enum pst_status psti_decode_emit_end(struct psti_emit *emit);

/* decode_convert.c: converts n pixels of `channels_in` samples of `bits_in` bits to `channels`
 * samples of `bits` bits. `from` and `to` must not overlap. */
void psti_decode_convert(const void *from, uint8_t channels_in, uint8_t bits_in, void *to,
                         uint8_t channels, uint8_t bits, size_t n);

/* decode_turn.c: rotates or mirrors a stored region as its EXIF orientation says. This function
 * returns whether an orientation swaps height and width. */
static inline bool psti_decode_turn_swaps(uint8_t orientation) { return orientation >= 5; }
/* Returns the stored rectangle that is shown as `shown`, in a picture of height x width as stored.
 */
struct psti_rect psti_decode_turn_to_stored(const struct psti_rect *shown, uint8_t orientation,
                                            uint32_t height, uint32_t width);
/* Makes the shown rows [y, y + n_rows) of a stored region. The region has height x width pixels of
 * pixel_nbytes (1, 2, 3, 4, 6 or 8), in rows from_nbytes apart. */
void psti_decode_turn_rows(const uint8_t *from, size_t from_nbytes, uint32_t height, uint32_t width,
                           uint8_t orientation, size_t pixel_nbytes, uint8_t *to, size_t to_nbytes,
                           uint32_t y, uint32_t n_rows);

/* Each codec has two functions. The probe reads the headers into `info`: the orientation is
 * recorded, and the dimensions are as stored. The other one decodes the rows of a job. */
enum pst_status psti_decode_jpeg_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_jpeg_rows(struct psti_decode_job *job);
/* makes libjpeg's object before the first image */
void psti_decode_jpeg_open(struct psti_decoder *decoder);
void psti_decode_jpeg_close(struct psti_jpeg *jpeg);
enum pst_status psti_decode_png_probe(const uint8_t *bytes, size_t nbytes, bool palette_indices,
                                      struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_png_rows(struct psti_decode_job *job);
void psti_decode_png_open(struct psti_decoder *decoder);
void psti_decode_png_close(struct psti_decoder *decoder);
enum pst_status psti_decode_webp_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err);
enum pst_status psti_decode_webp_rows(struct psti_decode_job *job);
/* Returns the bytes that libwebp may allocate by malloc, besides the pixels that it gives out.
 * `height` and `width` are as stored. */
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
