/* fuzz_fleet_answers.c - reads any bytes as the answers of a memcached server to requests under
 * way: each request must end once, within its buffer. The first byte sets the size of the pieces in
 * which the others arrive. */
#include "fleet/fleet_answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    if (nbytes < 1 || nbytes > 65536)
        return 0;
    /* A fuzzer that traces comparisons can forge a checksum, so the bytes of hits are not
     * compared. */
    (void)feed_answers(bytes + 1, nbytes - 1, bytes[0] ? bytes[0] * 8u : 0, false);
    return 0;
}
