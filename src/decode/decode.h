/* decode.h - the door of decode: encoded bytes -> pixels, whole or a region, into memory or row by
 * row.
 *
 * A decoder belongs to one thread; it keeps its codec objects and scratch from image to image, so
 * that in the steady state nothing is allocated (libwebp excepted). The plain path is the judge:
 * the decode of a region equals that region of the full decode, to the bit. */
#ifndef PST_DECODE_DECODE_H
#define PST_DECODE_DECODE_H

#include "pli/format/pli_head.h"

#include <penstock/image.h>

struct psti_decoder;

struct psti_rect {
    uint32_t y, x, height, width; /* pixels of the picture as shown (after orientation) */
};

/* Receives rows in order, top to bottom: `n_rows` rows of region.width * channels samples (u8 or
 * u16), the first one being row `y` of the region. Any return but PST_OK ends the decode with that
 * status. The rows are the decoder's. */
typedef enum pst_status (*psti_row_sink)(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                         uint32_t n_rows);

enum pst_status psti_decode_open(struct psti_decoder **out, struct pst_error *err);
void psti_decode_close(struct psti_decoder **decoder);

/* As pst_image_probe. `form` RAW: `info` must come filled in (form, height, width, channels, bits)
 * and is checked against nbytes. */
enum pst_status psti_decode_probe(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                  enum pst_form form, const struct pst_decode_options *options,
                                  struct pst_image_info *info, struct pst_error *err);

/* psti_decode_probe for who decodes the image next: *pli is the header of a PLI (forms pli and
 * pli-jpeg), which psti_decode_rows_scaled takes, so that it is parsed once. Not of width 0: who
 * has read it before gives it. */
enum pst_status psti_decode_probe_pli(const void *bytes, size_t nbytes, enum pst_form form,
                                      const struct pst_decode_options *options,
                                      struct pst_image_info *info, struct psti_pli_header *pli,
                                      struct pst_error *err);

/* Decodes `region` (within info's height and width) and hands its rows to `sink`, in bands. `info`
 * comes from probe of the same bytes and options. channels and bits of the rows:
 * psti_decoder_output(). */
enum pst_status psti_decode_rows(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                 const struct pst_image_info *info,
                                 const struct pst_decode_options *options,
                                 const struct psti_rect *region, psti_row_sink sink, void *ctx,
                                 struct pst_error *err);

/* psti_decode_rows of an approximation at 1 / 2^scale_log2 of the size, 1..3 (0: as that), of form
 * pli-jpeg alone: PST_ERROR_ARGUMENT for others. The small picture has psti_decode_scaled() pixels
 * on a side, each for a whole square of the picture, of which those at the bottom and at the right
 * reach beyond it, or as psti_decode_ends() says; `region` is of the small picture. `pli`: what
 * psti_decode_probe_pli gave for the same bytes; NULL: the header is parsed here. */
enum pst_status psti_decode_rows_scaled(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct psti_pli_header *pli,
                                        const struct pst_decode_options *options,
                                        uint32_t scale_log2, const struct psti_rect *region,
                                        psti_row_sink sink, void *ctx, struct pst_error *err);
static inline uint32_t psti_decode_scaled(uint32_t n, uint32_t scale_log2)
{
    return (n + (1u << scale_log2) - 1) >> scale_log2;
}
/* Whether the stored picture ends where the shown one begins: at the top, at the left. */
void psti_decode_ends(const struct pst_image_info *info, const struct pst_decode_options *options,
                      bool *top, bool *left);

/* psti_decode_rows into memory: u8 or u16 (H,W,C), rows `row_nbytes` apart. */
enum pst_status psti_decode_region(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                   const struct pst_image_info *info,
                                   const struct pst_decode_options *options,
                                   const struct psti_rect *region, void *pixels, size_t row_nbytes,
                                   struct pst_error *err);

/* Where `region` lies in the image as it is stored, before the orientation is applied. One of a
 * small picture: all of the image that its pixels are made from. */
struct psti_rect psti_decode_stored(const struct pst_image_info *info,
                                    const struct pst_decode_options *options, uint32_t scale_log2,
                                    const struct psti_rect *region);

/* Channels and bits after the conversions that `options` ask for. */
void psti_decode_output(const struct pst_image_info *info, const struct pst_decode_options *options,
                        uint8_t *channels, uint8_t *bits);

/* True for WebP of kind VP8L, as far as its chunks are whole. */
bool psti_decode_webp_is_lossless(const uint8_t *bytes, size_t nbytes);

/* Counters of this decoder, cumulative. */
struct psti_decode_stats {
    uint64_t nbytes_out;        /* pixels delivered */
    uint64_t n_region_fallback; /* whole decodes for a region */
    uint64_t scratch_nbytes;    /* held now */
    uint64_t scratch_wanted;    /* limit with which the last image would have been faster; 0 none */
    uint64_t n_units;           /* PLI: units that were decoded */
    uint64_t n_units_whole;     /* PLI: units that the images have from which these were decoded */
    uint64_t n_libpng;          /* PNGs that libpng decoded instead of libdeflate */
};
void psti_decode_stats(const struct psti_decoder *decoder, struct psti_decode_stats *stats);
/* Scratch of a decoder never exceeds this; an image that needs more is PST_ERROR_LIMIT. Default 1
 * GiB. */
void psti_decode_set_scratch_limit(struct psti_decoder *decoder, uint64_t nbytes);
/* Takes scratch of `nbytes`, and makes the codecs' objects, now: images for which it is enough then
 * allocate nothing (but what libwebp does). Between images. Without memory they allocate as they
 * come. */
void psti_decode_hold(struct psti_decoder *decoder, uint64_t nbytes);

/* The libraries behind the codecs. Writes at most `capacity`, returns how many. */
struct psti_codec_version {
    const char *codec; /* static */
    char version[40];
};
size_t psti_decode_versions(struct psti_codec_version *out, size_t capacity);

#endif
