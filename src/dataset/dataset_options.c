/* dataset_options.c - copies the options with which a data set was opened, so that it can be opened
 * again in another process. */
#include "dataset/dataset_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

/* Copies a text to *at and moves *at behind it. Returns the copy. */
static const char *copy_text(char **at, const char *text)
{
    size_t nbytes = strlen(text) + 1;
    const char *copy = memcpy(*at, text, nbytes);
    *at += nbytes;
    return copy;
}

enum pst_status psti_dataset_keep_options(pst_dataset *dataset,
                                          const struct pst_dataset_options *options,
                                          struct pst_error *err)
{
    size_t n_masks = options->labels ? options->n_masks : 0;
    size_t nbytes = n_masks * sizeof(char *) + (options->labels ? strlen(options->labels) + 1 : 0);
    dataset->options = *options;
    dataset->options.labels = NULL;
    dataset->options.masks = NULL;
    dataset->options.progress = NULL;
    dataset->options.progress_ctx = NULL;
    dataset->options.n_masks = 0;
    dataset->options.files = NULL; /* dropped, because the samples have these names; n_files is
                                    * kept */
    /* The index already reflects these options, so they need not be kept. */
    dataset->options.split = NULL;
    dataset->options.members = NULL;
    dataset->options.n_members = 0;
    for (size_t i = 0; i < n_masks; i++)
        nbytes += strlen(options->masks[i]) + 1;
    if (nbytes == 0)
        return PST_OK;
    const char **masks = psti_alloc(nbytes);
    if (!masks)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for options");
    char *at = (char *)(masks + n_masks);
    dataset->options_memory = masks;
    for (size_t i = 0; i < n_masks; i++)
        masks[i] = copy_text(&at, options->masks[i]);
    dataset->options.labels = copy_text(&at, options->labels);
    dataset->options.masks = n_masks ? masks : NULL;
    dataset->options.n_masks = n_masks;
    return PST_OK;
}

const struct pst_dataset_options *psti_dataset_options(const pst_dataset *dataset)
{
    return &dataset->options;
}
