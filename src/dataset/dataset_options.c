/* dataset_options.c - keeps the options with which a data set was opened, for those who open it
 * again in another process. */
#include "dataset/dataset_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

/* Copies a text to *at, and moves *at behind it. */
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
    dataset->options.files = NULL; /* n_files stays: the names are those of the samples */
    /* An index of the data set's own says what these asked for. */
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
