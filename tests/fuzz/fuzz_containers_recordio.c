/* fuzz_containers_recordio.c - anything that may be a RecordIO file, and its ".idx": the bytes
 * behind the last "idx:" of the input, if there is one. The first byte chooses the user's rules. */
#include "fuzz/fuzz_table.h"

#include "containers/recordio/containers_recordio.h"

static const struct psti_field_rule rules[FUZZ_N_RULES] = {
    {.suffix = "value", .type = PST_FIELD_BYTES},
    {.suffix = "image", .field = "photo", .type = PST_FIELD_BYTES},
    {.suffix = "label", .is_left_out = true},
    {.suffix = "record", .type = PST_FIELD_TEXT},
};
static const struct fuzz_kind kind = {.walk = psti_containers_recordio_walk,
                                      .rules = rules,
                                      .gives_joined = true,
                                      .has_values = true};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const char mark[] = "idx:";
    struct psti_table_notes notes = {.path = "a.idx"};
    if (nbytes == 0)
        return 0;
    for (size_t i = nbytes; i-- > 1;)
        if (nbytes - i >= 4 && memcmp(data + i, mark, 4) == 0) {
            notes.bytes = (const char *)data + i + 4;
            notes.nbytes = nbytes - i - 4;
            nbytes = i;
            break;
        }
    fuzz_walk(&kind, data + 1, nbytes - 1, &notes, data[0]);
    return 0;
}
