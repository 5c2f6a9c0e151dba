/* fuzz_dataset_shard.c - any bytes as a shard's header and records, walked as the law says; record
 * checksums are also made right, so that lengths behind them are reached. Whatever is accepted must
 * print to the same bytes. */
#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void walk(const uint8_t *bytes, size_t nbytes)
{
    struct psti_shard_header header;
    struct pst_error err;
    (void)!psti_format_parse_shard_header(bytes, nbytes, &header, &err);
    for (uint64_t at = PSTI_SHARD_HEADER_NBYTES; at < nbytes;) {
        struct psti_record record;
        uint8_t printed[PSTI_RECORD_NBYTES];
        uint64_t left = nbytes - at;
        if (psti_format_parse_record(bytes + at, (size_t)left, left, &record, &err) != PST_OK)
            return;
        psti_format_print_record(&record, printed);
        if (memcmp(printed, bytes + at, 10) != 0 || memcmp(printed + 16, bytes + at + 16, 24) != 0)
            abort();
        /* Reads every byte of the item: the sanitizer watches. */
        if (psti_hash64(bytes + at + record.data_offset, (size_t)record.nbytes) == 1)
            abort();
        at = (at + record.data_offset + record.nbytes + 7) & ~(uint64_t)7;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    walk(bytes, nbytes);
    uint8_t *copy = malloc(nbytes + 1);
    memcpy(copy, bytes, nbytes);
    for (size_t at = PSTI_SHARD_HEADER_NBYTES; at + PSTI_RECORD_NBYTES <= nbytes; at += 8)
        if (memcmp(copy + at, "PSTR", 4) == 0)
            psti_store_u64(copy + at + 40, psti_hash64(copy + at, 40));
    walk(copy, nbytes);
    free(copy);
    return 0;
}
