/* dataset_identity.c - the identities of a data set: of its bytes, of its samples, of its listing.
 *
 * In: an open data set. Out: 16 bytes each. Those of the bytes and of the listing are computed at
 * open. That of the samples is stored in newer indexes. Otherwise it takes a pass over all names
 * and labels at the first call, and is then stored in the handle; two threads that compute it at
 * once get the same bytes. A mixture's identities are made of those of its sources
 * (dataset_mixture.c). */
#include "dataset/dataset_int.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <string.h>

enum { COLUMN_CHUNK = 4096 }; /* values of a column that are read at a time */

static enum pst_status hash_column(const pst_dataset *dataset, uint32_t i_field,
                                   struct psti_hash_pair *hash, struct pst_error *err)
{
    uint64_t values[COLUMN_CHUNK];
    enum pst_status status = PST_OK;
    for (uint64_t first = 0; first < dataset->n_samples && status == PST_OK;) {
        uint64_t left = dataset->n_samples - first;
        uint64_t n = left < COLUMN_CHUNK ? left : COLUMN_CHUNK;
        status = pst_dataset_column(dataset, i_field, first, n, values, err);
        if (status == PST_OK)
            psti_hash_pair_update(hash, values, (size_t)n * sizeof values[0]);
        first += n;
    }
    return status;
}

static enum pst_status hash_samples(const pst_dataset *dataset, uint8_t identity[16],
                                    struct pst_error *err)
{
    struct psti_hash_pair hash;
    char name[PST_NAME_CAP];
    enum pst_status status = PST_OK;
    psti_format_samples_begin(&hash, dataset->n_samples);
    for (uint32_t i = 0; i < dataset->n_fields && status == PST_OK; i++) {
        const struct pst_field *field = &dataset->fields[i];
        if (psti_format_has_items(field->type))
            continue;
        int64_t n_classes = pst_dataset_class_name(dataset, i, 0) != NULL ? field->n_classes : 0;
        psti_format_samples_field(&hash, field, n_classes);
        for (int64_t label = 0; label < n_classes; label++) {
            const char *class_name = pst_dataset_class_name(dataset, i, label);
            psti_hash_pair_update(&hash, class_name, strlen(class_name) + 1);
        }
        status = hash_column(dataset, i, &hash, err);
    }
    psti_format_samples_names(&hash);
    for (uint64_t i = 0; i < dataset->n_samples && status == PST_OK; i++) {
        status = pst_dataset_sample_name(dataset, i, name, err);
        if (status == PST_OK)
            psti_hash_pair_update(&hash, name, strlen(name) + 1);
    }
    psti_hash_pair_end(&hash, identity);
    return status;
}

void psti_dataset_keep_samples_identity(pst_dataset *dataset, const uint8_t identity[16])
{
    atomic_store_explicit(&dataset->samples[0], psti_load_u64(identity), memory_order_relaxed);
    atomic_store_explicit(&dataset->samples[1], psti_load_u64(identity + 8), memory_order_relaxed);
    atomic_store_explicit(&dataset->has_samples, true, memory_order_release);
}

static enum pst_status samples_identity(const pst_dataset *dataset, uint8_t identity[16],
                                        struct pst_error *err)
{
    if (!atomic_load_explicit(&dataset->has_samples, memory_order_acquire)) {
        enum pst_status status = dataset->ops->samples != NULL
                                     ? dataset->ops->samples(dataset, identity, err)
                                     : hash_samples(dataset, identity, err);
        /* The cast is safe: this stored identity is the only thing in an open data set that may
         * change. */
        if (status == PST_OK)
            psti_dataset_keep_samples_identity((pst_dataset *)dataset, identity);
        return status;
    }
    for (int half = 0; half < 2; half++)
        psti_store_u64(identity + 8 * half,
                       atomic_load_explicit(&dataset->samples[half], memory_order_relaxed));
    return PST_OK;
}

enum pst_status pst_dataset_identity(const pst_dataset *dataset, enum pst_identity kind,
                                     uint8_t identity[PST_IDENTITY_NBYTES], struct pst_error *err)
{
    switch (kind) {
    case PST_IDENTITY_BYTES:
        memcpy(identity, dataset->bytes_identity, PST_IDENTITY_NBYTES);
        return PST_OK;
    case PST_IDENTITY_LISTED:
        memcpy(identity, dataset->listed_identity, PST_IDENTITY_NBYTES);
        return PST_OK;
    case PST_IDENTITY_FILES:
        if (!dataset->has_files_identity)
            return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                             "the index does not tell how long the files were that its samples "
                             "were made from");
        memcpy(identity, dataset->files_identity, PST_IDENTITY_NBYTES);
        return PST_OK;
    case PST_IDENTITY_SAMPLES:
        return samples_identity(dataset, identity, err);
    }
    return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no kind %d of identities",
                     (int)kind);
}

const uint8_t *psti_dataset_bytes_identity(const pst_dataset *dataset)
{
    return dataset->bytes_identity;
}

enum pst_status psti_dataset_check_identity(const pst_dataset *dataset, struct pst_error *err)
{
    uint8_t stated[16], found[16];
    if (!atomic_load_explicit(&dataset->has_samples, memory_order_acquire) ||
        dataset->ops->samples != NULL)
        return PST_OK;
    enum pst_status status = samples_identity(dataset, stated, err);
    if (status == PST_OK)
        status = hash_samples(dataset, found, err);
    if (status != PST_OK || memcmp(stated, found, sizeof found) == 0)
        return status;
    psti_fail(err, PST_ERROR_CORRUPT, "dataset",
              "the index states another identity of its samples than their names and labels have");
    psti_error_set_dataset(err, dataset->path);
    return PST_ERROR_CORRUPT;
}
