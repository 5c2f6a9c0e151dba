/* decode.c - the public functions of the module decode (decode.h). They check the options and the
 * header of an image, then call the file of its codec.
 *
 * A decoder has one arena, which is emptied at the start of every image. It also keeps the objects
 * of libjpeg and libdeflate for the next image. A decoder belongs to one thread. Headers are read
 * by parsers of this module, which allocate nothing. So probing needs no decoder and cannot fail
 * for lack of memory. */
#include "decode/decode_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "base/options.h"
#include "decode/decode_options.h"

#include <penstock/pli.h>

#include <stdio.h>
#include <string.h>

#define SCRATCH_LIMIT_DEFAULT ((uint64_t)1 << 30)

static const uint8_t jpeg_magic[] = {0xFF, 0xD8, 0xFF};
static const uint8_t png_magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
static const uint8_t pli_magic[] = {0x89, 'P', 'L', 'I'};
/* offset of the byte "content" in a PLI's header (format-pli.md, section 1) */
enum { PLI_CONTENT = 5 };

static bool begins_with(const uint8_t *bytes, size_t nbytes, const void *magic, size_t magic_nbytes)
{
    return memcmp(bytes, magic, nbytes < magic_nbytes ? nbytes : magic_nbytes) == 0;
}

/* Returns true if the bytes begin with the magic number of `form`. Bytes that end within the magic
 * number need only match as far as they go. */
static bool looks_like(const uint8_t *bytes, size_t nbytes, enum pst_form form)
{
    switch (form) {
    case PST_FORM_JPEG:
        return begins_with(bytes, nbytes, jpeg_magic, sizeof jpeg_magic);
    case PST_FORM_PNG:
        return begins_with(bytes, nbytes, png_magic, sizeof png_magic);
    case PST_FORM_WEBP:
        return begins_with(bytes, nbytes, "RIFF", 4) &&
               (nbytes <= 8 || begins_with(bytes + 8, nbytes - 8, "WEBP", 4));
    case PST_FORM_PLI:
        return begins_with(bytes, nbytes, pli_magic, sizeof pli_magic) &&
               (nbytes <= PLI_CONTENT || bytes[PLI_CONTENT] != PST_PLI_CONTENT_JPEG);
    case PST_FORM_PLI_JPEG:
        return begins_with(bytes, nbytes, pli_magic, sizeof pli_magic) &&
               (nbytes <= PLI_CONTENT || bytes[PLI_CONTENT] == PST_PLI_CONTENT_JPEG);
    default:
        return false;
    }
}

static enum pst_status wrong_magic(const uint8_t *bytes, size_t nbytes, enum pst_form form,
                                   struct pst_error *err)
{
    char hex[3 * 8 + 1] = "";
    size_t n = nbytes < 8 ? nbytes : 8;
    for (size_t i = 0; i < n; i++)
        snprintf(hex + 3 * i, 4, "%02X%s", bytes[i], i + 1 < n ? " " : "");
    if (form == PST_FORM_NONE)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "", 0,
                                "not a JPEG, PNG, WebP or PLI image: it begins with %s", hex);
    return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, pst_form_name(form), 0,
                            "not a %s image: it begins with %s", pst_form_name(form), hex);
}

/* Sets *form from the first bytes of the image if it is PST_FORM_NONE. Otherwise checks that the
 * first bytes fit *form. */
static enum pst_status find_form(const uint8_t *bytes, size_t nbytes, enum pst_form *form,
                                 struct pst_error *err)
{
    const enum pst_form known[] = {PST_FORM_JPEG, PST_FORM_PNG, PST_FORM_WEBP, PST_FORM_PLI,
                                   PST_FORM_PLI_JPEG};
    const char *codec = *form == PST_FORM_NONE ? "" : pst_form_name(*form);
    if (nbytes == 0 || !bytes)
        return psti_decode_fail(err, PST_ERROR_TRUNCATED, codec, 0, "the image is empty: 0 bytes");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((*form == PST_FORM_NONE || *form == known[i]) && looks_like(bytes, nbytes, known[i])) {
            *form = known[i];
            return PST_OK;
        }
    return wrong_magic(bytes, nbytes, *form, err);
}

static enum pst_status check_size(const struct pst_image_info *info, uint64_t max_pixels,
                                  struct pst_error *err)
{
    const char *codec = pst_form_name(info->form);
    if (info->height == 0 || info->width == 0)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, codec, -1, "the image has %u x %u pixels",
                                info->width, info->height);
    if (info->height > PSTI_SIDE_MAX || info->width > PSTI_SIDE_MAX)
        return psti_decode_fail(err, PST_ERROR_LIMIT, codec, -1,
                                "%u x %u pixels: no side may exceed %d", info->width, info->height,
                                PSTI_SIDE_MAX);
    if ((uint64_t)info->height * info->width > max_pixels)
        return psti_decode_fail(err, PST_ERROR_LIMIT, codec, -1,
                                "%u x %u pixels are more than the limit of %llu", info->width,
                                info->height, (unsigned long long)max_pixels);
    return PST_OK;
}

static enum pst_status probe_form(const uint8_t *bytes, size_t nbytes, enum pst_form form,
                                  const struct pst_decode_options *options,
                                  struct pst_image_info *info, struct psti_pli_header *pli,
                                  struct pst_error *err)
{
    memset(info, 0, sizeof *info);
    info->form = form;
    info->orientation = 1;
    info->bits = 8;
    switch (form) {
    case PST_FORM_JPEG:
        return psti_decode_jpeg_probe(bytes, nbytes, info, err);
    case PST_FORM_PNG:
        return psti_decode_png_probe(bytes, nbytes, options->palette_indices, info, err);
    case PST_FORM_PLI:
    case PST_FORM_PLI_JPEG:
        return psti_decode_pli_probe(bytes, nbytes, info, pli, err);
    default:
        return psti_decode_webp_probe(bytes, nbytes, info, err);
    }
}

static enum pst_status probe(const void *bytes, size_t nbytes, enum pst_form form,
                             const struct pst_decode_options *options, struct pst_image_info *info,
                             struct psti_pli_header *pli, struct pst_error *err)
{
    struct pst_decode_options full;
    struct pst_image_info found;
    if (!info || (form == PST_FORM_RAW))
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(form), -1,
                                info ? "raw pixels have no header" : "nowhere to put the header");
    enum pst_status status = psti_decode_read_options(options, &full, form, err);
    if (status == PST_OK)
        status = find_form(bytes, nbytes, &form, err);
    if (status == PST_OK)
        status = probe_form(bytes, nbytes, form, &full, &found, pli, err);
    if (status == PST_OK)
        status = check_size(&found, full.max_pixels, err);
    if (status != PST_OK)
        return status;
    if (full.orientation)
        found.orientation = full.orientation;
    if (!full.ignore_orientation && psti_decode_turn_swaps(found.orientation)) {
        uint32_t height = found.width;
        found.width = found.height;
        found.height = height;
    }
    *info = found;
    return PST_OK;
}

enum pst_status pst_image_probe(const void *bytes, size_t nbytes, enum pst_form form,
                                const struct pst_decode_options *options,
                                struct pst_image_info *info, size_t info_nbytes,
                                struct pst_error *err)
{
    struct psti_pli_header pli = {0};
    struct pst_image_info found;
    enum pst_status status = probe(bytes, nbytes, form, options, info ? &found : NULL, &pli, err);
    if (status == PST_OK)
        psti_struct_write(info, info_nbytes, &found, sizeof found);
    return status;
}

enum pst_status psti_decode_probe_pli(const void *bytes, size_t nbytes, enum pst_form form,
                                      const struct pst_decode_options *options,
                                      struct pst_image_info *info, struct psti_pli_header *pli,
                                      struct pst_error *err)
{
    struct pst_decode_options full;
    enum pst_status status;
    if (form != PST_FORM_RAW)
        return probe(bytes, nbytes, form, options, info, pli, err);
    if (info->orientation == 0)
        info->orientation = 1;
    status = psti_decode_read_options(options, &full, form, err);
    if (status == PST_OK)
        status = check_size(info, full.max_pixels, err);
    return status == PST_OK ? psti_decode_raw_probe(nbytes, info, err) : status;
}

enum pst_status psti_decode_probe(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                  enum pst_form form, const struct pst_decode_options *options,
                                  struct pst_image_info *info, struct pst_error *err)
{
    struct psti_pli_header pli = {0};
    (void)decoder;
    return psti_decode_probe_pli(bytes, nbytes, form, options, info, &pli, err);
}

enum pst_status psti_decode_open(struct psti_decoder **out, struct pst_error *err)
{
    struct psti_decoder *decoder = psti_calloc(1, sizeof *decoder);
    *out = NULL;
    if (!decoder)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for a decoder");
    decoder->arena.limit = SCRATCH_LIMIT_DEFAULT;
    decoder->cpu = psti_cpu_features();
    /* In plain C the kernels of PLI are slower than libjpeg-turbo's. */
    decoder->libjpeg_only = (decoder->cpu & (PSTI_CPU_AVX2 | PSTI_CPU_NEON)) == 0;
    *out = decoder;
    return PST_OK;
}

void psti_decode_close(struct psti_decoder **decoder)
{
    if (!decoder || !*decoder)
        return;
    psti_decode_jpeg_close((*decoder)->jpeg);
    psti_free((*decoder)->codes);
    psti_decode_png_close(*decoder);
    psti_decode_arena_free(&(*decoder)->arena);
    psti_free(*decoder);
    *decoder = NULL;
}

void psti_decode_stats(const struct psti_decoder *decoder, struct psti_decode_stats *stats)
{
    stats->nbytes_out = decoder->nbytes_out;
    stats->n_region_fallback = decoder->n_region_fallback;
    stats->scratch_nbytes = decoder->arena.held;
    stats->scratch_wanted = decoder->scratch_wanted;
    stats->n_units = decoder->n_units;
    stats->n_units_whole = decoder->n_units_whole;
    stats->n_libpng = decoder->n_libpng;
    stats->n_libjpeg = decoder->n_libjpeg;
}

void psti_decode_set_scratch_limit(struct psti_decoder *decoder, uint64_t nbytes)
{
    decoder->arena.limit = nbytes;
}

void psti_decode_hold(struct psti_decoder *decoder, uint64_t nbytes)
{
    psti_decode_arena_hold(&decoder->arena, nbytes < SIZE_MAX ? (size_t)nbytes : SIZE_MAX);
    psti_decode_jpeg_open(decoder);
    psti_decode_jpeg_try();
    psti_decode_png_open(decoder);
}

static enum pst_status check_job(const struct psti_decode_job *job)
{
    const struct psti_rect *region = &job->shown;
    const struct pst_image_info *info = job->info;
    uint32_t height = psti_decode_scaled(info->height, job->scale_log2);
    uint32_t width = psti_decode_scaled(info->width, job->scale_log2);
    const char *codec = pst_form_name(info->form);
    if (info->orientation < 1 || info->orientation > 8)
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, codec, -1,
                                "orientation %u is not one of 1 to 8", info->orientation);
    if (job->scale_log2 > 0 && (info->form != PST_FORM_PLI_JPEG || job->scale_log2 > 3))
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, codec, -1,
                                "form %s cannot be decoded at 2^-%u of its size", codec,
                                job->scale_log2);
    if (region->height == 0 || region->width == 0 ||
        !psti_range_fits(region->y, region->height, height) ||
        !psti_range_fits(region->x, region->width, width))
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, codec, -1,
                                "region y %u x %u height %u width %u is not within %u x %u pixels",
                                region->y, region->x, region->height, region->width, width, height);
    return check_size(info, job->options->max_pixels, job->err);
}

static enum pst_status run_codec(struct psti_decode_job *job)
{
    switch (job->info->form) {
    case PST_FORM_JPEG:
        psti_decode_jpeg_try();
        return psti_decode_jpeg_rows(job);
    case PST_FORM_PNG:
        return psti_decode_png_rows(job);
    case PST_FORM_WEBP:
        return psti_decode_webp_rows(job);
    case PST_FORM_PLI:
    case PST_FORM_PLI_JPEG:
        return psti_decode_pli_rows(job);
    case PST_FORM_RAW:
        return psti_decode_raw_rows(job);
    default:
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, pst_form_name(job->info->form), -1,
                                "form %d is not an image", (int)job->info->form);
    }
}

/* Changes a range of pixels [*from, *from + *count) of a downscaled picture, on one axis, to the
 * range of full-size pixels that it is computed from. The full picture has n pixels on this axis.
 * `margin` counts downscaled pixels: upsampling chroma may read beyond the range, and a chroma
 * sample may be two pixels wide. */
static void unscale(uint32_t *from, uint32_t *count, uint32_t n, uint32_t scale_log2)
{
    const uint32_t margin = 4;
    uint32_t first = *from > margin ? *from - margin : 0;
    uint64_t end = ((uint64_t)*from + *count + margin) << scale_log2;
    *from = first << scale_log2;
    *count = (uint32_t)(end < n ? end : n) - *from;
}

struct psti_rect psti_decode_stored(const struct pst_image_info *info,
                                    const struct pst_decode_options *options, uint32_t scale_log2,
                                    const struct psti_rect *region)
{
    uint8_t orientation = options->ignore_orientation ? 1 : info->orientation;
    bool swaps = psti_decode_turn_swaps(orientation);
    uint32_t height = swaps ? info->width : info->height;
    uint32_t width = swaps ? info->height : info->width;
    struct psti_rect stored =
        psti_decode_turn_to_stored(region, orientation, psti_decode_scaled(height, scale_log2),
                                   psti_decode_scaled(width, scale_log2));
    if (scale_log2 > 0) {
        unscale(&stored.y, &stored.height, height, scale_log2);
        unscale(&stored.x, &stored.width, width, scale_log2);
    }
    return stored;
}

void psti_decode_ends(const struct pst_image_info *info, const struct pst_decode_options *options,
                      bool *top, bool *left)
{
    uint8_t orientation = options->ignore_orientation ? 1 : info->orientation;
    /* A picture of 2 x 2 pixels is enough to tell the sides. `stored` is where its top left shown
     * pixel is stored. A coordinate of 1 there means that the last stored row or column is shown
     * first. */
    const struct psti_rect first = {0, 0, 1, 1};
    struct psti_rect stored = psti_decode_turn_to_stored(&first, orientation, 2, 2);
    bool swaps = psti_decode_turn_swaps(orientation);
    *top = (swaps ? stored.x : stored.y) == 1;
    *left = (swaps ? stored.y : stored.x) == 1;
}

enum pst_status psti_decode_rows(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                 const struct pst_image_info *info,
                                 const struct pst_decode_options *options,
                                 const struct psti_rect *region, psti_row_sink sink, void *ctx,
                                 struct pst_error *err)
{
    return psti_decode_rows_scaled(decoder, bytes, nbytes, info, NULL, options, 0, region, sink,
                                   ctx, err);
}

enum pst_status psti_decode_rows_scaled(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct psti_pli_header *pli,
                                        const struct pst_decode_options *options,
                                        uint32_t scale_log2, const struct psti_rect *region,
                                        psti_row_sink sink, void *ctx, struct pst_error *err)
{
    struct pst_decode_options full;
    enum pst_status status = psti_decode_read_options(options, &full, info->form, err);
    struct psti_decode_job job = {.decoder = decoder,
                                  .bytes = bytes,
                                  .nbytes = nbytes,
                                  .info = info,
                                  .pli = pli,
                                  .options = &full,
                                  .scale_log2 = scale_log2,
                                  .height = psti_decode_scaled(info->height, scale_log2),
                                  .width = psti_decode_scaled(info->width, scale_log2),
                                  .shown = *region,
                                  .sink = sink,
                                  .ctx = ctx,
                                  .err = err};
    if (status == PST_OK)
        status = check_job(&job);
    if (status != PST_OK)
        return status;
    job.orientation = full.ignore_orientation ? 1 : info->orientation;
    if (psti_decode_turn_swaps(job.orientation)) {
        uint32_t height = job.width;
        job.width = job.height;
        job.height = height;
    }
    job.stored = psti_decode_turn_to_stored(region, job.orientation, job.height, job.width);
    decoder->scratch_wanted = 0;
    psti_decode_arena_reset(&decoder->arena);
    return run_codec(&job);
}

enum pst_status psti_decode_region(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                                   const struct pst_image_info *info,
                                   const struct pst_decode_options *options,
                                   const struct psti_rect *region, void *pixels, size_t row_nbytes,
                                   struct pst_error *err)
{
    uint8_t channels, bits;
    psti_decode_output(info, options, &channels, &bits);
    struct psti_decode_target target = {pixels, row_nbytes,
                                        (size_t)region->width * channels * (bits / 8)};
    if (row_nbytes < target.row_nbytes)
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(info->form), -1,
                                "rows %zu bytes apart have no room for %zu bytes", row_nbytes,
                                target.row_nbytes);
    return psti_decode_rows(decoder, bytes, nbytes, info, options, region, psti_decode_copy_rows,
                            &target, err);
}

enum pst_status pst_image_decode(const void *bytes, size_t nbytes, enum pst_form form,
                                 const struct pst_decode_options *options, void *pixels,
                                 size_t pixels_nbytes, size_t row_nbytes, struct pst_error *err)
{
    struct psti_decoder *decoder = NULL;
    struct pst_image_info info;
    uint8_t channels, bits;
    enum pst_status status = pst_image_probe(bytes, nbytes, form, options, &info, sizeof info, err);
    if (status != PST_OK)
        return status;
    psti_decode_output(&info, options, &channels, &bits);
    size_t last_nbytes = (size_t)info.width * channels * (bits / 8), before_nbytes;
    if (!psti_mul_size(row_nbytes, info.height - 1, &before_nbytes) ||
        !psti_range_fits(before_nbytes, last_nbytes, pixels_nbytes))
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(info.form), -1,
                                "%u rows %zu bytes apart do not fit %zu bytes", info.height,
                                row_nbytes, pixels_nbytes);
    status = psti_decode_open(&decoder, err);
    if (status != PST_OK) {
        psti_error_set_codec(err, pst_form_name(info.form));
        return status;
    }
    const struct psti_rect whole = {0, 0, info.height, info.width};
    status =
        psti_decode_region(decoder, bytes, nbytes, &info, options, &whole, pixels, row_nbytes, err);
    psti_decode_close(&decoder);
    return status;
}
