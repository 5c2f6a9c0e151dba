/* decode_webp.c - WebP, lossy and lossless, through libwebp (if it was found when building).
 *
 * libwebp has no hook for its memory and decodes from the top row down to the last row wanted, so a
 * region saves its lower rows and the colour conversion only. The crop is taken wider than the
 * region by some pixels: libwebp interpolates chroma at the edge of a crop as at the edge of a
 * picture, and moves odd crops. Pixels are made in the arena, then handed on in bands. The chunks
 * of the container are walked by a parser of our own. */
#include "decode/decode_int.h"

#include "base/bits.h"
#include "base/exif.h"

#include <string.h>

#ifdef PST_HAVE_WEBP
#include <webp/decode.h>
#endif

struct container {
    uint8_t orientation;
    bool lossless; /* VP8L */
    bool animated;
    bool has_image; /* has VP8 or VP8L */
};

static enum pst_status cut_short(struct pst_error *err, size_t nbytes)
{
    return psti_decode_fail(err, PST_ERROR_TRUNCATED, "webp", (int64_t)nbytes,
                            "the file ends after %zu bytes, too early", nbytes);
}

static void read_chunk(const uint8_t *chunk, size_t nbytes, struct container *container)
{
    if (memcmp(chunk, "VP8 ", 4) == 0) {
        container->has_image = true;
    } else if (memcmp(chunk, "VP8L", 4) == 0) {
        container->has_image = container->lossless = true;
    } else if (memcmp(chunk, "VP8X", 4) == 0) {
        container->animated = nbytes >= 1 && (chunk[8] & 2) != 0;
    } else if (memcmp(chunk, "EXIF", 4) == 0) {
        const uint8_t *tiff = chunk + 8;
        if (nbytes >= 6 && memcmp(tiff, "Exif\0", 6) == 0) { /* not by the book, but common */
            tiff += 6;
            nbytes -= 6;
        }
        container->orientation = psti_exif_orientation(tiff, nbytes);
    }
}

/* The whole RIFF must be there: whether a picture is turned may be said at its end. */
static enum pst_status read_container(const uint8_t *bytes, size_t nbytes,
                                      struct container *container, struct pst_error *err)
{
    memset(container, 0, sizeof *container);
    container->orientation = 1;
    if (nbytes < 12)
        return cut_short(err, nbytes);
    size_t total = (size_t)psti_load_u32(bytes + 4) + 8;
    if (total > nbytes)
        return cut_short(err, nbytes);
    for (size_t at = 12; total >= 8 && at <= total - 8;) {
        size_t chunk_nbytes = psti_load_u32(bytes + at + 4);
        if (chunk_nbytes > total - at - 8)
            return psti_decode_fail(err, PST_ERROR_CORRUPT, "webp", (int64_t)at,
                                    "chunk of %zu bytes in a file of %zu", chunk_nbytes, total);
        read_chunk(bytes + at, chunk_nbytes, container);
        at += 8 + chunk_nbytes + (chunk_nbytes & 1);
    }
    if (container->animated)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "webp", -1, "animated WebP");
    if (!container->has_image)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "webp", -1, "no picture in the file");
    return PST_OK;
}

bool psti_decode_webp_is_lossless(const uint8_t *bytes, size_t nbytes)
{
    struct container container;
    return bytes && nbytes >= 12 && memcmp(bytes, "RIFF", 4) == 0 &&
           memcmp(bytes + 8, "WEBP", 4) == 0 &&
           read_container(bytes, nbytes, &container, NULL) == PST_OK && container.lossless;
}

#ifdef PST_HAVE_WEBP

/* Even, and at least one chroma sample beyond the region on every side. */
#define MARGIN 4
/* libwebp's working memory, beside the pixels it gives out: more than encoders' files were ever
 * seen to take (tests/decode/test_decode_webp_memory.c). Lossy pictures: some rows of caches.
 * Lossless ones: all pixels as words, and tables. Alpha of a lossy picture is a lossless picture of
 * its own, kept beside the finished one. */
#define COLUMN_NBYTES 256
#define LOSSY_NBYTES ((uint64_t)64 << 10)
#define LOSSLESS_PIXEL_NBYTES 5
#define ALPHA_PIXEL_NBYTES 7
#define TABLES_NBYTES ((uint64_t)512 << 10)

static enum pst_status fail_webp(struct pst_error *err, VP8StatusCode code, const char *what)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return psti_decode_fail(err, PST_ERROR_MEMORY, "webp", -1, "no memory for libwebp");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "webp", -1,
                                "the %s uses a feature that libwebp does not have", what);
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return psti_decode_fail(err, PST_ERROR_TRUNCATED, "webp", -1, "the %s ends too early",
                                what);
    default:
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "webp", -1,
                                "the %s is corrupt (libwebp status %d)", what, (int)code);
    }
}

enum pst_status psti_decode_webp_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err)
{
    struct container container;
    WebPBitstreamFeatures features;
    enum pst_status status = read_container(bytes, nbytes, &container, err);
    if (status != PST_OK)
        return status;
    VP8StatusCode code = WebPGetFeatures(bytes, nbytes, &features);
    if (code != VP8_STATUS_OK)
        return fail_webp(err, code, "header");
    if (features.width <= 0 || features.height <= 0)
        return fail_webp(err, VP8_STATUS_BITSTREAM_ERROR, "header");
    info->height = (uint32_t)features.height;
    info->width = (uint32_t)features.width;
    info->channels = features.has_alpha ? 4 : 3;
    info->bits = 8;
    info->orientation = container.orientation;
    return PST_OK;
}

/* The region and its margin, within the picture, beginning at even coordinates. */
static struct psti_rect crop_around(const struct psti_decode_job *job)
{
    const struct psti_rect *r = &job->stored;
    uint32_t top = r->y > MARGIN ? (r->y - MARGIN) & ~1u : 0;
    uint32_t left = r->x > MARGIN ? (r->x - MARGIN) & ~1u : 0;
    uint32_t bottom = r->y + r->height, right = r->x + r->width;
    bottom = job->height - bottom > MARGIN ? bottom + MARGIN : job->height;
    right = job->width - right > MARGIN ? right + MARGIN : job->width;
    return (struct psti_rect){top, left, bottom - top, right - left};
}

uint64_t psti_decode_webp_work_nbytes(bool lossless, bool has_alpha, uint32_t height,
                                      uint32_t width)
{
    uint64_t n_pixels = (uint64_t)height * width, nbytes = (uint64_t)width * COLUMN_NBYTES;
    if (lossless)
        return nbytes + n_pixels * LOSSLESS_PIXEL_NBYTES + TABLES_NBYTES;
    if (has_alpha)
        return nbytes + n_pixels * ALPHA_PIXEL_NBYTES + TABLES_NBYTES;
    return nbytes + LOSSY_NBYTES;
}

/* libwebp asks malloc itself: what it will ask for must fit the limit beside what is held, so that
 * whoever granted the limit has counted it. A lossless file that was forged can make libwebp build
 * more tables than any encoder asks for, and nothing here bounds those. */
static enum pst_status check_memory(struct psti_decode_job *job)
{
    uint64_t work_nbytes =
        psti_decode_webp_work_nbytes(psti_decode_webp_is_lossless(job->bytes, job->nbytes),
                                     job->info->channels == 4, job->height, job->width);
    if (psti_decode_arena_lend(&job->decoder->arena, work_nbytes))
        return PST_OK;
    return psti_decode_fail(job->err, PST_ERROR_LIMIT, "webp", -1,
                            "%llu bytes for libwebp would exceed the scratch limit of %llu bytes",
                            (unsigned long long)work_nbytes,
                            (unsigned long long)job->decoder->arena.limit);
}

/* Pixels of `crop` into `pixels`. */
static enum pst_status decode_crop(struct psti_decode_job *job, const struct psti_rect *crop,
                                   uint8_t *pixels, size_t row_nbytes)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return psti_decode_fail(job->err, PST_ERROR_UNSUPPORTED, "webp", -1,
                                "libwebp does not fit the one this was built with");
    config.options.use_cropping = crop->height != job->height || crop->width != job->width;
    config.options.crop_left = (int)crop->x;
    config.options.crop_top = (int)crop->y;
    config.options.crop_width = (int)crop->width;
    config.options.crop_height = (int)crop->height;
    config.output.colorspace = job->info->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels;
    config.output.u.RGBA.stride = (int)row_nbytes;
    config.output.u.RGBA.size = row_nbytes * crop->height;
    VP8StatusCode code = WebPDecode(job->bytes, job->nbytes, &config);
    WebPFreeDecBuffer(&config.output);
    return code == VP8_STATUS_OK ? PST_OK : fail_webp(job->err, code, "picture");
}

enum pst_status psti_decode_webp_rows(struct psti_decode_job *job)
{
    struct psti_emit emit;
    struct pst_image_info found;
    enum pst_status status = psti_decode_webp_probe(job->bytes, job->nbytes, &found, job->err);
    if (status == PST_OK && (found.width != job->width || found.height != job->height ||
                             found.channels != job->info->channels || job->info->bits != 8))
        status = psti_decode_fail(job->err, PST_ERROR_ARGUMENT, "webp", -1,
                                  "the image is not the one that was probed");
    if (status == PST_OK)
        status = psti_decode_emit_begin(&emit, job, job->info->channels, 8);
    if (status != PST_OK)
        return status;
    const struct psti_rect crop = crop_around(job);
    size_t row_nbytes = (size_t)crop.width * job->info->channels;
    uint8_t *pixels = psti_decode_alloc(job, row_nbytes * crop.height, &status);
    if (pixels)
        status = check_memory(job);
    if (status != PST_OK)
        return status;
    job->decoder->n_region_fallback +=
        job->stored.height != job->height || job->stored.width != job->width;
    status = decode_crop(job, &crop, pixels, row_nbytes);
    const uint8_t *from = pixels + (size_t)(job->stored.y - crop.y) * row_nbytes +
                          (size_t)(job->stored.x - crop.x) * job->info->channels;
    for (uint32_t y = 0; y < job->stored.height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = job->stored.height - y;
        status = psti_decode_emit_rows(&emit, from + (size_t)y * row_nbytes, row_nbytes,
                                       left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS);
    }
    return status == PST_OK ? psti_decode_emit_end(&emit) : status;
}

#else

static enum pst_status without_libwebp(struct pst_error *err)
{
    return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "webp", -1,
                            "this build of Penstock has no libwebp");
}

enum pst_status psti_decode_webp_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err)
{
    (void)bytes;
    (void)nbytes;
    (void)info;
    return without_libwebp(err);
}

enum pst_status psti_decode_webp_rows(struct psti_decode_job *job)
{
    return without_libwebp(job->err);
}

#endif
