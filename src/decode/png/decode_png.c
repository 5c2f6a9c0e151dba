/* decode_png.c - decodes a PNG to rows. It checks the image and chooses between libdeflate and
 * libpng.
 *
 * In: a job. Out: rows of the region, handed to the emitter (decode_emit.c). It runs on the
 * decoder's thread. */
#include "decode/png/decode_png.h"

enum pst_status psti_decode_png_rows(struct psti_decode_job *job)
{
    struct psti_png png;
    const struct psti_png_header *header = &png.header;
    enum pst_status status = psti_decode_png_header(job->bytes, job->nbytes, &png.header, job->err);
    if (status != PST_OK)
        return status;
    bool indices = job->options->palette_indices;
    if (header->width != job->width || header->height != job->height ||
        psti_decode_png_channels(header, indices) != job->info->channels ||
        (header->depth == 16 ? 16 : 8) != job->info->bits)
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, "png", -1,
                                "the image is not the one that was probed, or the options differ");
    png.job = job;
    png.stored_nbytes = ((size_t)header->width * psti_decode_png_pixel_bits(header) + 7) / 8;
    png.has_palette = header->colour_type == PSTI_PNG_PALETTE && !indices;
    if (png.has_palette)
        psti_decode_png_palette_fill(header, &png.palette);
    if (psti_decode_png_whole(&png, &status))
        return status;
    psti_decode_arena_reset(&job->decoder->arena);
    job->decoder->n_libpng++;
    return psti_decode_png_libpng(&png);
}
