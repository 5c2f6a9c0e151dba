/* decode_png_band.c - hands on the rows of a PNG, for both ways to decode it.
 *
 * In: stored rows of the region. Out: rows for the emitter (decode_emit.c). If the stored rows are
 * not in the wanted format, decode_png_row.c converts them. It runs on the decoder's thread. */
#include "decode/png/decode_png.h"

enum pst_status psti_decode_png_begin(struct psti_png *png)
{
    const struct psti_decode_job *job = png->job;
    const struct pst_image_info *info = job->info;
    enum pst_status status =
        psti_decode_emit_begin(&png->emit, png->job, info->channels, info->bits);
    bool as_stored = png->header.depth == 8 && !png->header.trns && !png->has_palette;
    png->band = NULL;
    png->band_nbytes = (size_t)job->stored.width * info->channels * (info->bits / 8);
    if (status == PST_OK && !as_stored)
        png->band = psti_decode_alloc(png->job, png->band_nbytes * PSTI_BAND_ROWS, &status);
    return status;
}

enum pst_status psti_decode_png_emit(struct psti_png *png, const uint8_t *rows, size_t row_nbytes,
                                     uint32_t n_rows)
{
    const struct psti_rect *region = &png->job->stored;
    const struct psti_png_palette *palette = png->has_palette ? &png->palette : NULL;
    struct psti_emit *emit = &png->emit;
    if (!png->band)
        return psti_decode_emit_rows(
            emit, rows + (size_t)region->x * psti_decode_png_pixel_bits(&png->header) / 8,
            row_nbytes, n_rows);
    for (uint32_t i = 0; i < n_rows; i++)
        if (!psti_decode_png_convert_row(&png->header, palette, rows + i * row_nbytes, region->x,
                                         region->width, png->band + i * png->band_nbytes))
            return psti_decode_fail(png->job->err, PST_ERROR_CORRUPT, "png", -1,
                                    "row %u has a pixel beyond the %u entries of the palette",
                                    region->y + emit->y + i, png->palette.n);
    return psti_decode_emit_rows(emit, png->band, png->band_nbytes, n_rows);
}
