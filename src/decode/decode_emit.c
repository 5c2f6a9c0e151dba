/* decode_emit.c - takes rows from a codec and hands them to the sink, converted and rotated as
 * needed; and the sink that copies rows to memory.
 *
 * Codecs deliver rows of the stored region, from top to bottom. Rows that need no conversion and no
 * rotation go to the sink as they are. A picture that is only mirrored left to right is mirrored a
 * few rows at a time. Any other orientation needs the whole region first, which is kept in the
 * arena and counts against the scratch limit. Rows are converted before they are kept, because the
 * conversion may make them smaller. */
#include "decode/decode_int.h"

#include "base/checked.h"

#include <string.h>

static bool keeps_frame(uint8_t orientation) { return orientation > 2; }

enum pst_status psti_decode_emit_begin(struct psti_emit *emit, struct psti_decode_job *job,
                                       uint8_t channels_in, uint8_t bits_in)
{
    enum pst_status status = PST_OK;
    size_t frame_nbytes;
    memset(emit, 0, sizeof *emit);
    emit->job = job;
    emit->channels_in = channels_in;
    emit->bits_in = bits_in;
    psti_decode_output(job->info, job->options, &emit->channels, &emit->bits);
    emit->converts = emit->channels != channels_in || emit->bits != bits_in;
    emit->pixel_nbytes = (size_t)emit->channels * (emit->bits / 8);
    /* The buffers below are as wide as the wider one of the stored and the shown region, so that a
     * band of rows of either fits. */
    emit->row_nbytes = emit->pixel_nbytes * job->stored.width;
    if (keeps_frame(job->orientation)) {
        if (!psti_mul_size(emit->row_nbytes, job->stored.height, &frame_nbytes))
            return psti_decode_fail(job->err, PST_ERROR_LIMIT, pst_form_name(job->info->form), -1,
                                    "the region does not fit memory");
        emit->frame = psti_decode_alloc(job, frame_nbytes, &status);
        if (!emit->frame)
            return status;
    }
    if (emit->converts || job->orientation != 1) {
        size_t widest = job->stored.width > job->shown.width ? job->stored.width : job->shown.width;
        emit->band =
            psti_decode_alloc(job, widest * emit->pixel_nbytes * PSTI_BAND_ROWS * 2, &status);
        if (!emit->band)
            return status;
    }
    return PST_OK;
}

static enum pst_status to_sink(struct psti_emit *emit, const void *rows, size_t row_nbytes,
                               uint32_t y, uint32_t n_rows)
{
    struct psti_decode_job *job = emit->job;
    job->decoder->nbytes_out += (uint64_t)n_rows * job->shown.width * emit->pixel_nbytes;
    return job->sink(job->ctx, rows, row_nbytes, y, n_rows);
}

enum pst_status psti_decode_emit_rows(struct psti_emit *emit, const void *rows, size_t row_nbytes,
                                      uint32_t n_rows)
{
    struct psti_decode_job *job = emit->job;
    uint32_t y = emit->y, width = job->stored.width;
    const uint8_t *from = rows;
    emit->y += n_rows;
    if (emit->converts || emit->frame) {
        uint8_t *to = emit->frame ? emit->frame + (size_t)y * emit->row_nbytes : emit->band;
        for (uint32_t i = 0; i < n_rows; i++)
            psti_decode_convert(from + i * row_nbytes, emit->channels_in, emit->bits_in,
                                to + i * emit->row_nbytes, emit->channels, emit->bits, width);
        from = to;
        row_nbytes = emit->row_nbytes;
    }
    if (emit->frame)
        return PST_OK;
    if (job->orientation == 2) {
        uint8_t *turned = emit->band + PSTI_BAND_ROWS * emit->row_nbytes;
        psti_decode_turn_rows(from, row_nbytes, n_rows, width, 2, emit->pixel_nbytes, turned,
                              emit->row_nbytes, 0, n_rows);
        from = turned;
        row_nbytes = emit->row_nbytes;
    }
    return to_sink(emit, from, row_nbytes, y, n_rows);
}

enum pst_status psti_decode_emit_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    const struct psti_emit_band *band = ctx;
    enum pst_status status = PST_OK;
    (void)y;
    for (uint32_t i = 0; i < n_rows && status == PST_OK; i += PSTI_BAND_ROWS) {
        uint32_t left = n_rows - i;
        status =
            psti_decode_emit_rows(band->emit, band->pixels + i * band->row_nbytes, band->row_nbytes,
                                  left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS);
    }
    return status;
}

enum pst_status psti_decode_emit_end(struct psti_emit *emit)
{
    const struct psti_decode_job *job = emit->job;
    size_t band_nbytes = emit->pixel_nbytes * job->shown.width;
    enum pst_status status = PST_OK;
    if (!emit->frame)
        return PST_OK;
    for (uint32_t y = 0; y < job->shown.height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = job->shown.height - y;
        uint32_t n_rows = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        psti_decode_turn_rows(emit->frame, emit->row_nbytes, job->stored.height, job->stored.width,
                              job->orientation, emit->pixel_nbytes, emit->band, band_nbytes, y,
                              n_rows);
        status = to_sink(emit, emit->band, band_nbytes, y, n_rows);
    }
    return status;
}

enum pst_status psti_decode_copy_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows)
{
    const struct psti_decode_target *target = ctx;
    const char *from = rows;
    char *to = (char *)target->pixels + y * target->stride_nbytes;
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(to + i * target->stride_nbytes, from + i * row_nbytes, target->row_nbytes);
    return PST_OK;
}
