/* test_pli_jpeg_rows.c - tests the kernels that make rows of pixels from rows of samples. Every CPU
 * level and plain C follow docs/format-pli.md, section 9, for rows of any length at any address.
 * None writes beyond the bytes that it may write. */
#include "test.h"

#include "pli/pli_levels.h"

#include <stdlib.h>
#include <string.h>

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;

enum { MAX = 300, SLACK = PSTI_PLI_JPEG_ROW_SLACK, N_INPUTS = 3, UNTOUCHED = 0xA5 };

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

/* Rows of samples. The memory ends right after the bytes that a kernel may read, so a sanitizer
 * detects further reads. */
struct rows {
    uint8_t *memory[N_INPUTS], *in[N_INPUTS];
    uint32_t n;
};

static uint8_t sample(uint64_t *seed, uint32_t kind)
{
    static const uint8_t edges[] = {0, 1, 2, 127, 128, 129, 254, 255};
    return kind == 0   ? (uint8_t)below(seed, 256)
           : kind == 1 ? edges[below(seed, 8)]
                       : (uint8_t)(120 + below(seed, 16));
}

static void rows_make(struct rows *r, uint32_t n, uint64_t *seed)
{
    uint32_t kind = below(seed, 3);
    r->n = n;
    for (int i = 0; i < N_INPUTS; i++) {
        r->memory[i] = malloc(SLACK + (size_t)n + SLACK);
        r->in[i] = r->memory[i] + SLACK;
        for (uint32_t k = 0; k < SLACK + n + SLACK; k++)
            r->memory[i][k] = sample(seed, kind);
    }
}

static void rows_free(struct rows *r)
{
    for (int i = 0; i < N_INPUTS; i++)
        free(r->memory[i]);
}

enum kernel { H2, H2V2, V2_UPPER, V2_LOWER, YCC_RGB, PLAIN_RGB, N_KERNELS };

static void run(const struct psti_pli_jpeg_rows *kernels, enum kernel kernel, const struct rows *r,
                uint8_t *out)
{
    switch (kernel) {
    case H2:
        kernels->h2(r->in[0], out, r->n);
        return;
    case H2V2:
        kernels->h2v2(r->in[0], r->in[1], out, r->n);
        return;
    case V2_UPPER:
    case V2_LOWER:
        kernels->v2(r->in[0], r->in[1], kernel == V2_UPPER ? 1 : 2, out, r->n);
        return;
    case YCC_RGB:
        kernels->ycc_rgb(r->in[0], r->in[1], r->in[2], out, r->n);
        return;
    default:
        kernels->plain_rgb(r->in[0], r->in[1], r->in[2], out, r->n);
    }
}

/* made() returns the number of bytes that n samples become, writable() the number of bytes that the
 * kernel may write. */
static size_t made(enum kernel kernel, uint32_t n)
{
    return (kernel == H2 || kernel == H2V2 ? 2 : kernel >= YCC_RGB ? 3 : 1) * (size_t)n;
}
static size_t writable(enum kernel kernel, uint32_t n)
{
    return made(kernel, kernel >= YCC_RGB ? n : (n + SLACK - 1) / SLACK * SLACK);
}

static uint8_t clamp(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

static void colour_by_law(int32_t y, int32_t b, int32_t r, uint8_t *out)
{
    out[0] = clamp(y + ((91881 * r + 32768) >> 16));
    out[1] = clamp(y + ((-22554 * b - 46802 * r + 32768) >> 16));
    out[2] = clamp(y + ((116130 * b + 32768) >> 16));
}

/* Computes the row as docs/format-pli.md, section 9, defines it. */
static void run_by_law(enum kernel kernel, const struct rows *r, uint8_t *out)
{
    const uint8_t *a = r->in[0], *b = r->in[1], *c = r->in[2];
    for (ptrdiff_t i = 0; i < (ptrdiff_t)r->n; i++) {
        uint8_t *at = out + made(kernel, (uint32_t)i);
        const int32_t q = 3 * a[i] + b[i], left = 3 * a[i - 1] + b[i - 1];
        const int32_t right = 3 * a[i + 1] + b[i + 1];
        switch (kernel) {
        case H2:
            at[0] = (uint8_t)((3 * a[i] + a[i - 1] + 1) >> 2);
            at[1] = (uint8_t)((3 * a[i] + a[i + 1] + 2) >> 2);
            break;
        case H2V2:
            at[0] = (uint8_t)((3 * q + left + 8) >> 4);
            at[1] = (uint8_t)((3 * q + right + 7) >> 4);
            break;
        case V2_UPPER:
        case V2_LOWER:
            at[0] = (uint8_t)((q + (kernel == V2_UPPER ? 1 : 2)) >> 2);
            break;
        case YCC_RGB:
            colour_by_law(a[i], b[i] - 128, c[i] - 128, at);
            break;
        default:
            at[0] = a[i];
            at[1] = b[i];
            at[2] = c[i];
        }
    }
}

static void check(enum kernel kernel, const struct rows *r)
{
    size_t n = made(kernel, r->n), room = writable(kernel, r->n);
    uint8_t *expected = malloc(room), *got = malloc(room + SLACK);
    run_by_law(kernel, r, expected);
    for (size_t i = 0; i < n_levels; i++) {
        memset(got, UNTOUCHED, room + SLACK);
        run(levels[i].kernels->jpeg_rows, kernel, r, got);
        for (size_t k = 0; k < n; k++)
            if (got[k] != expected[k])
                fail_msg("%s, kernel %d, %u samples: byte %zu is %u instead of %u", levels[i].name,
                         (int)kernel, r->n, k, got[k], expected[k]);
        for (size_t k = 0; k < SLACK; k++)
            assert_int_equal(got[room + k], UNTOUCHED);
    }
    free(expected);
    free(got);
}

static void test_all_lengths(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (uint32_t n = 1; n <= MAX; n++)
        for (int kernel = 0; kernel < N_KERNELS; kernel++) {
            struct rows r;
            rows_make(&r, n, &seed);
            check((enum kernel)kernel, &r);
            rows_free(&r);
        }
}

/* Tries all pairs of samples, and all pairs of Cb and Cr with some Y. */
static void test_all_pairs(void **state)
{
    (void)state;
    for (uint32_t y = 0; y < 256; y += 15) {
        struct rows r;
        uint64_t seed = y;
        rows_make(&r, 65536, &seed);
        for (uint32_t i = 0; i < r.n; i++) {
            r.in[0][i] = (uint8_t)(y == 0 ? i >> 8 : y);
            r.in[1][i] = (uint8_t)i;
            r.in[2][i] = (uint8_t)(i >> 8);
        }
        check(YCC_RGB, &r);
        if (y == 0) {
            check(V2_UPPER, &r);
            check(V2_LOWER, &r);
            check(H2V2, &r);
        }
        rows_free(&r);
    }
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_lengths),
        cmocka_unit_test(test_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
