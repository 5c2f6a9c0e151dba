/* coded_dataset.c - replaces the operations of a data set by some that report its items as
 * coded. */
#include "dataset/coded_dataset.h"

#include "dataset/dataset_int.h"

#include <stdlib.h>

#include <zlib.h>

static struct {
    const struct psti_dataset_ops *under;
    struct psti_dataset_ops ops;
    enum pst_form forms[PST_MAX_FIELDS];
    const uint64_t *decoded_nbytes[PST_MAX_FIELDS]; /* NULL: the field is unchanged */
} coded;

void *deflate_bytes(const void *bytes, size_t nbytes, size_t *n)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    size_t capacity = deflateBound(&stream, nbytes) + 64;
    void *out = malloc(capacity);
    if (out == NULL)
        abort();
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)nbytes;
    stream.next_out = out;
    stream.avail_out = (uInt)capacity;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    *n = stream.total_out;
    (void)deflateEnd(&stream);
    return out;
}

static enum pst_status coded_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    enum pst_status status =
        coded.under->item(dataset, sample, i_field, variant, item, err);
    if (status != PST_OK || coded.decoded_nbytes[i_field] == NULL)
        return status;
    item->form = coded.forms[i_field];
    item->coding = PST_CODING_DEFLATE;
    item->decoded_nbytes = coded.decoded_nbytes[i_field][sample];
    return PST_OK;
}

void code_field(pst_dataset *dataset, uint32_t i_field, enum pst_field_type type,
                enum pst_form form, const uint64_t *decoded_nbytes)
{
    if (dataset->ops != &coded.ops) {
        for (uint32_t i = 0; i < dataset->n_files; i++) /* checks shards with the old types, once */
            if (psti_dataset_check_shard(dataset, i, NULL) != PST_OK)
                abort();
        coded.under = dataset->ops;
        coded.ops = *dataset->ops;
        coded.ops.item = coded_item;
        for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
            coded.decoded_nbytes[i] = NULL;
        dataset->ops = &coded.ops;
    }
    coded.forms[i_field] = form;
    coded.decoded_nbytes[i_field] = decoded_nbytes;
    dataset->fields[i_field].type = type;
    for (uint64_t i = 0; i < dataset->n_samples; i++)
        if (decoded_nbytes[i] > dataset->max_decoded_nbytes[i_field])
            dataset->max_decoded_nbytes[i_field] = decoded_nbytes[i];
}
