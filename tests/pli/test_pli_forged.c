/* test_pli_forged.c - decodes PLIs of every mode with changed bytes and corrected checksums, so
 * that no checksum stops the decoder. No decode may crash or access memory that is not its own,
 * which AddressSanitizer checks. Plain C and the machine's level must give the same pixels or the
 * same error, also for regions and single channels. The seeds are fixed, so a failure can be
 * repeated. */
#include "pixels.h"
#include "test.h"

#include "decode/decode_make.h"
#include "fuzz/fuzz_pli.h"

#include <penstock/pli.h>

enum { HEIGHT = 70, WIDTH = 133, N_MUTANTS = 400 };

static const struct kind {
    uint8_t channels, bits;
    enum pst_pli_tier tier;
    bool labels, noise, checksums;
    uint32_t max_error;
} kinds[] = {
    {3, 8, PST_PLI_TIER_FAST, false, false, true, 0},
    {4, 16, PST_PLI_TIER_FAST, false, false, false, 0},
    {1, 8, PST_PLI_TIER_SMALL, false, false, true, 2},
    {3, 8, PST_PLI_TIER_SMALL, false, false, false, 0},
    {3, 8, PST_PLI_TIER_DENSE, false, false, true, 0},
    {3, 16, PST_PLI_TIER_DENSE, false, false, false, 0},
    {1, 8, PST_PLI_TIER_DEFAULT, true, false, true, 0},
    {3, 8, PST_PLI_TIER_DEFAULT, true, false, false, 0},
    {2, 16, PST_PLI_TIER_DEFAULT, true, false, true, 0},
    {3, 8, PST_PLI_TIER_FAST, false, true, true, 0},
};

static struct bytes make_pli(const struct kind *kind, uint64_t seed)
{
    struct pst_error err;
    const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                   .tier = kind->tier,
                                                   .max_error = kind->max_error,
                                                   .no_checksum = !kind->checksums};
    const size_t n = (size_t)HEIGHT * WIDTH * kind->channels * (kind->bits / 8u);
    uint8_t *samples = make_picture(HEIGHT, WIDTH, kind->channels * (kind->bits / 8u), seed);
    for (size_t i = 0; i < n; i++)
        samples[i] = kind->labels  ? (uint8_t)(samples[i] / 64 + i / 5000)
                     : kind->noise ? (uint8_t)next_random(&seed)
                                   : samples[i];
    const struct pst_pixels pixels =
        test_pixels(samples, HEIGHT, WIDTH, kind->channels, kind->bits);
    size_t bound = pst_pli_encode_bound(HEIGHT, WIDTH, kind->channels, kind->bits);
    struct bytes file = {malloc(bound), 0};
    assert_ok(pst_pli_encode(&pixels, &options, file.data, bound, &file.nbytes, &err));
    free(samples);
    return file;
}

/* Changes one to four bytes, each in one of five places: the header, the model and index, the size
 * of a unit, the beginning of a unit, or anywhere. */
static void mutate(uint8_t *bytes, size_t nbytes, uint64_t *seed)
{
    struct psti_pli_header header;
    assert_int_equal(psti_pli_parse_header(bytes, nbytes, &header, NULL), PST_OK);
    const size_t head = psti_pli_head_nbytes(&header), entry = psti_pli_index_entry_nbytes(&header);
    const uint32_t n_units = psti_pli_unit_rows(&header) * psti_pli_unit_columns(&header);
    for (uint32_t n = 1 + random_below(seed, 4); n > 0; n--) {
        size_t from = 0, span = nbytes;
        switch (random_below(seed, 5)) {
        case 0:
            from = 5;
            span = 35;
            break;
        case 1:
            from = 40;
            span = head - 40;
            break;
        case 2:
            from = 40 + header.model_nbytes + entry * random_below(seed, n_units);
            span = 2;
            break;
        case 3: {
            size_t at = head;
            for (uint32_t u = random_below(seed, n_units); u > 0; u--)
                at += psti_pli_parse_entry(bytes, &header, u).nbytes;
            from = at < nbytes ? at : head;
            span = nbytes - from < 60 ? nbytes - from : 60;
            break;
        }
        default:
            break;
        }
        uint8_t *at = bytes + from + random_below(seed, (uint32_t)span);
        switch (random_below(seed, 3)) {
        case 0:
            *at ^= (uint8_t)(1u << random_below(seed, 8));
            break;
        case 1:
            *at = (uint8_t)(*at + random_below(seed, 5) - 2);
            break;
        default:
            *at = (uint8_t)next_random(seed);
        }
    }
}

/* Decodes the whole image, a region, and one channel of the region. Returns whether the whole was
 * decoded. */
static bool decode(const uint8_t *bytes, size_t nbytes)
{
    struct pst_pli_info info = {0};
    if (pst_pli_info(bytes, nbytes, &info, sizeof info, NULL) != PST_OK ||
        (uint64_t)info.height * info.width > FUZZ_PLI_MAX_PIXELS)
        return false;
    const struct pst_pli_region region = {info.height / 3, info.width / 2, (info.height + 2) / 3,
                                          (info.width + 1) / 2};
    enum pst_status status = fuzz_pli_decode(bytes, nbytes, &info, NULL, -1);
    (void)fuzz_pli_decode(bytes, nbytes, &info, &region, -1);
    (void)fuzz_pli_decode(bytes, nbytes, &info, &region, info.channels - 1);
    return status == PST_OK;
}

static void mutants(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct bytes file = make_pli(&kinds[k], k);
        uint64_t seed = 1000 * k;
        int n_decoded = 0;
        assert_true(decode(file.data, file.nbytes));
        for (int i = 0; i < N_MUTANTS; i++) {
            /* exact size, so that a sanitizer detects over-reads */
            uint8_t *bytes = malloc(file.nbytes);
            memcpy(bytes, file.data, file.nbytes);
            mutate(bytes, file.nbytes, &seed);
            fuzz_pli_mend(bytes, file.nbytes);
            n_decoded += decode(bytes, file.nbytes);
            free(bytes);
        }
        /* Some mutants must be decoded and some refused, else the test would check too little. */
        assert_in_range(n_decoded, 1, N_MUTANTS - 1);
        bytes_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
