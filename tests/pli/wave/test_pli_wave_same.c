/* The encoder of the wave mode writes the same bytes at every CPU level, in both tiers and at all
 * efforts: the program runs itself again at a lower level and compares hashes. It also compares
 * each AVX2 loop with plain C. */
#include "pixels.h"
#include "test.h"

#include <penstock/pli.h>

#include "base/bits.h"
#include "base/machine/cpu.h"
#include "base/hash.h"
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/pli_wave_filters.h"
#include "pli/encode/x86/pli_rans_avx2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* images are WIDTH or WIDTH - 1 pixels wide */
enum { HEIGHT = 83, WIDTH = 150, MAX_NBYTES = HEIGHT * WIDTH * 4 * 2 };

static uint32_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* Fills a picture with slopes, noise and a few outliers. With 16 bits noise grows to the right.
 * With 8 bits the first units are slopes that only the predictor MED follows. */
static void fill(uint8_t *data, uint32_t width, uint32_t channels, uint32_t bits, uint64_t *random)
{
    for (size_t i = 0; i < (size_t)HEIGHT * width * channels; i++) {
        uint32_t x = (uint32_t)(i / channels % width), y = (uint32_t)(i / channels / width);
        uint32_t noise = draw(random) % (bits == 8 ? 9 : 3 + (1u << x / 10));
        uint32_t v = 60 + x / 2 + y + (uint32_t)(i % channels) * 20 + noise;
        v = draw(random) % 50 == 0 ? draw(random) : v;
        if (bits == 8 && x < PSTI_WAVE_EDGE)
            v = (3 + (uint32_t)(i % channels)) * (4 * x - 2 * y) + x * y % 3;
        if (bits == 8)
            data[i] = (uint8_t)v;
        else
            psti_store_u16(data + 2 * i, (uint16_t)v);
    }
}

/* Returns a hash of all encoded files, or 0 if an image cannot be encoded. */
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
        uint32_t sample = 1 + turn / 40, width = WIDTH - turn / 2 % 2;
        struct pst_error err;
        struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                 .tier =
                                                     tier ? PST_PLI_TIER_DENSE : PST_PLI_TIER_SMALL,
                                                 .effort = effort};
        struct pst_pixels pixels = test_pixels(data, HEIGHT, width, channels, 8 * sample);
        fill(data, width, channels, 8 * sample, &random);
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
/* Compares the contexts of a padded row. They depend on the activities of this row, of the two rows
 * above and of the two planes before. */
static void test_contexts(void **state)
{
    enum { S = PSTI_WAVE_PADDED };
    uint64_t random = 5;
    (void)state;
    if (!(psti_cpu_detected() & PSTI_CPU_AVX2))
        skip();
    for (uint32_t turn = 0; turn < 600; turn++) {
        uint32_t range = 1 + turn % 47;
        uint8_t rows[3 * S], before[2][PSTI_WAVE_EDGE], contexts[PSTI_WAVE_EDGE];
        const uint8_t *g = rows + 2 * S + PSTI_WAVE_PAD;
        for (size_t i = 0; i < sizeof rows; i++)
            rows[i] = (uint8_t)(draw(&random) % range);
        for (size_t i = 0; i < sizeof before; i++)
            before[i / PSTI_WAVE_EDGE][i % PSTI_WAVE_EDGE] = (uint8_t)(draw(&random) % range);
        for (enum psti_pli_energy kind = PSTI_PLI_ENERGY_FIRST; kind <= PSTI_PLI_ENERGY_THIRD;
             kind++) {
            psti_pli_wave_find_contexts_u16_avx2(kind, g, before[0], before[1], contexts);
            for (int x = 0; x < PSTI_WAVE_EDGE; x++) {
                uint8_t e =
                    psti_pli_wave_energy(kind, g[x - 1], g[x - S], g[x - S - 1], g[x - S + 1],
                                         g[x - 2 * S], g[x - 2], before[0][x], before[1][x]);
                assert_int_equal(contexts[x], psti_pli_wave_bucket[1][e]);
            }
        }
    }
}

/* The result of tokenising a plane of 8 bits. */
struct plane_of_pairs {
    uint8_t g[PSTI_WAVE_PAD_ROWS + PSTI_WAVE_EDGE][PSTI_WAVE_PADDED];
    /* Indices and values of pairs, by lane and band. */
    uint16_t indices[PSTI_PLI_LANES][2][PSTI_PLI_WAVE_PAIRS];
    uint16_t values[PSTI_PLI_LANES][2][PSTI_PLI_WAVE_PAIRS];
};

static struct psti_pli_wave_coded_pair pair_at(const struct psti_wave_record_rows *r, uint32_t y,
                                               uint32_t p, uint32_t token)
{
    int32_t x = r->residuals[y * PSTI_WAVE_EDGE + 2 * p];
    int32_t v = 2 * p + 1 < r->width ? r->residuals[y * PSTI_WAVE_EDGE + 2 * p + 1] : 0;
    if (token == PSTI_PLI_WAVE_ANY_PAIR)
        return (struct psti_pli_wave_coded_pair){(uint8_t)token, (uint8_t)x, (uint8_t)v};
    return psti_pli_wave_code_pair(x, v);
}

/* Computes a row as the format defines it. Finds the contexts, replaces tokens that their contexts
 * lack by the last token, and finds the contexts again. */
static void expect_row(const struct psti_wave_record_rows *r, uint32_t y,
                       struct plane_of_pairs *out)
{
    enum { S = PSTI_WAVE_PADDED };
    uint32_t n = (r->width + 1) / 2;
    uint8_t *g = out->g[PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD, contexts[PSTI_PLI_WAVE_PAIRS];
    const uint8_t *z = r->z ? r->z + (size_t)y * S : g - 2;
    for (uint32_t p = 0; p < n; p++)
        g[p] = psti_pli_wave_activities[pair_at(r, y, p, 0).token];
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (int p = 0; p < (int)n; p++)
            contexts[p] = psti_pli_wave_bucket[0][psti_pli_wave_pair_energy(
                g[p - 1], g[p - S], g[p - S - 1], g[p - 2 * S], g[p - 2 * S + 1], z[p])];
        for (uint32_t p = 0; turn == 0 && p < n; p++)
            g[p] = contexts[p] < r->first_with[g[p] % 16] ? PSTI_PLI_WAVE_ANY_ACTIVITY : g[p];
    }
    uint16_t *indices = out->indices[y % PSTI_PLI_LANES][y / PSTI_PLI_LANES];
    uint16_t *values = out->values[y % PSTI_PLI_LANES][y / PSTI_PLI_LANES];
    for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++) {
        uint32_t token = psti_pli_wave_tokens_of[g[p] % 16];
        struct psti_pli_wave_coded_pair c = pair_at(r, y, p, token);
        bool there = p < n;
        indices[p] = there ? (uint16_t)(token | (uint32_t)contexts[p] << PSTI_WAVE_TOKEN_BITS_8)
                           : PSTI_WAVE_NONE_8;
        values[p] = (uint16_t)(c.first | c.second << 8);
    }
}

static void check_plane(const struct psti_wave_record_rows *r, const struct plane_of_pairs *got,
                        const struct plane_of_pairs *wanted)
{
    assert_memory_equal(got->g, wanted->g, sizeof got->g);
    for (uint32_t y = 0; y < r->height; y++)
        for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++) {
            uint32_t l = y % PSTI_PLI_LANES, k = y / PSTI_PLI_LANES;
            uint32_t index = wanted->indices[l][k][p], token = index % PSTI_PLI_N_TOKENS_8;
            uint32_t mask = (1u << psti_pli_wave_first_bits[token]) - 1;
            mask |= ((1u << psti_pli_wave_second_bits[token]) - 1) << 8;
            assert_int_equal(got->indices[l][k][p], index);
            if (index != PSTI_WAVE_NONE_8)
                assert_int_equal(got->values[l][k][p] & mask, wanted->values[l][k][p]);
        }
}

/* Draws residuals of all sizes. The first 32 turns cover every possible pair. */
static int16_t draw_residual(uint64_t *random, uint32_t turn, uint32_t i)
{
    if (turn < 32)
        return (int8_t)(i % 2 ? i / 2 + 2048 * turn : (i / 2 + 2048 * turn) >> 8);
    uint32_t v = draw(random), range = 2u << draw(random) % 8;
    return (int16_t)((int32_t)(v % range) - (int32_t)(range / 2));
}

static void test_pairs(void **state)
{
    static struct plane_of_pairs got, wanted;
    static int16_t residuals[PSTI_WAVE_SAMPLES];
    static uint8_t z[PSTI_WAVE_EDGE * PSTI_WAVE_PADDED];
    uint64_t random = 9;
    (void)state;
    if (!(psti_cpu_detected() & PSTI_CPU_AVX2))
        skip();
    for (uint32_t turn = 0; turn < 400; turn++) {
        uint8_t first_with[16], g[PSTI_WAVE_EDGE] = {0};
        struct psti_wave_record_rows r = {.height = turn < 32 ? 64 : 1 + draw(&random) % 64,
                                          .width = turn < 32 ? 64 : 1 + draw(&random) % 64,
                                          .stride = 2 * PSTI_PLI_WAVE_PAIRS,
                                          .residuals = residuals,
                                          .z = turn % 3 == 2 ? z : NULL,
                                          .first_with = first_with,
                                          .g = got.g[PSTI_WAVE_PAD_ROWS] + PSTI_WAVE_PAD,
                                          .indices = got.indices[0][0],
                                          .values = got.values[0][0]};
        memset(&got, 0, sizeof got);
        memset(&wanted, 0, sizeof wanted);
        for (uint32_t i = 0; i < PSTI_WAVE_SAMPLES; i++)
            residuals[i] = draw_residual(&random, turn, i);
        /* some tokens need a minimum context; tokens 0 and 15 never do */
        for (uint32_t i = 0; i < 16; i++)
            first_with[i] = turn >= 64 && draw(&random) % 4 == 0 ? draw(&random) % 16 : 0;
        first_with[0] = first_with[PSTI_PLI_WAVE_ANY_ACTIVITY % 16] = 0;
        for (uint32_t i = 0; i < sizeof z; i++)
            z[i] = psti_pli_wave_activities[draw(&random) % PSTI_PLI_N_TOKENS_8];
        psti_pli_wave_put_records_u8_avx2(&r);
        for (uint32_t y = 0; y < r.height; y++)
            expect_row(&r, y, &wanted);
        check_plane(&r, &got, &wanted);
        psti_pli_wave_find_activities_u8_avx2(residuals, r.width, g);
        for (uint32_t p = 0; p < (r.width + 1) / 2; p++)
            assert_int_equal(g[p], psti_pli_wave_activities[pair_at(&r, 0, p, 0).token]);
    }
}

/* Tests the shuffle tables: each moves the words of the lanes in a mask to the end of 16 bytes and
 * fills the bytes before them with zeros. */
static void test_picks(void **state)
{
    (void)state;
    for (uint32_t mask = 0; mask < 256; mask++) {
        const uint8_t *pick = psti_rans_picks.bytes[mask];
        uint32_t at = 8;
        for (uint32_t lane = 8; lane-- > 0;)
            if (mask >> lane & 1) {
                at--;
                assert_int_equal(pick[2 * at], 2 * lane);
                assert_int_equal(pick[2 * at + 1], 2 * lane + 1);
            }
        for (uint32_t i = 0; i < 2 * at; i++)
            assert_true(pick[i] >= 128);
    }
}

/* Draws a plane of a unit and the residuals g and r of two other planes. In every second turn
 * samples have the whole range. */
static struct psti_pli_source draw_unit(uint64_t *random, uint32_t turn, uint32_t bits, void *plane,
                                        int16_t *g, int16_t *r)
{
    uint32_t all = 1u << bits, half = all / 2, range = turn % 2 ? all : 12;
    /* half of these turns multiply all samples by all - 1, modulo `all` */
    uint32_t step = turn % 4 == 3 ? all - 1 : 1;
    for (uint32_t i = 0; i < PSTI_WAVE_SAMPLES; i++) {
        uint32_t v = draw(random) % range * step;
        if (bits == 8)
            ((uint8_t *)plane)[i] = (uint8_t)v;
        else
            ((uint16_t *)plane)[i] = (uint16_t)v;
        g[i] = (int16_t)((int)(draw(random) % all) - (int)half);
        r[i] = (int16_t)((int)(draw(random) % all) - (int)half);
    }
    return (struct psti_pli_source){.height = 1 + draw(random) % 64,
                                    .width = 1 + draw(random) % 64,
                                    .channels = 1,
                                    .bits = (uint8_t)bits,
                                    .planes = {plane}};
}

static void compare_rows(const struct psti_pli_source *s, uint32_t x0, uint32_t columns,
                         uint32_t n_rows, const int16_t *a, const int16_t *b)
{
    for (uint32_t y = 0; y < n_rows; y++)
        for (uint32_t x = x0; x < x0 + columns && x < s->width; x++)
            assert_int_equal(a[y * PSTI_WAVE_EDGE + x], b[y * PSTI_WAVE_EDGE + x]);
}

static void compare_loops(uint32_t turn, const struct psti_pli_source *s, const int16_t *g,
                          const int16_t *r, struct psti_wave_work *in_c,
                          struct psti_wave_work *in_avx2)
{
    const struct psti_wave_rows *c = s->bits == 8 ? &psti_wave_rows_u8_c : &psti_wave_rows_u16_c;
    const struct psti_wave_rows *v =
        s->bits == 8 ? &psti_wave_rows_u8_avx2 : &psti_wave_rows_u16_avx2;
    uint32_t from = turn % 3 ? 0 : 3, n_rows = s->height < 16 ? s->height : 16;
    uint64_t prices_c[4], prices_v[4];
    struct psti_wave_moments moments_c = {0}, moments_v = {0};
    memset(in_c->zeros, 0, sizeof in_c->zeros);
    memset(in_avx2->zeros, 0, sizeof in_avx2->zeros);
    c->try_simple(s, 0, from, in_c, prices_c);
    v->try_simple(s, 0, from, in_avx2, prices_v);
    for (uint32_t i = from; i < 4; i++) {
        assert_int_equal(prices_v[i], prices_c[i]);
        compare_rows(s, 0, 64, s->height, in_avx2->trial[i], in_c->trial[i]);
        assert_int_equal(v->price(s, in_c->trial[i]), prices_c[i]);
    }
    c->add_moments(s, g, r, in_c->trial[3], &moments_c);
    v->add_moments(s, g, r, in_c->trial[3], &moments_v);
    assert_memory_equal(&moments_v, &moments_c, sizeof moments_c);
    c->add_taps(in_c->trial[3], s->height, (int8_t)turn, (int8_t)(turn * 7), g, r, in_c->trial[4]);
    v->add_taps(in_c->trial[3], s->height, (int8_t)turn, (int8_t)(turn * 7), g, r,
                in_avx2->trial[4]);
    compare_rows(s, 0, 64, s->height, in_avx2->trial[4], in_c->trial[4]);
    for (uint32_t k = 0; k < 2; k++) { /* k 1: with both taps; k 0: with one */
        int8_t a = (int8_t)turn, b = (int8_t)(k * turn * 7);
        c->add_taps(in_c->trial[3], s->height, a, b, g, r, in_c->trial[4]);
        uint64_t price = c->price(s, in_c->trial[4]);
        assert_int_equal(c->price_taps(s, in_c->trial[3], a, b, g, r), price);
        assert_int_equal(v->price_taps(s, in_c->trial[3], a, b, g, r), price);
    }
    c->gather(s, 0, 0, in_c);
    v->gather(s, 0, 0, in_avx2);
    for (uint32_t x0 = 0; x0 < s->width; x0 += PSTI_WAVE_BLOCK) {
        struct psti_wave_candidate f = psti_pli_wave_filter(turn % 3, (turn + x0) % 64);
        c->find_block(in_c, &f, n_rows, x0, g, r, in_c->trial[0]);
        v->find_block(in_avx2, &f, n_rows, x0, g, r, in_avx2->trial[0]);
        compare_rows(s, x0, PSTI_WAVE_BLOCK, n_rows, in_avx2->trial[0], in_c->trial[0]);
    }
}

static void test_loops(void **state)
{
    uint64_t random = 3;
    static uint16_t plane[PSTI_WAVE_SAMPLES];
    static int16_t g[PSTI_WAVE_SAMPLES], r[PSTI_WAVE_SAMPLES];
    struct psti_wave_work *work = aligned_alloc(64, 2 * sizeof *work);
    (void)state;
    assert_non_null(work);
    bool there = (psti_cpu_detected() & PSTI_CPU_AVX2) != 0;
    for (uint32_t turn = 0; there && turn < 200; turn++) {
        struct psti_pli_source s = draw_unit(&random, turn, turn % 5 > 1 ? 8 : 16, plane, g, r);
        compare_loops(turn, &s, g, r, &work[0], &work[1]);
    }
    free(work);
    if (!there)
        skip();
}

static void test_filter_prices(void **state)
{
    uint64_t random = 7;
    static uint16_t plane[PSTI_WAVE_SAMPLES];
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
        uint32_t bits = turn % 5 > 1 ? 8 : 16;
        struct psti_pli_source source = draw_unit(&random, turn, bits, plane, g, r);
        struct psti_wave_filter_query query = {
            .list = turn % 3,
            .n_filters = PSTI_PLI_N_FILTERS + 1,
            .n_rows = source.height < PSTI_WAVE_BLOCK ? source.height : PSTI_WAVE_BLOCK,
            .step = (bits == 8 ? 2u : 1u) << turn % 3,
            .width = source.width,
            .g = g,
            .r = r};
        (bits == 8 ? &psti_wave_rows_u8_c : &psti_wave_rows_u16_c)->gather(&source, 0, 0, work);
        (bits == 8 ? psti_pli_wave_price_filters_c
                   : psti_pli_wave_price_filters_u16_c)(work, &query, &in_c);
        (bits == 8 ? psti_pli_wave_price_filters_avx2
                   : psti_pli_wave_price_filters_u16_avx2)(work, &query, &in_avx2);
        for (uint32_t k = 0; k < (source.width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK; k++) {
            for (uint32_t i = 0; i < query.n_filters; i++)
                assert_int_equal(in_avx2.of[i][k], in_c.of[i][k]);
            assert_int_equal(in_avx2.best[k], in_c.best[k]);
        }
    }
    free(work);
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
#if defined(__x86_64__)
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_picks),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_filter_prices),
#endif
    };
    if (argc > 1 && strcmp(argv[1], "hash") == 0) {
        (void)printf("%llx\n", (unsigned long long)hash_all());
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
