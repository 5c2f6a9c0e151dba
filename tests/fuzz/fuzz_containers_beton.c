/* fuzz_containers_beton.c - reads any bytes as a beton file (FFCV): its tables, and the offsets and
 * sizes of its items. The first byte chooses the user's rules. */
#include "fuzz/fuzz_table.h"

#include "containers/beton/containers_beton.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct psti_table_notes none = {.path = ""};
    fuzz_records(psti_containers_beton_walk, data, nbytes, &none);
    return 0;
}
