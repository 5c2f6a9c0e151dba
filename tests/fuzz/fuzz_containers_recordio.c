/* fuzz_containers_recordio.c - reads any bytes as a RecordIO file. If the input contains "idx:",
 * the bytes behind the last one are its index file. The first byte chooses the user's rules. */
#include "fuzz/fuzz_table.h"

#include "containers/recordio/containers_recordio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const char mark[] = "idx:";
    struct psti_table_notes notes = {.path = "a.idx"};
    for (size_t i = nbytes; i-- > 1;)
        if (nbytes - i >= 4 && memcmp(data + i, mark, 4) == 0) {
            notes.bytes = (const char *)data + i + 4;
            notes.nbytes = nbytes - i - 4;
            nbytes = i;
            break;
        }
    fuzz_records(psti_containers_recordio_walk, data, nbytes, &notes);
    return 0;
}
