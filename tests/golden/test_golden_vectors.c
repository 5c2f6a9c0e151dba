/* test_golden_vectors.c - the test vectors of docs/format-pli.md decode to the pixels that the
 * document states, on every CPU level; pst_pli_info returns their sizes. */
#include "pixels.h"
#include "test.h"

#include <penstock/pli.h>

#include "base/bits.h"
#include "base/machine/cpu.h"
#include "pli/decode/pli_decode_int.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_NBYTES = 4096, VECTOR_NBYTES = 1024, N_SAMPLES_MAX = 1024, N_VECTORS = 10 };

struct vector {
    char name[64];
    uint32_t height, width, channels, bits;
    uint8_t *bytes;
    size_t nbytes;
    uint16_t samples[N_SAMPLES_MAX];
    size_t n_samples;
};

static const char *document;

static void check(const struct vector *v)
{
    const uint32_t levels[] = {0, psti_cpu_detected()};
    struct pst_pli_info info = {0};
    struct pst_error err;
    uint8_t *bytes = malloc(v->nbytes); /* exact size, so a sanitizer detects over-reads */
    uint16_t out[N_SAMPLES_MAX];
    memcpy(bytes, v->bytes, v->nbytes);
    print_message("%s: %zu bytes\n", v->name, v->nbytes);
    assert_ok(pst_pli_info(bytes, v->nbytes, &info, sizeof info, &err));
    assert_int_equal(info.nbytes, v->nbytes);
    assert_int_equal(info.height, v->height);
    assert_int_equal(info.width, v->width);
    assert_int_equal(info.channels, v->channels);
    assert_int_equal(info.bits, v->bits);
    assert_int_equal(v->n_samples, (size_t)v->height * v->width * v->channels);
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(&info, sizeof info), 64);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    const struct pst_pixels pixels = test_pixels(out, v->height, v->width, v->channels, v->bits);
    for (size_t level = 0; level < 2; level++) {
        memset(out, 0x5A, sizeof out);
        assert_ok(psti_pli_decode_on(levels[level], bytes, v->nbytes, NULL, -1, &pixels, scratch,
                                     scratch_nbytes, &err));
        for (size_t i = 0; i < v->n_samples; i++)
            assert_int_equal(v->bits == 8 ? ((uint8_t *)out)[i] : out[i], v->samples[i]);
    }
    free(scratch);
    free(bytes);
}

/* Reads the numbers of a line after its first word. */
static void read_numbers(const char *line, struct vector *v, bool is_hex)
{
    char *at = strchr(line, ' '), *end;
    for (unsigned long n = strtoul(at, &end, is_hex ? 16 : 10); end != at;
         n = strtoul(at, &end, is_hex ? 16 : 10)) {
        assert_true(is_hex ? v->nbytes < VECTOR_NBYTES : v->n_samples < N_SAMPLES_MAX);
        if (is_hex)
            v->bytes[v->nbytes++] = (uint8_t)n;
        else
            v->samples[v->n_samples++] = (uint16_t)n;
        at = end;
    }
}

static void test_vectors(void **state)
{
    char line[LINE_NBYTES];
    struct vector v = {.bytes = malloc(VECTOR_NBYTES)};
    int n_vectors = 0;
    FILE *file = fopen(document, "r");
    (void)state;
    if (!file)
        fail_msg("%s: cannot be read", document);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "vector ", 7) == 0) {
            v.nbytes = v.n_samples = 0;
            assert_int_equal(sscanf(line, "vector %63s %u %u %u %u", v.name, &v.height, &v.width,
                                    &v.channels, &v.bits),
                             5);
        } else if (strncmp(line, "hex ", 4) == 0) {
            read_numbers(line, &v, true);
        } else if (strncmp(line, "pixels ", 7) == 0) {
            read_numbers(line, &v, false);
        } else if (strncmp(line, "```", 3) == 0 && v.nbytes > 0) {
            check(&v);
            v.nbytes = 0;
            n_vectors++;
        }
    }
    fclose(file);
    free(v.bytes);
    assert_int_equal(n_vectors, N_VECTORS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    if (argc < 2)
        return 2;
    document = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
