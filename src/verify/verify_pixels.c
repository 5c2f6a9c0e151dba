/* verify_pixels.c - says which pixels a field's checksums cover, and completes errors with their
 * place in a data set. pst_pack stores the checksums and pst_verify compares them. */
#include "verify/verify.h"

#include "base/fail.h"

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
        /* A decoder counts offsets from the item's first byte, but a shard holds many items. */
        err->offset = err->offset < 0 ? (int64_t)item->offset : err->offset + (int64_t)item->offset;
    }
}
