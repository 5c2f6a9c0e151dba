/* fuzz_dataset_parts.c - reads any bytes as a plan of shards, unchanged and with correct checksums.
 * They are refused, or the shards follow each other and printing the plan gives the same bytes. */
#include "base/bits.h"
#include "base/hash.h"
#include "format/format_parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void try_plan(const uint8_t *bytes, size_t nbytes)
{
    struct psti_parts parts;
    struct pst_error err;
    pst_error_clear(&err);
    if (psti_format_parse_parts(bytes, nbytes, &parts, &err) != PST_OK) {
        if (strncmp(err.text, "the plan of shards", 18) != 0 || parts.n_shards != 0)
            abort();
        return;
    }
    uint64_t *first = malloc(8 * (size_t)parts.n_shards);
    uint8_t *again = malloc(nbytes);
    if (first == NULL || again == NULL)
        abort();
    for (uint32_t i = 0; i < parts.n_shards; i++) {
        first[i] = psti_format_parts_first(bytes, &parts, i);
        if (first[i] > psti_format_parts_first(bytes, &parts, i + 1) ||
            (i > 0 && first[i] >= parts.n_samples))
            abort();
    }
    psti_format_print_parts(&parts, first, again);
    if (nbytes != psti_format_parts_nbytes(parts.n_shards) || memcmp(again, bytes, nbytes) != 0)
        abort();
    free(first);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    /* A copy of the exact length, so that a sanitizer detects reads behind its end. */
    uint8_t *copy = malloc(nbytes > 0 ? nbytes : 1);
    if (copy == NULL || nbytes > 1 << 16)
        goto out;
    memcpy(copy, bytes, nbytes);
    try_plan(copy, nbytes);
    if (nbytes < PSTI_PARTS_HEADER_NBYTES)
        goto out;
    psti_store_u64(copy + 64, psti_hash64(copy + PSTI_PARTS_HEADER_NBYTES,
                                          nbytes - PSTI_PARTS_HEADER_NBYTES));
    psti_store_u64(copy + 72, psti_hash64(copy, 72));
    try_plan(copy, nbytes);
out:
    free(copy);
    return 0;
}
