/* dataset_handle.c - the handle that all kinds of data sets share: allocation, owners, release, and
 * simple properties. Any thread may call these functions, but the last owner's close must not run
 * together with any other call. */
#include "dataset/dataset_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>
#include <unistd.h>

enum pst_status psti_dataset_new(const char *path, size_t nbytes,
                                 const struct psti_dataset_ops *ops, pst_dataset **out,
                                 struct pst_error *err)
{
    pst_dataset *dataset = psti_calloc(1, nbytes);
    char *copy = psti_strdup(path);
    if (dataset == NULL || copy == NULL) {
        psti_free(dataset);
        psti_free(copy);
        *out = NULL;
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for a data set's handle");
    }
    dataset->ops = ops;
    dataset->path = copy;
    dataset->dir_fd = -1;
    atomic_init(&dataset->n_owners, 1);
    *out = dataset;
    return PST_OK;
}

void pst_dataset_retain(pst_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->n_owners, 1, memory_order_relaxed);
}

void pst_dataset_close(pst_dataset **dataset)
{
    pst_dataset *closed = dataset != NULL ? *dataset : NULL;
    if (closed == NULL)
        return;
    *dataset = NULL;
    if (atomic_fetch_sub_explicit(&closed->n_owners, 1, memory_order_acq_rel) != 1)
        return;
    closed->ops->close(closed);
    if (closed->dir_fd >= 0)
        close(closed->dir_fd);
    psti_free(closed->options_memory);
    psti_free(closed->path);
    psti_free(closed);
}

const char *pst_dataset_path(const pst_dataset *dataset) { return dataset->path; }
bool pst_dataset_is_folder(const pst_dataset *dataset)
{
    return dataset->kind == PSTI_DATASET_FOLDER;
}

bool pst_dataset_is_packed(const pst_dataset *dataset)
{
    return dataset->kind == PSTI_DATASET_MIXTURE ? psti_dataset_mixture_is_packed(dataset)
                                                 : dataset->kind == PSTI_DATASET_PACKED;
}

uint64_t pst_dataset_count(const pst_dataset *dataset) { return dataset->n_samples; }
const uint8_t *pst_dataset_id(const pst_dataset *dataset) { return dataset->id; }

uint64_t pst_dataset_n_skipped(const pst_dataset *dataset) { return dataset->n_skipped; }
uint32_t pst_dataset_n_fields(const pst_dataset *dataset) { return dataset->n_fields; }
uint32_t pst_dataset_n_files(const pst_dataset *dataset) { return dataset->n_files; }

const struct pst_field *pst_dataset_field(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? &dataset->fields[i_field] : NULL;
}

int pst_dataset_find_field(const pst_dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->n_fields; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return (int)i;
    return -1;
}

uint64_t pst_dataset_max_item_nbytes(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? dataset->max_item_nbytes[i_field] : 0;
}

uint64_t pst_dataset_max_pixels_nbytes(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? dataset->max_pixels_nbytes[i_field] : 0;
}

uint64_t psti_dataset_max_decoded_nbytes(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? dataset->max_decoded_nbytes[i_field] : 0;
}
