/* fuzz_decode.h - shared by the fuzz targets of decoders. An input is a file, and its last bytes
 * say how to decode it.
 *
 * Besides crashes, it detects a region that differs from the whole, an error without its codec,
 * row counts that do not add up, and scratch beyond its limit. */
#ifndef PST_FUZZ_DECODE_H
#define PST_FUZZ_DECODE_H

#include "decode/decode.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_TAIL_NBYTES 8
#define FUZZ_MAX_PIXELS (1 << 16)
#define FUZZ_SCRATCH_LIMIT (8 << 20)

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct fuzz_wish {
    struct pst_decode_options options;
    uint8_t where[4]; /* y, x, height, width of the region, in 1/256 of the image */
};

static inline struct fuzz_wish fuzz_wish_of(const uint8_t *tail)
{
    static const uint8_t channels[] = {0, 1, 3, 4}, bits[] = {0, 8, 16, 0};
    struct fuzz_wish wish = {.options = {.struct_size = sizeof wish.options,
                                         .channels = channels[tail[0] & 3],
                                         .bits = bits[(tail[0] >> 2) & 3],
                                         .ignore_orientation = tail[0] & 16,
                                         .palette_indices = tail[0] & 32,
                                         .max_pixels = FUZZ_MAX_PIXELS}};
    memcpy(wish.where, tail + 1, 4);
    return wish;
}

static inline struct psti_rect fuzz_region(const struct pst_image_info *info, const uint8_t *where)
{
    struct psti_rect r;
    r.y = (uint32_t)((uint64_t)info->height * where[0] >> 8);
    r.x = (uint32_t)((uint64_t)info->width * where[1] >> 8);
    r.height = 1 + (uint32_t)((uint64_t)(info->height - r.y - 1) * where[2] / 255);
    r.width = 1 + (uint32_t)((uint64_t)(info->width - r.x - 1) * where[3] / 255);
    return r;
}

static inline void fuzz_check_status(enum pst_status status, const struct pst_error *err)
{
    if (status != PST_OK)
        FUZZ_CHECK(err->status == status && err->codec[0] && err->text[0] && err->room[0] &&
                   status != PST_ERROR_ARGUMENT && status != PST_ERROR_INTERNAL);
}

static inline void fuzz_same_region(const uint8_t *whole, const uint8_t *part,
                                    const struct pst_image_info *info, const struct psti_rect *r,
                                    size_t pixel_nbytes)
{
    for (uint32_t y = 0; y < r->height; y++)
        FUZZ_CHECK(memcmp(part + y * r->width * pixel_nbytes,
                          whole + ((size_t)(r->y + y) * info->width + r->x) * pixel_nbytes,
                          r->width * pixel_nbytes) == 0);
}

/* Decodes the whole image, then the region, with one decoder. */
static inline void fuzz_decode_both(const uint8_t *bytes, size_t nbytes,
                                    const struct pst_image_info *info, const struct fuzz_wish *wish)
{
    const struct psti_rect all = {0, 0, info->height, info->width};
    const struct psti_rect r = fuzz_region(info, wish->where);
    struct psti_decoder *decoder = NULL;
    struct psti_decode_stats stats;
    struct pst_error err;
    uint8_t channels, bits;
    psti_decode_output(info, &wish->options, &channels, &bits);
    size_t pixel_nbytes = (size_t)channels * (bits / 8);
    uint8_t *whole = malloc((size_t)info->height * info->width * pixel_nbytes);
    uint8_t *part = malloc((size_t)r.height * r.width * pixel_nbytes);
    if (!whole || !part || psti_decode_open(&decoder, &err) != PST_OK)
        goto out;
    psti_decode_set_scratch_limit(decoder, FUZZ_SCRATCH_LIMIT);
    pst_error_clear(&err);
    enum pst_status status = psti_decode_region(decoder, bytes, nbytes, info, &wish->options, &all,
                                                whole, info->width * pixel_nbytes, &err);
    fuzz_check_status(status, &err);
    pst_error_clear(&err);
    enum pst_status part_status = psti_decode_region(decoder, bytes, nbytes, info, &wish->options,
                                                     &r, part, r.width * pixel_nbytes, &err);
    fuzz_check_status(part_status, &err);
    if (status == PST_OK) {
        FUZZ_CHECK(part_status == PST_OK);
        fuzz_same_region(whole, part, info, &r, pixel_nbytes);
    }
    psti_decode_stats(decoder, &stats);
    FUZZ_CHECK(stats.scratch_nbytes <= FUZZ_SCRATCH_LIMIT);
out:
    psti_decode_close(&decoder);
    free(part);
    free(whole);
}

/* The results of two decoders for one region. */
struct fuzz_ways {
    enum pst_status status[2];
    struct pst_error err[2];
    bool same_pixels; /* set if both statuses are PST_OK */
};

/* Decodes the wished region with both decoders, which the caller has opened. Returns false if the
 * bytes are no image or memory is short. */
static inline bool fuzz_decode_by(struct psti_decoder *const decoders[2], const uint8_t *bytes,
                                  size_t nbytes, enum pst_form form, const struct fuzz_wish *wish,
                                  struct fuzz_ways *ways)
{
    uint8_t *pixels[2] = {NULL, NULL};
    struct pst_image_info info;
    uint8_t channels, bits;
    bool done = false;
    if (pst_image_probe(bytes, nbytes, form, &wish->options, &info, sizeof info, NULL) != PST_OK)
        return false;
    const struct psti_rect r = fuzz_region(&info, wish->where);
    psti_decode_output(&info, &wish->options, &channels, &bits);
    const size_t row_nbytes = (size_t)r.width * channels * (bits / 8);
    for (int i = 0; i < 2; i++) {
        pixels[i] = malloc(row_nbytes * r.height);
        if (!pixels[i])
            goto out;
        pst_error_clear(&ways->err[i]);
        ways->status[i] = psti_decode_region(decoders[i], bytes, nbytes, &info, &wish->options, &r,
                                             pixels[i], row_nbytes, &ways->err[i]);
    }
    ways->same_pixels = ways->status[0] == PST_OK && ways->status[1] == PST_OK &&
                        memcmp(pixels[0], pixels[1], row_nbytes * r.height) == 0;
    done = true;
out:
    free(pixels[0]);
    free(pixels[1]);
    return done;
}

static inline int fuzz_decode(const uint8_t *data, size_t nbytes, enum pst_form form)
{
    struct pst_image_info info;
    struct pst_error err;
    if (nbytes < FUZZ_TAIL_NBYTES)
        return 0;
    nbytes -= FUZZ_TAIL_NBYTES;
    struct fuzz_wish wish = fuzz_wish_of(data + nbytes);
    uint8_t *bytes = malloc(nbytes + !nbytes); /* exact length, for AddressSanitizer */
    if (!bytes)
        return 0;
    memcpy(bytes, data, nbytes);
    pst_error_clear(&err);
    enum pst_status status =
        pst_image_probe(bytes, nbytes, form, &wish.options, &info, sizeof info, &err);
    fuzz_check_status(status, &err);
    if (status == PST_OK)
        fuzz_decode_both(bytes, nbytes, &info, &wish);
    if (form == PST_FORM_WEBP)
        psti_decode_webp_is_lossless(bytes, nbytes);
    free(bytes);
    return 0;
}

#endif
