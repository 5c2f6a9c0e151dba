/* fuzz_containers_tfrecord.c - reads any bytes as a TFRecord file. The first byte chooses the
 * user's rules. If its highest bit is set, the rest is the file. Otherwise the rest is a
 * features.json and records, each after its length in two bytes, and the target makes a file of
 * them with correct checksums. */
#include "containers/tfrecord/containers_tfrecord.h"
#include "base/bits.h"
#include "base/crc32c.h"
#include "fuzz/fuzz_table.h"

static const struct psti_field_rule rules[FUZZ_N_RULES] = {
    {.suffix = "x", .type = PST_FIELD_BYTES},
    {.suffix = "a", .type = PST_FIELD_ARRAY},
    {.suffix = "label", .type = PST_FIELD_INT, .n_classes = 10},
    {.suffix = "text", .is_left_out = true},
};
static const struct fuzz_kind kind = {.walk = psti_containers_tfrecord_walk, .rules = rules};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

/* Takes a piece of the input that follows its length. */
static size_t piece(const uint8_t **at, const uint8_t *end, const uint8_t **bytes)
{
    size_t n = end - *at < 2 ? 0 : psti_load_u16(*at);
    *at += end - *at < 2 ? end - *at : 2;
    *bytes = *at;
    n = n > (size_t)(end - *at) ? (size_t)(end - *at) : n;
    *at += n;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (data[0] >= 0x80) {
        fuzz_walk(&kind, data + 1, nbytes - 1, NULL, data[0]);
        return 0;
    }
    const uint8_t *at = data + 1, *end = data + nbytes, *bytes;
    size_t n_notes = piece(&at, end, &bytes), n = 0;
    struct psti_table_notes notes = {(const char *)bytes, n_notes, "features.json"};
    /* a record takes at least two bytes of input, and 16 more in the file */
    uint8_t *file = malloc(16 + 16 * nbytes);
    CHECK(file != NULL);
    while (at < end) {
        size_t length = piece(&at, end, &bytes);
        psti_store_u64(file + n, length);
        psti_store_u32(file + n + 8, masked(psti_crc32c(0, file + n, 8)));
        memcpy(file + n + 12, bytes, length);
        psti_store_u32(file + n + 12 + length, masked(psti_crc32c(0, bytes, length)));
        n += 16 + length;
    }
    uint8_t *exact = malloc(n > 0 ? n : 1);
    CHECK(exact != NULL);
    memcpy(exact, file, n);
    free(file);
    fuzz_walk(&kind, exact, n, &notes, data[0]);
    free(exact);
    return 0;
}
