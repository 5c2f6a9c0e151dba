/* format_samples.c - hashes the properties of samples that do not depend on their stored form.
 *
 * In: names, labels, order; items that state the length of the file they were made from. Out:
 * updates of a pair hash. Pure functions; any thread. Specification: docs/format-dataset.md,
 * section 3.6. */
#include "format/format_dataset.h"

#include "base/bits.h"

#include <string.h>

static void put_u64(struct psti_hash_pair *hash, uint64_t value)
{
    uint8_t bytes[8];
    psti_store_u64(bytes, value);
    psti_hash_pair_update(hash, bytes, sizeof bytes);
}

void psti_format_samples_begin(struct psti_hash_pair *hash, uint64_t n_samples)
{
    psti_hash_pair_begin(hash);
    put_u64(hash, n_samples);
}

void psti_format_samples_field(struct psti_hash_pair *hash, const struct pst_field *field,
                               int64_t n_class_names)
{
    uint8_t type = (uint8_t)field->type;
    psti_hash_pair_update(hash, &type, 1);
    psti_hash_pair_update(hash, field->name, strlen(field->name) + 1);
    put_u64(hash, (uint64_t)n_class_names);
}

void psti_format_samples_names(struct psti_hash_pair *hash)
{
    uint8_t end = 0;
    psti_hash_pair_update(hash, &end, 1);
}

bool pst_item_is_original(const struct pst_item *item)
{
    switch (item->form) {
    case PST_FORM_JPEG:
    case PST_FORM_PNG:
    case PST_FORM_WEBP:
    case PST_FORM_PLI_JPEG:
        return true;
    case PST_FORM_PLI: /* a PLI of pixels was made from another file, unless that file was a PLI */
        return item->was_pli;
    default:
        return false;
    }
}

bool pst_item_was_jpeg(const struct pst_item *item)
{
    return item->form == PST_FORM_PLI_JPEG && !item->was_pli;
}

bool psti_format_file_nbytes(enum pst_field_type type, const struct pst_item *item,
                             uint64_t *nbytes)
{
    bool is_file =
        type == PST_FIELD_AUDIO ? item->form == PST_FORM_BYTES : pst_item_is_original(item);
    *nbytes = pst_item_was_jpeg(item) ? item->jpeg_nbytes : item->nbytes;
    return is_file;
}
