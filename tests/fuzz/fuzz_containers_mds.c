/* fuzz_containers_mds.c - reads any bytes as an MDS shard. The first byte chooses the user's rules.
 * The next two are the length of an index.json, which stands before the shard. */
#include "containers/mds/containers_mds.h"
#include "fuzz/fuzz_table.h"

static const struct psti_field_rule rules[FUZZ_N_RULES] = {
    {.suffix = "x", .type = PST_FIELD_BYTES},
    {.suffix = "a", .type = PST_FIELD_ARRAY},
    {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 10},
    {.suffix = "text", .is_left_out = true},
};
static const struct fuzz_kind kind = {.walk = psti_containers_mds_walk, .rules = rules};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < 3)
        return 0;
    size_t n_notes = (size_t)data[1] | (size_t)data[2] << 8;
    if (n_notes > nbytes - 3)
        n_notes = nbytes - 3;
    struct psti_table_notes notes = {(const char *)data + 3, n_notes, "index.json"};
    fuzz_walk(&kind, data + 3 + n_notes, nbytes - 3 - n_notes, &notes, data[0]);
    return 0;
}
