/* verify_pixels.c - pixel checksums, which pst_pack stores and pst_verify compares.
 *
 * In: encoded bytes. Out: XXH3-64 of the pixels (H,W,C), u8 or u16 little-endian. The
 * orientation is applied, except for a JPEG kept as PLI, whose checksum is that of the stored
 * pixels. Any thread, with a decoder of its own. */
#include "verify/verify.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

void psti_verify_decode_options(enum pst_field_type type, struct pst_decode_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->palette_indices = type == PST_FIELD_MASK;
}

bool psti_verify_is_lossless(enum pst_form form, const void *bytes, size_t nbytes)
{
    return form == PST_FORM_PNG || form == PST_FORM_RAW || form == PST_FORM_PLI ||
           (form == PST_FORM_WEBP && psti_decode_webp_is_lossless(bytes, nbytes));
}

bool psti_verify_pixels_nbytes(const struct pst_image_info *info,
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

enum pst_status psti_verify_hash_pixels(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct pst_decode_options *options, uint64_t *hash,
                                        struct pst_error *err)
{
    struct hash_sink sink;
    struct pst_decode_options how = *options;
    struct pst_image_info stored = *info;
    size_t total;
    if (info->form == PST_FORM_PLI_JPEG && !options->ignore_orientation) {
        how.ignore_orientation = true;
        if (info->orientation >= 5) { /* rotated by a quarter */
            stored.height = info->width;
            stored.width = info->height;
        }
    }
    const struct psti_rect whole = {0, 0, stored.height, stored.width};
    if (!psti_verify_pixels_nbytes(&stored, &how, &sink.row_nbytes, &total))
        return psti_fail(err, PST_ERROR_LIMIT, "verify", "%ux%u pixels are too many", info->width,
                         info->height);
    psti_hash_begin(&sink.state);
    enum pst_status status =
        psti_decode_rows(decoder, bytes, nbytes, &stored, &how, &whole, hash_rows, &sink, err);
    if (status == PST_OK)
        *hash = psti_hash_end(&sink.state);
    return status;
}

void psti_verify_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                        const struct pst_item *item)
{
    char path[8192];
    if (err == NULL)
        return;
    if (err->dataset[0] == '\0')
        psti_error_set_dataset(err, pst_dataset_path(dataset));
    if (err->sample < 0)
        err->sample = (int64_t)sample;
    if (item == NULL)
        return;
    if (err->codec[0] == '\0' && item->form != PST_FORM_NONE && item->form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(item->form));
    if (err->file[0] == '\0' && item->i_file != PST_FILE_NONE &&
        pst_dataset_file_path(dataset, item->i_file, path, sizeof path, NULL) == PST_OK) {
        psti_error_set_file(err, path);
        /* A decoder counts offsets from the item's first byte; a shard holds many items. */
        err->offset = err->offset < 0 ? (int64_t)item->offset : err->offset + (int64_t)item->offset;
    }
}
