/* fuzz_containers_beton.c - anything that may be a file of FFCV: its tables, and the places and
 * sizes of its items. The first byte chooses the user's rules. */
#include "fuzz/fuzz_table.h"

#include "containers/beton/containers_beton.h"

static const struct psti_field_rule rules[FUZZ_N_RULES] = {
    {.suffix = "value", .type = PST_FIELD_BYTES},
    {.suffix = "image", .field = "photo", .type = PST_FIELD_BYTES},
    {.suffix = "label", .is_left_out = true},
    {.suffix = "record", .type = PST_FIELD_TEXT},
};
static const struct fuzz_kind kind = {
    .walk = psti_containers_beton_walk, .rules = rules, .gives_joined = true, .has_values = true};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct psti_table_notes none = {.path = ""};
    if (nbytes > 0)
        fuzz_walk(&kind, data + 1, nbytes - 1, &none, data[0]);
    return 0;
}
