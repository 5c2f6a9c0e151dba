/* The encoder of the wave mode writes the same bytes at every CPU level, in both tiers and at all
 * efforts: this program runs itself again with the level lowered, and hashes are compared. The
 * AVX2 loops are also held to plain C one by one. */
#include "test.h"

#include <penstock/pli.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "encode/pli_wave_encode_int.h"
#include "encode/pli_wave_filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEIGHT = 83, WIDTH = 150, MAX_NBYTES = HEIGHT * WIDTH * 4 * 2 };

static uint32_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* Slopes with noise, some samples far off. */
static void fill(uint8_t *data, size_t n, uint32_t channels, uint64_t *random)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)(i / channels % WIDTH), y = (uint32_t)(i / channels / WIDTH);
        uint32_t v = 60 + x / 2 + y + (uint32_t)(i % channels) * 20 + draw(random) % 9;
        data[i] = draw(random) % 50 == 0 ? (uint8_t)draw(random) : (uint8_t)v;
    }
}

/* Of all that is encoded; 0 if something cannot be. */
static uint64_t hash_all(void)
{
    uint8_t *data = malloc(MAX_NBYTES);
    size_t capacity = pst_pli_encode_bound(HEIGHT, WIDTH, 4, 16), nbytes;
    uint8_t *bytes = malloc(capacity);
    struct psti_hash_state state;
    uint64_t random = 1;
    bool good = data && bytes;
    psti_hash_begin(&state);
    for (uint32_t turn = 0; good && turn < 2 * 5 * 4 * 2; turn++) {
        uint32_t tier = turn % 2, effort = 1 + turn / 2 % 5, channels = 1 + turn / 10 % 4;
        uint32_t sample = 1 + turn / 40;
        struct pst_error err;
        struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                 .tier =
                                                     tier ? PST_PLI_TIER_DENSE : PST_PLI_TIER_SMALL,
                                                 .effort = effort};
        struct pst_pixels pixels = {.data = data,
                                    .height = HEIGHT,
                                    .width = WIDTH,
                                    .channels = (uint8_t)channels,
                                    .bits = (uint8_t)(8 * sample),
                                    .row_nbytes = (int64_t)WIDTH * channels * sample,
                                    .pixel_nbytes = (int64_t)channels * sample,
                                    .channel_nbytes = sample};
        fill(data, (size_t)HEIGHT * WIDTH * channels * sample, channels * sample, &random);
        good = pst_pli_encode(&pixels, &options, bytes, capacity, &nbytes, &err) == PST_OK;
        if (good)
            psti_hash_update(&state, bytes, nbytes);
    }
    free(bytes);
    free(data);
    return good ? psti_hash_end(&state) : 0;
}

static void test_levels(void **state)
{
    char self[4096], command[sizeof self + 64], line[64] = {0}, wanted[64];
    (void)state;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    uint64_t hash = hash_all();
    assert_true(hash != 0);
    (void)snprintf(wanted, sizeof wanted, "%llx\n", (unsigned long long)hash);
    (void)snprintf(command, sizeof command, "PENSTOCK_CPU_MASK=c '%s' hash", self);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(line, wanted);
}

#if defined(__x86_64__)
static void test_buckets(void **state)
{
    (void)state;
    if (!(psti_cpu_detected() & PSTI_CPU_AVX2))
        skip();
    for (uint32_t first = 0; first < 256; first += PSTI_WAVE_EDGE) {
        uint8_t energies[PSTI_WAVE_EDGE], contexts[PSTI_WAVE_EDGE];
        for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++)
            energies[x] = (uint8_t)(first + x);
        psti_wave_find_buckets_avx2(energies, contexts);
        for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++)
            assert_int_equal(contexts[x], psti_pli_wave_bucket[first + x]);
    }
}

static void test_filter_prices(void **state)
{
    uint64_t random = 7;
    static uint8_t plane[PSTI_WAVE_SAMPLES];
    static int16_t g[PSTI_WAVE_SAMPLES], r[PSTI_WAVE_SAMPLES];
    struct psti_wave_work *work = aligned_alloc(64, (sizeof *work + 63) / 64 * 64);
    (void)state;
    assert_non_null(work);
    if (!(psti_cpu_detected() & PSTI_CPU_AVX2)) {
        free(work);
        skip();
    }
    for (uint32_t turn = 0; turn < 60; turn++) {
        static struct psti_wave_filter_prices in_c, in_avx2;
        struct psti_pli_source source = {.height = 1 + draw(&random) % 64,
                                         .width = 1 + draw(&random) % 64,
                                         .channels = 1,
                                         .bits = 8,
                                         .planes = {plane}};
        uint32_t range = turn % 2 ? 256 : 12;
        for (uint32_t i = 0; i < PSTI_WAVE_SAMPLES; i++) {
            plane[i] = (uint8_t)(draw(&random) % range * (turn % 4 == 3 ? 255 : 1));
            g[i] = (int16_t)((int)(draw(&random) % 256) - 128);
            r[i] = (int16_t)((int)(draw(&random) % 256) - 128);
        }
        struct psti_wave_filter_query query = {
            .list = turn % 3,
            .n_filters = PSTI_PLI_N_FILTERS + 1,
            .n_rows = source.height < PSTI_WAVE_BLOCK ? source.height : PSTI_WAVE_BLOCK,
            .step = 2u << turn % 3,
            .width = source.width,
            .g = g,
            .r = r};
        psti_wave_rows_for(0, 8)->gather(&source, 0, 0, work);
        psti_wave_price_filters_c(work, &query, &in_c);
        psti_wave_price_filters_avx2(work, &query, &in_avx2);
        for (uint32_t i = 0; i < query.n_filters; i++)
            for (uint32_t k = 0; k < (source.width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK; k++)
                assert_int_equal(in_avx2.of[i][k], in_c.of[i][k]);
    }
    free(work);
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
#if defined(__x86_64__)
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_filter_prices),
#endif
    };
    if (argc > 1 && strcmp(argv[1], "hash") == 0) {
        (void)printf("%llx\n", (unsigned long long)hash_all());
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
