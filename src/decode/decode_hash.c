/* decode_hash.c - checksums of decoded pixels: XXH3-64 of (H,W,C), u8 or u16 little-endian.
 *
 * The orientation is applied first. The exception is a JPEG kept as PLI: its checksum is computed
 * from the pixels as stored. Any thread may call these functions, with a decoder of its own. */
#include "decode/decode_int.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

bool psti_decode_pixels_nbytes(const struct pst_image_info *info,
                               const struct pst_decode_options *options, size_t *row_nbytes,
                               size_t *nbytes)
{
    uint8_t channels, bits;
    psti_decode_output(info, options, &channels, &bits);
    return psti_mul_size(info->width, (size_t)channels * (bits / 8), row_nbytes) &&
           psti_mul_size(*row_nbytes, info->height, nbytes);
}

struct hash_sink {
    struct psti_hash_state state;
    size_t row_nbytes;
};

static enum pst_status hash_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                 uint32_t n_rows)
{
    struct hash_sink *sink = ctx;
    (void)y;
    for (uint32_t i = 0; i < n_rows; i++)
        psti_hash_update(&sink->state, (const char *)rows + i * row_nbytes, sink->row_nbytes);
    return PST_OK;
}

enum pst_status psti_decode_hash_rows(struct psti_decoder *decoder, const void *bytes,
                                      size_t nbytes, const struct pst_image_info *info,
                                      const struct pst_decode_options *options, uint32_t n_rows,
                                      uint64_t *hash, struct pst_error *err)
{
    const struct psti_rect rows = {0, 0, n_rows, info->width};
    struct hash_sink sink;
    size_t total;
    if (!psti_decode_pixels_nbytes(info, options, &sink.row_nbytes, &total))
        return psti_fail(err, PST_ERROR_LIMIT, "decode", "%ux%u pixels are too many", info->width,
                         info->height);
    psti_hash_begin(&sink.state);
    enum pst_status status =
        psti_decode_rows(decoder, bytes, nbytes, info, options, &rows, hash_rows, &sink, err);
    if (status == PST_OK)
        *hash = psti_hash_end(&sink.state);
    return status;
}

enum pst_status psti_decode_hash_reference(struct psti_decoder *decoder, const void *bytes,
                                           size_t nbytes, const struct pst_image_info *info,
                                           const struct pst_decode_options *options,
                                           uint32_t n_rows, uint64_t *hash, struct pst_error *err)
{
    const bool others = decoder->libjpeg_only;
    decoder->libjpeg_only = true;
    enum pst_status status =
        psti_decode_hash_rows(decoder, bytes, nbytes, info, options, n_rows, hash, err);
    decoder->libjpeg_only = others;
    return status;
}

enum pst_status psti_decode_hash_pixels(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct pst_decode_options *options, uint64_t *hash,
                                        struct pst_error *err)
{
    struct pst_decode_options how = *options;
    struct pst_image_info stored = *info;
    if (info->form == PST_FORM_PLI_JPEG && !options->ignore_orientation) {
        how.ignore_orientation = true;
        if (info->orientation >= 5) { /* the orientation swaps height and width */
            stored.height = info->width;
            stored.width = info->height;
        }
    }
    return psti_decode_hash_rows(decoder, bytes, nbytes, &stored, &how, stored.height, hash, err);
}

enum pst_status psti_decode_hash_jpeg(struct psti_decoder *decoder, const void *jpeg, size_t nbytes,
                                      uint64_t *hash, struct pst_error *err)
{
    const struct pst_decode_options options = {
        .struct_size = sizeof options, .max_pixels = UINT64_MAX, .ignore_orientation = true};
    struct pst_image_info info;
    enum pst_status status =
        psti_decode_probe(decoder, jpeg, nbytes, PST_FORM_JPEG, &options, &info, err);
    if (status == PST_OK)
        status = psti_decode_hash_reference(decoder, jpeg, nbytes, &info, &options, info.height,
                                            hash, err);
    return status;
}
