/* test_pli_jpeg_format.c - compares the code of PLI's content 2 with docs/format-pli.md: header,
 * frame, geometry, tokens and tables. */
#include "pli/format/pli_jpeg_format.h"

#include "test.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct psti_pli_header jpeg_header(uint32_t width, uint32_t height, uint8_t channels)
{
    return (struct psti_pli_header){.content = PST_PLI_CONTENT_JPEG,
                                    .channels = channels,
                                    .bits = 8,
                                    .width = (uint16_t)width,
                                    .height = (uint16_t)height,
                                    .unit_log2 = 7,
                                    .transform = channels == 3};
}

/* Content 2 allows fewer values in the header than content 1. Errors name the offset of the wrong
 * value. */
static void header_values(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_pli_header h = jpeg_header(500, 375, 3), back;
    uint8_t head[PSTI_PLI_HEADER_NBYTES + 8 * 4 * 4] = {0}, bad[sizeof head];
    psti_pli_print_header(&h, head);
    assert_ok(psti_pli_parse_header(head, sizeof head, &back, &err));
    assert_int_equal(back.content, 2);
    assert_int_equal(back.unit_log2, 7);
    assert_int_equal(back.transform, 1);
    const struct {
        uint8_t at, value;
    } refused[] = {{6, 2},  {6, 4},  {6, 0},  {7, 16}, {8, 0},  {12, 5}, {12, 9},
                   {13, 2}, {14, 4}, {15, 1}, {20, 1}, {20, 3}, {21, 3}, {22, 1}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        memcpy(bad, head, sizeof head);
        bad[refused[i].at] = refused[i].value;
        if (refused[i].at == 8)
            bad[9] = 0;
        assert_int_equal(psti_pli_parse_header(bad, sizeof bad, &back, &err), PST_ERROR_CORRUPT);
        assert_int_equal(err.offset, refused[i].at);
    }
    memcpy(bad, head, sizeof head);
    bad[6] = 1; /* gray has no colour transform */
    assert_int_equal(psti_pli_parse_header(bad, sizeof bad, &back, &err), PST_ERROR_CORRUPT);
    bad[13] = 0;
    assert_ok(psti_pli_parse_header(bad, sizeof bad, &back, &err));
    bad[5] = 3;
    assert_int_equal(psti_pli_parse_header(bad, sizeof bad, &back, &err), PST_ERROR_UNSUPPORTED);
}

/* Model blocks of kinds 2 and 3 belong to content 2, those of kind 1 to content 1. */
static void model_kinds(void **state)
{
    (void)state;
    struct pst_error err = {0};
    uint8_t head[PSTI_PLI_HEADER_NBYTES + 32];
    for (uint8_t content = 1; content <= 2; content++)
        for (uint8_t first = 1; first <= 4; first++)
            for (uint8_t second = 0; second <= 4; second++) {
                struct psti_pli_header h = {.content = content};
                const uint8_t *block;
                size_t nbytes;
                uint8_t *at = head + PSTI_PLI_HEADER_NBYTES;
                at = psti_pli_print_block(at, (enum psti_pli_model_kind)first, 3);
                if (second > 0)
                    at = psti_pli_print_block(at, (enum psti_pli_model_kind)second, 5);
                h.model_nbytes = (uint32_t)(at - head - PSTI_PLI_HEADER_NBYTES);
                bool good = content == 1 ? first == 1 && second == 0
                                         : first >= 2 && first <= 3 &&
                                               (second == 0 || (first == 2 && second == 3));
                enum pst_status status =
                    psti_pli_find_model(head, &h, PSTI_PLI_MODEL_FRAME, &block, &nbytes, &err);
                assert_int_equal(status, good ? PST_OK : PST_ERROR_CORRUPT);
                if (good && (first == 3 || second == 3))
                    assert_int_equal(nbytes, second == 3 ? 5 : 3);
                else if (good)
                    assert_null(block);
            }
}

/* Writes a frame byte by byte from docs/format-pli.md, section 7. */
static void frame_bytes(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_jpeg_frame f = {.width = 333,
                                .height = 251,
                                .n_components = 3,
                                .transform = 1,
                                .orientation = 6,
                                .components = {{.h = 2, .v = 2, .quant = 0},
                                               {.h = 1, .v = 2, .quant = 3},
                                               {.h = 1, .v = 1, .quant = 3}},
                                .jpeg_nbytes = 0x01020304,
                                .jpeg_checksum = 0x1112131415161718,
                                .restoration_nbytes = 0x21222324,
                                .restoration_checksum = 0x31323334};
    for (uint32_t k = 0; k < 64; k++) {
        f.quants[0][k] = (uint16_t)(k + 1);
        f.quants[3][k] = (uint16_t)(k == 5 ? 65535 : 255);
    }
    assert_true(psti_pli_jpeg_frame_measure(&f));
    uint8_t block[PSTI_JPEG_FRAME_MAX_NBYTES + 1];
    size_t n = psti_pli_jpeg_print_frame(&f, block);
    assert_int_equal(n, 2 + 6 + 65 + 129 + 20);
    assert_memory_equal(block, "\x01\x06\x22\x00\x12\x03\x11\x03\x00\x01\x02", 11);
    assert_int_equal(block[8 + 65], 1);
    assert_int_equal(psti_load_u16(block + 8 + 66 + 10), 65535);
    assert_int_equal(psti_load_u32(block + n - 20), 0x01020304);
    assert_true(psti_load_u64(block + n - 16) == 0x1112131415161718);
    assert_int_equal(psti_load_u32(block + n - 4), 0x31323334);
    struct psti_pli_header h = jpeg_header(333, 251, 3);
    struct psti_jpeg_frame back;
    memset(&back, 0, sizeof back);
    assert_ok(psti_pli_jpeg_parse_frame(block, n, &h, &back, &err));
    assert_memory_equal(&back.components, &f.components, sizeof f.components);
    assert_memory_equal(&back.quants, &f.quants, sizeof f.quants);
    assert_int_equal(back.orientation, 6);
    assert_int_equal(back.h, 2);
    assert_int_equal(back.v, 2);
    assert_true(back.jpeg_checksum == f.jpeg_checksum);
    assert_int_equal(back.restoration_nbytes, f.restoration_nbytes);
    /* Every wrong length and every invalid value is refused. */
    for (size_t i = 0; i <= n + 1; i++)
        if (i != n)
            assert_int_equal(psti_pli_jpeg_parse_frame(block, i, &h, &back, &err),
                             PST_ERROR_CORRUPT);
    assert_int_equal(psti_pli_jpeg_parse_frame(NULL, 0, &h, &back, &err), PST_ERROR_CORRUPT);
    const struct {
        uint8_t at, value;
    } refused[] = {{1, 0}, {1, 9}, {2, 0x23}, {2, 0x02}, {2, 0x82}, {3, 4}, {8, 2}, {9, 0}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        uint8_t bad[sizeof block];
        memcpy(bad, block, sizeof bad);
        bad[refused[i].at] = refused[i].value;
        assert_int_equal(psti_pli_jpeg_parse_frame(bad, n, &h, &back, &err), PST_ERROR_CORRUPT);
    }
    block[0] = 2;
    assert_int_equal(psti_pli_jpeg_parse_frame(block, n, &h, &back, &err), PST_ERROR_VERSION);
}

static const uint8_t factors[3] = {1, 2, 4};

static void check_cover(const struct psti_jpeg_frame *f, uint32_t log2)
{
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint32_t rows = (f->height + (1u << log2) - 1) >> log2;
    uint32_t columns = (f->width + (1u << log2) - 1) >> log2;
    uint8_t *seen[3] = {NULL};
    size_t left = 0;
    for (uint32_t i = 0; i < f->n_components; i++) {
        left += psti_pli_jpeg_n_coefs(f, i) / 64;
        seen[i] = calloc(psti_pli_jpeg_n_coefs(f, i) / 64, 1);
        assert_non_null(seen[i]);
    }
    for (uint32_t u = 0; u < rows * columns; u++) {
        uint32_t n = psti_pli_jpeg_squares(f, log2, u / columns, u % columns, squares), last = 0;
        assert_in_range(n, f->n_components, PSTI_JPEG_SQUARES_MAX);
        for (uint32_t s = 0; s < n; s++) {
            const struct psti_jpeg_square *q = &squares[s];
            const struct psti_jpeg_component *c = &f->components[q->component];
            assert_true(q->component >= last && q->columns >= 1 && q->columns <= 8 &&
                        q->rows >= 1 && q->rows <= 8);
            last = q->component;
            assert_int_equal(q->side, f->transform && q->component > 0);
            for (uint32_t y = 0; y < q->rows; y++)
                for (uint32_t x = 0; x < q->columns; x++, left--) {
                    assert_true(q->column + x < c->columns && q->row + y < c->rows);
                    size_t at = (size_t)(q->row + y) * c->columns + q->column + x;
                    assert_int_equal(seen[q->component][at]++, 0);
                }
        }
    }
    assert_int_equal(left, 0);
    for (uint32_t i = 0; i < f->n_components; i++)
        free(seen[i]);
}

/* Every block of every component lies in exactly one square of one unit. */
static void squares_cover(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (uint32_t i = 0; i < 9 * 9 * 9; i++) {
        struct psti_jpeg_frame f = {.width = 1 + next_random(&seed) % 600,
                                    .height = 1 + next_random(&seed) % 600,
                                    .n_components = i % 10 == 0 ? 1 : 3,
                                    .transform = i % 3 == 0};
        for (uint32_t c = 0, n = i; c < f.n_components; c++, n /= 9) {
            f.components[c].h = f.n_components == 1 ? 1 : factors[n % 3];
            f.components[c].v = f.n_components == 1 ? 1 : factors[n / 3 % 3];
        }
        assert_true(psti_pli_jpeg_frame_measure(&f));
        for (uint32_t c = 0; c < f.n_components; c++) {
            const struct psti_jpeg_component *p = &f.components[c];
            assert_int_equal(p->width, (f.width * p->h + f.h - 1) / f.h);
            assert_true(p->columns * 8 >= p->width && p->rows * 8 >= p->height);
            assert_int_equal(p->columns % p->h, 0);
        }
        check_cover(&f, 6 + i % 3);
    }
    struct psti_jpeg_frame f = {.width = 8, .height = 8, .n_components = 1};
    f.components[0] = (struct psti_jpeg_component){.h = 2, .v = 1};
    assert_false(psti_pli_jpeg_frame_measure(&f));
    f.n_components = 2;
    assert_false(psti_pli_jpeg_frame_measure(&f));
    f.n_components = 3;
    assert_false(psti_pli_jpeg_frame_measure(&f)); /* sampling factors of 0 */
}

static uint32_t ac_token(uint32_t m)
{
    return m < 3 ? m : m > 32 ? 7u : 33u - (uint32_t)__builtin_clz(m - 1);
}

static void tokens(void **state)
{
    (void)state;
    for (uint32_t m = 0; m <= PSTI_JPEG_AC_MAX; m++) {
        uint32_t t = ac_token(m), low = psti_jpeg_ac_lowest[t];
        uint32_t bits = psti_jpeg_ac_bits[t];
        if (t == 7) {
            uint32_t c = psti_pli_jpeg_ac_class(m);
            assert_in_range(c, 0, 5);
            low = 1 + (32u << c);
            bits = 5 + c;
        }
        assert_true(t < PSTI_JPEG_N_AC_TOKENS && m >= low && m < low + (1u << bits));
    }
    for (uint32_t m = 0; m <= PSTI_JPEG_DC_MAX; m++) {
        uint32_t t = psti_pli_jpeg_dc_token(m), low = psti_pli_jpeg_dc_lowest(t);
        assert_true(t < PSTI_JPEG_N_DC_TOKENS && m >= low &&
                    m < low + (1u << psti_pli_jpeg_dc_bits(t)));
    }
    for (uint32_t t = 0, e = 0; t < PSTI_JPEG_N_ENDS; t++) {
        assert_int_equal(psti_jpeg_end_lowest[t], e);
        e += 1u << psti_jpeg_end_bits[t];
    }
}

/* Compares with their definitions the zigzag order and the choice of earlier coefficients for
 * contexts (docs/format-pli.md, section 8.4). */
static void features(void **state)
{
    (void)state;
    uint32_t at[8][8], k = 0;
    for (int sum = 0; sum < 15; sum++)
        for (int i = 0; i <= sum; i++) {
            int v = sum & 1 ? i : sum - i, u = sum - v;
            if (u < 8 && v < 8) {
                assert_int_equal(psti_jpeg_zigzag[k], 8 * v + u);
                at[v][u] = k++;
            }
        }
    assert_int_equal(k, 64);
    for (k = 1; k < 64; k++) {
        const uint8_t *f = psti_jpeg_features[k];
        int u = psti_jpeg_zigzag[k] & 7, v = psti_jpeg_zigzag[k] >> 3;
        assert_int_equal(f[0], k - 1);
        assert_int_equal(f[1], k > 2 ? k - 2 : 0);
        assert_int_equal(f[2], u > 0 ? at[v][u - 1] : 0);
        assert_int_equal(f[3], v > 0 ? at[v - 1][u] : 0);
        assert_int_equal(f[4], u > 1 ? at[v][u - 2] : 0);
        assert_int_equal(f[5], v > 1 ? at[v - 2][u] : 0);
        for (int i = 0; i < PSTI_JPEG_N_FEATURES; i++)
            assert_true(f[i] < k);
    }
    for (int i = 0; i < PSTI_JPEG_N_LIMITS; i++)
        assert_true(psti_jpeg_limits[i] >= 1 && psti_jpeg_limits[i] <= 128 &&
                    (i == 0 || psti_jpeg_limits[i] > psti_jpeg_limits[i - 1]));
    /* Sums that the vector levels compute must fit into 16 bits. */
    for (int side = 0; side < 2; side++)
        for (k = 1; k < 64; k++) {
            int low = psti_jpeg_biases[side][k], high = low;
            for (int i = 0; i < PSTI_JPEG_N_FEATURES; i++) {
                int w = 32 * psti_jpeg_weights[side][k][i];
                low += w < 0 ? w : 0;
                high += w > 0 ? w : 0;
            }
            assert_true(low >= INT16_MIN && high <= INT16_MAX);
        }
}

/* Checks the sums of all tables. Every frequency must be at least `least`. */
static void check_sums(const struct psti_jpeg_tables *tables, uint32_t least)
{
    const uint16_t *f = tables->ac[0];
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
        uint32_t n = i < 32 ? 8 : i < 64 ? 16 : 14, sum = 0;
        for (uint32_t t = 0; t < n; t++, f++) {
            assert_true(*f >= least);
            sum += *f;
        }
        assert_int_equal(sum, PSTI_JPEG_PROB_SUM);
    }
    assert_ptr_equal(f, (const uint16_t *)(tables + 1));
}

static void own_tables(void **state)
{
    (void)state;
    struct pst_error err = {0};
    struct psti_jpeg_tables tables;
    uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES];
    uint32_t seed = 5;
    check_sums(&psti_jpeg_builtin, 1);
    assert_ok(psti_pli_jpeg_parse_tables(NULL, 0, &tables, &err));
    assert_memory_equal(&tables, &psti_jpeg_builtin, sizeof tables);
    for (uint32_t round = 0; round < 200; round++) {
        struct psti_jpeg_own own[PSTI_JPEG_N_TABLES];
        memset(own, 0, sizeof own);
        for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
            uint32_t n_tokens = i < 32 ? 8 : i < 64 ? 16 : 14;
            own[i].n = (uint8_t)(round == 0 ? n_tokens : next_random(&seed) % (n_tokens + 1));
            for (uint32_t t = 0; t < own[i].n; t++)
                own[i].q[t] = (uint8_t)(next_random(&seed) % 64);
            if (own[i].n > 0)
                own[i].q[next_random(&seed) % own[i].n] |= 1;
        }
        size_t n = psti_pli_jpeg_print_tables(own, block);
        assert_true(n <= sizeof block);
        assert_ok(psti_pli_jpeg_parse_tables(block, n, &tables, &err));
        check_sums(&tables, 0);
        for (uint32_t i = 0; i < 32; i++) {
            uint16_t f[PSTI_JPEG_N_AC_TOKENS];
            memcpy(f, psti_jpeg_builtin.ac[i], sizeof f);
            assert_true(own[i].n == 0 || psti_pli_jpeg_expand(&own[i], 8, f));
            assert_memory_equal(f, tables.ac[i], sizeof f);
        }
        for (size_t wrong = 0; wrong < n; wrong++)
            assert_int_not_equal(psti_pli_jpeg_parse_tables(block, wrong, &tables, &err), PST_OK);
        if (n < sizeof block) {
            block[n] = 0;
            assert_int_not_equal(psti_pli_jpeg_parse_tables(block, n + 1, &tables, &err), PST_OK);
        }
    }
    /* The first table is wrong: n is 0, n is 9, or all weights are 0. */
    const uint8_t bad[][12] = {{1}, {1 | 9 << 1}, {1 | 2 << 1}};
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(psti_pli_jpeg_parse_tables(bad[i], 12, &tables, &err), PST_ERROR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_values), cmocka_unit_test(model_kinds),
        cmocka_unit_test(frame_bytes),   cmocka_unit_test(squares_cover),
        cmocka_unit_test(tokens),        cmocka_unit_test(features),
        cmocka_unit_test(own_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
