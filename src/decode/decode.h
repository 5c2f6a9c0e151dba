/* decode.h - the public functions of the module decode. They decode an image, or a region of it, to
 * pixels in memory or row by row.
 *
 * A decoder belongs to one thread. It keeps its codec objects and scratch memory from image to
 * image, so after the first images nothing is allocated (except by libwebp). A decoded region has
 * exactly the pixels that the full decode has there. */
#ifndef PST_DECODE_DECODE_H
#define PST_DECODE_DECODE_H

#include "pli/format/pli_head.h"

#include <penstock/image.h>

struct psti_decoder;

struct psti_rect {
    /* in pixels of the picture as it is shown, with its orientation applied */
    uint32_t y, x, height, width;
};

/* Receives decoded rows from top to bottom: `n_rows` rows of region.width * channels samples (u8 or
 * u16). The first of them is row `y` of the region. If the callback returns anything but PST_OK,
 * the decode ends with that status. The rows belong to the decoder and are valid only during the
 * call. */
typedef enum pst_status (*psti_row_sink)(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                         uint32_t n_rows);

enum pst_status psti_decode_open(struct psti_decoder **out, struct pst_error *err);
void psti_decode_close(struct psti_decoder **decoder);

/* Returns a copy of the options with the orientation that the data set's index states for an item.
 * 0 means that the index states none. */
static inline struct pst_decode_options psti_decode_options_for(
    const struct pst_decode_options *options, uint8_t orientation)
{
    struct pst_decode_options own = *options;
    own.orientation = orientation;
    return own;
}

/* Does what pst_image_probe does, and accepts raw pixels too. If `form` is RAW, the caller fills in
 * `info` (form, height, width, channels, bits), and the function checks it against nbytes. */
enum pst_status psti_decode_probe(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                  enum pst_form form, const struct pst_decode_options *options,
                                  struct pst_image_info *info, struct pst_error *err);

/* Does what psti_decode_probe does, and for the forms pli and pli-jpeg also writes the parsed
 * header to *pli. The caller hands it to psti_decode_rows_scaled, so the header is parsed only
 * once. If pli->width is not 0 at the call, the caller has parsed the header already, and it is
 * used as it is. */
enum pst_status psti_decode_probe_pli(const void *bytes, size_t nbytes, enum pst_form form,
                                      const struct pst_decode_options *options,
                                      struct pst_image_info *info, struct psti_pli_header *pli,
                                      struct pst_error *err);

/* Decodes `region` (within info's height and width) and hands its rows to `sink`, a few rows at a
 * time. `info` comes from a probe of the same bytes with the same options. psti_decode_output()
 * tells the channels and bits of the rows. */
enum pst_status psti_decode_rows(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                 const struct pst_image_info *info,
                                 const struct pst_decode_options *options,
                                 const struct psti_rect *region, psti_row_sink sink, void *ctx,
                                 struct pst_error *err);

/* Does what psti_decode_rows does, but decodes an approximation at 1 / 2^scale_log2 of the size.
 * scale_log2 is 0..3; 0 is the full size. Only form pli-jpeg can be scaled; other forms return
 * PST_ERROR_ARGUMENT. The small picture has psti_decode_scaled() pixels on a side. Each of its
 * pixels stands for a square of the full picture. Squares in the last row and column may reach
 * beyond the full picture. psti_decode_ends() tells whether these are shown at the top or at the
 * left. `region` is in pixels of the small picture. `pli` is the header that psti_decode_probe_pli
 * gave for the same bytes. If it is NULL, this function parses the header. */
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
/* Tells where the last row and the last column of the stored picture are shown. *top: true if one
 * of them is shown at the top. *left: true if one of them is shown at the left. */
void psti_decode_ends(const struct pst_image_info *info, const struct pst_decode_options *options,
                      bool *top, bool *left);

/* Memory that psti_decode_copy_rows copies rows to: bytes from one row to the next, and bytes of a
 * row that are copied. */
struct psti_decode_target {
    void *pixels;
    size_t stride_nbytes, row_nbytes;
};
/* A psti_row_sink that copies rows. ctx: the target. */
enum pst_status psti_decode_copy_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows);

/* Decodes like psti_decode_rows, but into memory: samples u8 or u16 (H,W,C). Rows begin
 * `row_nbytes` apart. */
enum pst_status psti_decode_region(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                   const struct pst_image_info *info,
                                   const struct pst_decode_options *options,
                                   const struct psti_rect *region, void *pixels, size_t row_nbytes,
                                   struct pst_error *err);

/* Returns where `region` lies in the image as stored, before the orientation is applied. For a
 * region of a downscaled picture it returns the part of the full image that those pixels are
 * computed from. */
struct psti_rect psti_decode_stored(const struct pst_image_info *info,
                                    const struct pst_decode_options *options, uint32_t scale_log2,
                                    const struct psti_rect *region);

/* Writes the channels and bits that pixels have after the conversions that `options` ask for. */
void psti_decode_output(const struct pst_image_info *info, const struct pst_decode_options *options,
                        uint8_t *channels, uint8_t *bits);

/* Returns true for a lossless WebP (chunk VP8L) whose chunks are complete. */
bool psti_decode_webp_is_lossless(const uint8_t *bytes, size_t nbytes);

/* Computes from `info` how many bytes the decoded pixels take. Returns false if they do not fit
 * into memory. */
bool psti_decode_pixels_nbytes(const struct pst_image_info *info,
                               const struct pst_decode_options *options, size_t *row_nbytes,
                               size_t *nbytes);
/* Decodes the whole image row by row and hashes the pixels, without keeping the whole image in
 * memory. Sets *hash to the XXH3-64 of (H,W,C), u8 or u16 little-endian. */
enum pst_status psti_decode_hash_pixels(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct pst_decode_options *options, uint64_t *hash,
                                        struct pst_error *err);
/* Does what psti_decode_hash_pixels does, for the first n_rows rows only. n_rows is at most the
 * height. */
enum pst_status psti_decode_hash_rows(struct psti_decoder *decoder, const void *bytes,
                                      size_t nbytes, const struct pst_image_info *info,
                                      const struct pst_decode_options *options, uint32_t n_rows,
                                      uint64_t *hash, struct pst_error *err);
/* Hashes all pixels that libjpeg-turbo makes of a JPEG as they are stored: its EXIF orientation is
 * not applied. A PLI that keeps a JPEG has this checksum in its header. */
enum pst_status psti_decode_hash_jpeg(struct psti_decoder *decoder, const void *jpeg, size_t nbytes,
                                      uint64_t *hash, struct pst_error *err);
/* Wraps psti_decode_hash_jpeg as the reference decoder that psti_pli_keep_jpeg (pli/pli.h) compares
 * with. The caller keeps and closes `decoder`. */
struct psti_pli_reference;
struct psti_pli_reference psti_decode_jpeg_reference(struct psti_decoder *decoder);

/* Counters of a decoder. They are never reset. */
struct psti_decode_stats {
    uint64_t nbytes_out;        /* bytes of all pixels handed to sinks */
    uint64_t n_region_fallback; /* whole images that were decoded for a region */
    uint64_t scratch_nbytes;    /* bytes of scratch that the decoder holds now */
    /* the scratch limit in bytes that would have decoded the last image faster; 0: the limit was
     * enough */
    uint64_t scratch_wanted;
    uint64_t n_units;       /* PLI units that were decoded */
    uint64_t n_units_whole; /* PLI units in all the images that n_units counts units of */
    uint64_t n_libpng;      /* PNGs that libpng decoded instead of libdeflate */
    /* JPEGs that libjpeg-turbo decoded, as a whole or in part, although PLI's reader is the faster
     * one on this CPU. The first JPEG of a decoder, which asks for memory for code tables, is not
     * counted. */
    uint64_t n_libjpeg;
};
void psti_decode_stats(const struct psti_decoder *decoder, struct psti_decode_stats *stats);
/* JPEGs are decoded faster with psti_decode_codes_nbytes() bytes for the tables of their Huffman
 * codes. A decoder takes this memory for the first JPEG. A caller that counts memory first calls
 * psti_decode_withhold_codes; then the decoder takes it only by psti_decode_take_codes, which
 * returns false if there is no memory. psti_decode_wants_codes returns true if an image since would
 * have been decoded faster. The pixels are the same. */
size_t psti_decode_codes_nbytes(void);
void psti_decode_withhold_codes(struct psti_decoder *decoder);
bool psti_decode_wants_codes(const struct psti_decoder *decoder);
bool psti_decode_take_codes(struct psti_decoder *decoder);
/* Sets the most bytes of scratch that a decoder may hold, 1 GiB by default. An image that needs
 * more is PST_ERROR_LIMIT. */
void psti_decode_set_scratch_limit(struct psti_decoder *decoder, uint64_t nbytes);
/* Allocates `nbytes` of scratch and makes the codecs' objects now. Images that need no more scratch
 * then allocate nothing, except what libwebp allocates. Call it only between images. If memory is
 * short, nothing fails: images allocate when they are decoded. */
void psti_decode_hold(struct psti_decoder *decoder, uint64_t nbytes);

/* Lists the codecs and the libraries that they use. Writes at most `capacity` entries and returns
 * their number. */
struct psti_codec_version {
    const char *codec; /* static string */
    char version[40];
};
size_t psti_decode_versions(struct psti_codec_version *out, size_t capacity);

#endif
