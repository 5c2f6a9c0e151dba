/* fuzz_cli_transforms.c - any bytes as a file of operations for `penstock view`: they are refused
 * with a line and a reason, or give operations that are within their limits. */
#include "../../tools/penstock/view.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct pst_error err;
    struct view_transforms *all = calloc(1, sizeof *all);
    char *text = malloc(nbytes + 1);
    if (all == NULL || text == NULL || nbytes > 1 << 16)
        goto out;
    memcpy(text, bytes, nbytes);
    text[nbytes] = '\0';
    pst_error_clear(&err);
    if (view_transforms_parse(text, nbytes, all, &err) != PST_OK) {
        if (strncmp(err.text, "line ", 5) != 0)
            abort();
        goto out;
    }
    for (uint32_t i = 0; i < all->n_chains; i++) {
        const struct view_chain *chain = &all->chains[i];
        if (i >= PST_MAX_FIELDS || chain->n_ops > VIEW_OPS_MAX || strlen(chain->field) > 63)
            abort();
        for (size_t k = 0; k < chain->n_ops; k++)
            if (chain->ops[k].kind < PST_OP_RESIZE || chain->ops[k].kind > PST_OP_AUGMIX)
                abort();
    }
out:
    free(text);
    free(all);
    return 0;
}
