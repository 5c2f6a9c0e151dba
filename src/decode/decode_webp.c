/* decode_webp.c - decodes lossy and lossless WebP by libwebp, if libwebp was found at build time.
 *
 * libwebp has no hook for its memory allocation. It decodes from the top row to the last wanted
 * row, so a region saves only the rows below it and the colour conversion. The crop is a few pixels
 * wider than the region, for two reasons: libwebp interpolates chroma at the edge of a crop as at
 * the edge of a picture, and it moves crops that begin at odd coordinates. The pixels are decoded
 * into the arena and then handed on in bands of rows. A parser in this file reads the container's
 * chunks. */
#include "decode/decode_int.h"

#include "base/bits.h"
#include "base/orientation.h"

#include <string.h>

#ifdef PST_HAVE_WEBP
#include <webp/decode.h>
#endif

enum { FLAG_ANIMATED = 2, FLAG_XMP = 4, FLAG_EXIF = 8 };

struct container {
    /* flags of the chunk VP8X: which metadata chunks are valid; 0 without VP8X */
    uint8_t flags;
    struct psti_orientation_marks marks; /* marks in the first EXIF and the first XMP chunk */
    bool has_xmp;
    bool lossless; /* the image data is a chunk VP8L */
    bool animated;
    bool has_image; /* the container has a chunk VP8 or VP8L */
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
        container->flags = nbytes >= 1 ? chunk[8] : 0;
        container->animated = container->flags & FLAG_ANIMATED;
    } else if (memcmp(chunk, "EXIF", 4) == 0) {
        /* Many files have the prefix "Exif\0\0" here, although the specification has none. */
        if (!container->marks.has_exif)
            container->marks.exif = psti_exif_orientation(chunk + 8, nbytes);
        container->marks.has_exif = true;
    } else if (memcmp(chunk, "XMP ", 4) == 0) {
        if (!container->has_xmp)
            container->marks.xmp = psti_xmp_orientation(chunk + 8, nbytes);
        container->has_xmp = true;
    }
}

/* Reads the chunks of the whole RIFF container. All its bytes must be present, because the chunk
 * with the orientation may be the last one. */
static enum pst_status read_container(const uint8_t *bytes, size_t nbytes,
                                      struct container *container, struct pst_error *err)
{
    memset(container, 0, sizeof *container);
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

/* The margin of a crop, in pixels. It is even, and covers at least one chroma sample on every side
 * of the region. */
#define MARGIN 4
/* Upper bounds of libwebp's working memory, without the decoded pixels. No file that an encoder
 * made was seen to need more (tests/decode/test_decode_webp_memory.c). A lossy picture needs caches
 * of some rows. A lossless picture needs tables, and all pixels as 32-bit words. The alpha channel
 * of a lossy picture is a separate lossless picture, which libwebp keeps in memory together with
 * the finished one. */
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

/* Metadata chunks count only if VP8X announces them. libwebp's demuxer, Pillow and OpenCV have the
 * same rule. */
static uint8_t orientation_of(const struct container *container)
{
    struct psti_orientation_marks marks = container->marks;
    if (!(container->flags & FLAG_EXIF))
        marks.has_exif = false;
    if (!(container->flags & FLAG_XMP))
        marks.xmp = 0;
    return psti_orientation_of(&marks);
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
    info->orientation = orientation_of(&container);
    return PST_OK;
}

/* Returns the region with its margin, cut off at the edges of the picture. The result begins at
 * even coordinates. */
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

/* Checks that libwebp's working memory and the memory already handed out fit into the scratch limit
 * together. libwebp calls malloc itself, so only this check makes its memory count. A forged
 * lossless file can make libwebp build larger tables than any encoder's file does; this check does
 * not bound them. */
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

/* Decodes the rectangle `crop` of the picture into `pixels`. */
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
