/* decode_pli.c - decodes a PLI to rows, a few at a time.
 *
 * A band of the region's rows is decoded at a time: one row of units, or fewer rows for a JPEG kept
 * as PLI. The band lies in the arena, and is handed on while it is still in the CPU's caches. Only
 * the units that the region touches are decoded. The bytes of other units are never read, so they
 * may be missing from the file. The counters of units change only after the whole region has been
 * handed on. */
#include "decode/decode_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "pli/pli.h"

/* Adds the codec's name to an error of the module pli and returns `status`. The offset in the error
 * stays valid, because both modules count it from the first byte of the image. */
static enum pst_status named(enum pst_status status, struct pst_error *err)
{
    psti_error_set_codec(err, "pli");
    return status;
}

enum pst_status psti_decode_pli_probe(const uint8_t *bytes, size_t nbytes,
                                      struct pst_image_info *info, struct psti_pli_header *header,
                                      struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    enum pst_status status = PST_OK;
    if (header->width == 0)
        status = psti_pli_parse_header(bytes, nbytes, header, err);
    if (status == PST_OK && header->content == PST_PLI_CONTENT_JPEG) {
        status = psti_pli_jpeg_frame(bytes, nbytes, &frame, err);
        if (status == PST_OK)
            info->orientation = frame.orientation;
    }
    if (status != PST_OK)
        return named(status, err);
    info->height = header->height;
    info->width = header->width;
    info->channels = header->channels;
    info->bits = header->bits;
    return PST_OK;
}

/* Takes memory for the decoder's scratch, whose size is set in *nbytes, and a band of pixels behind
 * it. If the memory limit has no room for the size that is fastest, the least size is taken. */
static uint8_t *take_memory(struct psti_decode_job *job, const struct psti_pli_header *h,
                            size_t band_nbytes, size_t *nbytes, enum pst_status *status)
{
    struct psti_decode_arena *arena = &job->decoder->arena;
    const size_t least = psti_pli_region_scratch_least(h, job->stored.width);
    size_t all;
    *nbytes = psti_round_up(psti_pli_region_scratch_nbytes(h, job->stored.width), 64);
    if (!psti_add_size(*nbytes, band_nbytes, &all)) {
        *status = psti_decode_fail(job->err, PST_ERROR_LIMIT, "pli", -1,
                                   "the region does not fit memory");
        return NULL;
    }
    if (least < *nbytes) {
        uint8_t *memory = psti_decode_arena_alloc(arena, all, status);
        if (memory || *status != PST_ERROR_LIMIT)
            return memory;
        job->decoder->scratch_wanted = arena->held + all + 2 * PSTI_CACHE_LINE;
        *status = PST_OK;
        *nbytes = psti_round_up(least, 64);
    }
    return psti_decode_alloc(job, *nbytes + band_nbytes, status);
}

static enum pst_status emit_region(struct psti_decode_job *job, struct psti_emit *emit,
                                   const struct psti_pli_header *h)
{
    const struct psti_rect *r = &job->stored;
    const struct pst_pli_region region = {r->y, r->x, r->height, r->width};
    uint32_t height = psti_pli_band_rows(h->content, psti_pli_edge(h));
    size_t pixel_nbytes = (size_t)h->channels * (h->bits / 8);
    size_t row_nbytes = r->width * pixel_nbytes, band_nbytes;
    size_t scratch_nbytes;
    enum pst_status status = PST_OK;
    height = r->height < height ? r->height : height;
    if (!psti_mul_size(row_nbytes, height, &band_nbytes))
        return psti_decode_fail(job->err, PST_ERROR_LIMIT, "pli", -1,
                                "the region does not fit memory");
    uint8_t *scratch = take_memory(job, h, band_nbytes, &scratch_nbytes, &status);
    if (!scratch)
        return status;
    uint8_t *memory = scratch + scratch_nbytes;
    const struct pst_pixels pixels = {.data = memory,
                                      .height = height,
                                      .width = r->width,
                                      .channels = h->channels,
                                      .bits = h->bits,
                                      .row_nbytes = (int64_t)row_nbytes,
                                      .pixel_nbytes = (int64_t)pixel_nbytes,
                                      .channel_nbytes = h->bits / 8};
    struct psti_emit_band band = {emit, memory, row_nbytes};
    if (job->scale_log2 > 0)
        return psti_pli_jpeg_decode_scaled(h, job->bytes, job->nbytes, job->scale_log2, &region,
                                           &pixels, scratch, scratch_nbytes, psti_decode_emit_band,
                                           &band, job->err);
    return psti_pli_decode_bands(h, job->bytes, job->nbytes, &region, &pixels, scratch,
                                 scratch_nbytes, psti_decode_emit_band, &band, job->err);
}

static void count_units(struct psti_decode_job *job, const struct psti_pli_header *h)
{
    const struct psti_rect *r = &job->stored;
    const struct pst_pli_region region = {r->y, r->x, r->height, r->width};
    job->decoder->n_units += psti_pli_count_units(h, job->bytes, job->scale_log2, &region);
    job->decoder->n_units_whole += (uint64_t)psti_pli_unit_rows(h) * psti_pli_unit_columns(h);
}

enum pst_status psti_decode_pli_rows(struct psti_decode_job *job)
{
    struct psti_pli_header header;
    struct psti_emit emit;
    enum pst_status status = PST_OK;
    if (job->pli)
        header = *job->pli;
    else
        status = psti_pli_parse_header(job->bytes, job->nbytes, &header, job->err);
    if (status != PST_OK)
        return named(status, job->err);
    if (psti_decode_scaled(header.width, job->scale_log2) != job->width ||
        psti_decode_scaled(header.height, job->scale_log2) != job->height ||
        header.channels != job->info->channels || header.bits != job->info->bits)
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, "pli", -1,
                                "the header is not the one that was probed");
    status = psti_decode_emit_begin(&emit, job, header.channels, header.bits);
    if (status == PST_OK)
        status = emit_region(job, &emit, &header);
    if (status == PST_OK)
        status = psti_decode_emit_end(&emit);
    if (status == PST_OK)
        count_units(job, &header);
    return status;
}
