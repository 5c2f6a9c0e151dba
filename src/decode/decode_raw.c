/* decode_raw.c - hands a region's rows of raw pixels to the sink, straight from the stored bytes.
 *
 * Rows are copied only if 16-bit samples lie at an odd address, because sinks and conversions read
 * samples as uint16_t. */
#include "decode/decode_int.h"

#include "base/checked.h"

#include <string.h>

static size_t pixel_nbytes(const struct pst_image_info *info)
{
    return (size_t)info->channels * (info->bits / 8);
}

enum pst_status psti_decode_raw_probe(size_t nbytes, const struct pst_image_info *info,
                                      struct pst_error *err)
{
    if (info->form != PST_FORM_RAW || info->channels < 1 || info->channels > 4 ||
        (info->bits != 8 && info->bits != 16) || info->palette)
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, "raw", -1,
                                "raw pixels have 1 to 4 channels of 8 or 16 bits, not %u of %u",
                                info->channels, info->bits);
    uint64_t expected = (uint64_t)info->height * info->width * pixel_nbytes(info);
    if (nbytes < expected)
        return psti_decode_fail(err, PST_ERROR_TRUNCATED, "raw", (int64_t)nbytes,
                                "%u x %u pixels are %llu bytes, but only %zu are there",
                                info->width, info->height, (unsigned long long)expected, nbytes);
    if (nbytes > expected)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "raw", (int64_t)expected,
                                "%u x %u pixels are %llu bytes, but %zu are there", info->width,
                                info->height, (unsigned long long)expected, nbytes);
    return PST_OK;
}

enum pst_status psti_decode_raw_rows(struct psti_decode_job *job)
{
    struct psti_emit emit;
    enum pst_status status = psti_decode_raw_probe(job->nbytes, job->info, job->err);
    if (status == PST_OK)
        status = psti_decode_emit_begin(&emit, job, job->info->channels, job->info->bits);
    if (status != PST_OK)
        return status;
    size_t row_nbytes = pixel_nbytes(job->info) * job->width;
    size_t used_nbytes = pixel_nbytes(job->info) * job->stored.width;
    bool aligned = job->info->bits == 8 || (uintptr_t)job->bytes % 2 == 0;
    uint8_t *copy = NULL;
    if (!aligned) {
        copy = psti_decode_alloc(job, used_nbytes * PSTI_BAND_ROWS, &status);
        if (!copy)
            return status;
    }
    const uint8_t *from = job->bytes + (size_t)job->stored.y * row_nbytes +
                          (size_t)job->stored.x * pixel_nbytes(job->info);
    for (uint32_t y = 0; y < job->stored.height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = job->stored.height - y;
        uint32_t n_rows = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        const uint8_t *band = from + y * row_nbytes;
        for (uint32_t i = 0; copy && i < n_rows; i++)
            memcpy(copy + i * used_nbytes, band + i * row_nbytes, used_nbytes);
        status = copy ? psti_decode_emit_rows(&emit, copy, used_nbytes, n_rows)
                      : psti_decode_emit_rows(&emit, band, row_nbytes, n_rows);
    }
    return status == PST_OK ? psti_decode_emit_end(&emit) : status;
}
