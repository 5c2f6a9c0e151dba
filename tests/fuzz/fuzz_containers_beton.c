/* fuzz_containers_beton.c - anything that may be a file of FFCV: its tables, and the places and
 * sizes of its items. The first byte chooses the user's rules. */
#include "fuzz/fuzz_rows.h"

#include "containers/beton/containers_beton.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes > 0)
        fuzz_rows(psti_containers_beton_walk, data, nbytes, NULL);
    return 0;
}
