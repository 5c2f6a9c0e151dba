/* fuzz_containers_wids.c - reads any bytes as an index of wids: names must end with a NUL, counts
 * must not be negative, and whatever is refused must have a cause. */
#include "containers/list/containers_wids.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static enum pst_status take(void *context, const char *url, int64_t n_samples,
                            struct pst_error *err)
{
    size_t *left = context;
    (void)err;
    CHECK(strlen(url) < *left && n_samples >= -1);
    *left -= strlen(url);
    return PST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_tree tree;
    struct pst_error err = {0};
    size_t left = nbytes + 1; /* all names together are shorter than the file */
    enum pst_status status =
        psti_containers_tree_json(&tree, "a.json", (const char *)data, nbytes, &err);
    if (status == PST_OK)
        status = psti_containers_wids_read(&tree, take, &left, &err);
    CHECK(status == PST_OK || err.text[0] != '\0');
    psti_containers_tree_free(&tree);
    return 0;
}
