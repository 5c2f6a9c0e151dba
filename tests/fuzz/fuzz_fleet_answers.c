/* fuzz_fleet_answers.c - any bytes as the answers of a memcached server to requests under way: each
 * request ends once, within its buffer. The first byte says in which pieces the others come. */
#include "fleet/fleet_answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    if (nbytes < 1 || nbytes > 65536)
        return 0;
    /* A fuzzer that watches comparisons can forge a checksum, so bytes of hits are not compared. */
    (void)feed_answers(bytes + 1, nbytes - 1, bytes[0] ? bytes[0] * 8u : 0, false);
    return 0;
}
