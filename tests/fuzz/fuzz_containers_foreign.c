/* fuzz_containers_foreign.c - reads any bytes as an index of wds2idx or Energon: it fits the
 * samples of a walk, or it is refused with a cause. The walk's offsets are 0, 1536, 3072, ...; the
 * first byte of the input is their number. */
#include "containers/list/containers_foreign.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    uint64_t offsets[256];
    struct pst_error err = {0};
    if (nbytes == 0)
        return 0;
    for (int i = 0; i < 256; i++)
        offsets[i] = (uint64_t)i * 1536;
    if (!psti_containers_foreign_fits("a.idx", data + 1, nbytes - 1, offsets, data[0], &err) &&
        err.text[0] == '\0')
        abort();
    return 0;
}
