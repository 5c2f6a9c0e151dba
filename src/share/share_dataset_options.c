/* share_dataset_options.c - converts a data set, or a mixture with its data sets, to bytes and
 * descriptors, and back. */
#include "share/share_dataset_options.h"

#include "dataset/dataset.h"

#include <penstock/mixture.h>

#include <string.h>

enum pst_status psti_share_put_dataset(struct psti_wire_out *out, const pst_dataset *dataset,
                                       int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                       struct pst_error *err)
{
    if (pst_dataset_n_sources(dataset) == 0)
        return psti_share_put_one(out, dataset, fds, n_fds, err);
    psti_share_put_mixture_head(out, dataset);
    return psti_share_put_mixture(dataset, fds, n_fds, err);
}

enum pst_status psti_share_open_dataset(const struct psti_share_dataset *dataset, const int *fds,
                                        uint32_t n_fds, pst_dataset **out, struct pst_error *err)
{
    if (!dataset->is_mixture)
        return psti_share_open_one(dataset, fds, n_fds, out, err);
    return psti_share_check_version(dataset, psti_share_open_mixture(fds, n_fds, out, err), out,
                                    err);
}

void psti_share_cache_shape(const pst_dataset *dataset, struct psti_cache_shape *shape,
                            uint32_t items[PST_MAX_FIELDS])
{
    *shape = (struct psti_cache_shape){.n_samples = pst_dataset_count(dataset),
                                       .lacks_sums = !psti_dataset_can_check_bytes(dataset)};
    for (uint32_t i = 0; i < pst_dataset_n_fields(dataset); i++) {
        const struct pst_field *field = pst_dataset_field(dataset, i);
        items[i] = shape->n_items;
        if (field->type != PST_FIELD_INT && field->type != PST_FIELD_FLOAT)
            shape->n_items += field->n_variants;
    }
    memcpy(shape->identity, psti_dataset_bytes_identity(dataset), sizeof shape->identity);
}

void psti_share_cache_field(const pst_dataset *dataset, const uint32_t *items, uint32_t i_item,
                            uint32_t *i_field, uint32_t *variant)
{
    uint32_t n = pst_dataset_n_fields(dataset);
    for (*i_field = 0; *i_field + 1 < n && items[*i_field + 1] <= i_item; ++*i_field)
        ;
    *variant = i_item - items[*i_field];
}
