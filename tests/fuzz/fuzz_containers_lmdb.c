/* fuzz_containers_lmdb.c - reads any bytes as a data file of LMDB: its pages and the values of its
 * entries. The first byte chooses the user's rules. */
#include "fuzz/fuzz_table.h"

#include "containers/lmdb/containers_lmdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct psti_table_notes none = {.path = ""};
    fuzz_records(psti_containers_lmdb_walk, data, nbytes, &none);
    return 0;
}
