/* cli_original.c - original files of images: those stored unchanged, and JPEGs restored from PLI.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum pst_status cli_find_original(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t *variant, struct pst_item *item, bool *found,
                                  struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *found = false;
    for (*variant = 0;
         status == PST_OK && *variant < pst_dataset_field(dataset, i_field)->n_variants;
         ++*variant) {
        status = pst_dataset_item(dataset, sample, i_field, *variant, item, sizeof *item, err);
        if (status == PST_OK)
            cli_item_decoded(item);
        if (status == PST_OK && (pst_item_is_original(item) || (!pst_dataset_is_packed(dataset) &&
                                                                item->i_file != PST_FILE_NONE))) {
            *found = true;
            return PST_OK;
        }
    }
    return status;
}

enum pst_status cli_restore_jpeg(void **bytes, size_t *nbytes, struct pst_error *err)
{
    struct pst_pli_info info = {0};
    enum pst_status status = pst_pli_info(*bytes, *nbytes, &info, sizeof info, err);
    if (status != PST_OK)
        return status;
    void *jpeg = malloc((size_t)info.jpeg_nbytes + 1);
    if (jpeg == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for a JPEG of %u bytes",
                         info.jpeg_nbytes);
    status = pst_pli_to_jpeg(*bytes, *nbytes, jpeg, info.jpeg_nbytes, nbytes, err);
    if (status != PST_OK) {
        free(jpeg);
        return status;
    }
    free(*bytes);
    *bytes = jpeg;
    return PST_OK;
}

enum pst_status cli_keep_jpeg(const void *jpeg, size_t jpeg_nbytes, void **bytes, size_t *nbytes,
                              struct pst_error *err)
{
    size_t capacity = pst_pli_from_jpeg_bound(jpeg_nbytes);
    *bytes = malloc(capacity);
    if (*bytes == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for %zu bytes", capacity);
    return pst_pli_from_jpeg(jpeg, jpeg_nbytes, NULL, *bytes, capacity, nbytes, err);
}
