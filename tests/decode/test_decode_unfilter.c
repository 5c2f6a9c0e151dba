/* test_decode_unfilter.c - compares PNG's filters at every CPU level with the PNG specification and
 * with plain C, for all combinations of three neighbouring samples and all widths. Nothing outside
 * of the row may be touched. */
#include "test.h"

#include "base/machine/cpu.h"
#include "decode/png/decode_png_unfilter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t pixels[] = {1, 2, 3, 4, 6, 8};
#define N_PIXELS (sizeof pixels / sizeof pixels[0])

#if defined(PST_HAVE_SIMDE) && defined(__x86_64__)
extern const struct psti_unfilter_ops psti_unfilter_ops_neon_simde;
#endif

enum { LEVELS_MAX = 3 };

/* Finds the CPU levels that this machine can run, some by emulation. Plain C comes first. */
static size_t find_levels(const struct psti_unfilter_ops *levels[LEVELS_MAX])
{
    size_t n = 0;
    levels[n++] = psti_decode_unfilter_ops_for(0);
    assert_string_equal(levels[0]->name, "c");
    if (psti_decode_unfilter_ops_for(psti_cpu_detected()) != levels[0])
        levels[n++] = psti_decode_unfilter_ops_for(psti_cpu_detected());
#if defined(PST_HAVE_SIMDE) && defined(__x86_64__)
    levels[n++] = &psti_unfilter_ops_neon_simde;
#endif
    return n;
}

/* Computes the prediction with the formulas of the specification. */
static uint8_t predicted(int filter, int a, int b, int c)
{
    int p = a + b - c, to_a = abs(p - a), to_b = abs(p - b), to_c = abs(p - c);
    switch (filter) {
    case PSTI_PNG_SUB:
        return (uint8_t)a;
    case PSTI_PNG_UP:
        return (uint8_t)b;
    case PSTI_PNG_AVERAGE:
        return (uint8_t)((a + b) / 2);
    default:
        return (uint8_t)(to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c);
    }
}

/* Checks neighbours a (left), b (above) and c (above left), for all a and c and one b. Pixels
 * alternate: the first of two becomes a, whatever its prediction is, and has c above it; the second
 * has b above it. */
static void check_neighbours(const struct psti_unfilter_ops *ops, size_t pixel, int filter, int b)
{
    enum { N = 256 * 2 };
    uint8_t row[N * 8 + PSTI_UNFILTER_OVERREAD], above[N * 8 + PSTI_UNFILTER_OVERREAD];
    for (int c = 0; c < 256; c++) {
        int left = 0, corner = 0; /* neighbours of the next pixel */
        for (int i = 0; i < N; i++) {
            int up = i % 2 ? b : c, value = i % 2 ? 77 : i / 2;
            uint8_t raw =
                i % 2 ? (uint8_t)(i + c) : (uint8_t)(value - predicted(filter, left, up, corner));
            memset(row + (size_t)i * pixel, raw, pixel);
            memset(above + (size_t)i * pixel, up, pixel);
            left = (uint8_t)(raw + predicted(filter, left, up, corner));
            corner = up;
        }
        uint8_t expected[N];
        left = corner = 0;
        for (int i = 0; i < N; i++) {
            int up = above[(size_t)i * pixel];
            left = (uint8_t)(row[(size_t)i * pixel] + predicted(filter, left, up, corner));
            expected[i] = (uint8_t)left;
            corner = up;
        }
        ops->row[pixel][filter](row, above, N * pixel);
        for (size_t i = 0; i < N * pixel; i++)
            if (row[i] != expected[i / pixel])
                fail_msg("%s pixel %zu filter %d: byte %zu, b %d c %d", ops->name, pixel, filter, i,
                         b, c);
    }
}

/* Tries all 2^24 combinations for the Paeth filter with pixels of 3 bytes, and every 51st value of
 * b for the others. */
static void test_every_neighbourhood(void **state)
{
    const struct psti_unfilter_ops *levels[LEVELS_MAX];
    size_t n_levels = find_levels(levels);
    (void)state;
    for (size_t level = 0; level < n_levels; level++)
        for (size_t k = 0; k < N_PIXELS; k++)
            for (int filter = PSTI_PNG_SUB; filter < PSTI_PNG_FILTERS; filter++) {
                bool all = filter == PSTI_PNG_PAETH && pixels[k] == 3;
                for (int b = 0; b < 256; b += all ? 1 : 51)
                    check_neighbours(levels[level], pixels[k], filter, b);
            }
}

static void undo_two(const struct psti_unfilter_ops *ops, size_t pixel, uint8_t *row,
                     const uint8_t *above, size_t n, size_t step)
{
    if (ops->two_paeth[pixel]) {
        ops->two_paeth[pixel](row, above, n, step);
        return;
    }
    ops->row[pixel][PSTI_PNG_PAETH](row, above, n);
    ops->row[pixel][PSTI_PNG_PAETH](row + step, row, n);
}

/* Decoding two rows at once, at any distance, gives the same bytes as one after the other. Nothing
 * between them is touched. */
static void test_two_rows(void **state)
{
    const struct psti_unfilter_ops *levels[LEVELS_MAX];
    size_t n_levels = find_levels(levels);
    uint8_t above[800], raw[1600], expected[1600], row[1600];
    uint32_t random = 9;
    (void)state;
    assert_null(levels[0]->two_paeth[3]);
    for (size_t k = 0; k < N_PIXELS; k++)
        for (size_t width = 1; width <= 80; width++)
            for (size_t gap = 1; gap < 12; gap += 3) {
                size_t n = width * pixels[k], step = n + gap;
                for (size_t i = 0; i < sizeof raw; i++) {
                    random = random * 1664525 + 1013904223;
                    raw[i] = (uint8_t)(random >> 24);
                    above[i / 2] = (uint8_t)(random >> 16);
                }
                memcpy(expected, raw, sizeof raw);
                undo_two(levels[0], pixels[k], expected, above, n, step);
                for (size_t level = 1; level < n_levels; level++) {
                    memcpy(row, raw, sizeof raw);
                    undo_two(levels[level], pixels[k], row, above, n, step);
                    assert_memory_equal(row, expected, sizeof raw);
                }
            }
}

/* Rows end PSTI_UNFILTER_OVERREAD bytes before an inaccessible page. */
static void test_every_width(void **state)
{
    const struct psti_unfilter_ops *levels[LEVELS_MAX];
    size_t n_levels = find_levels(levels), page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages[2], raw[700], expected[700];
    uint32_t random = 1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        pages[i] = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages[i] != MAP_FAILED);
        assert_int_equal(mprotect(pages[i] + page, page, PROT_NONE), 0);
    }
    for (size_t k = 0; k < N_PIXELS; k++)
        for (int filter = PSTI_PNG_SUB; filter < PSTI_PNG_FILTERS; filter++)
            for (size_t width = 1; width <= 80; width++) {
                size_t n = width * pixels[k];
                uint8_t *row = pages[0] + page - PSTI_UNFILTER_OVERREAD - n;
                uint8_t *above = pages[1] + page - PSTI_UNFILTER_OVERREAD - n;
                for (size_t i = 0; i < n + PSTI_UNFILTER_OVERREAD; i++) {
                    random = random * 1664525 + 1013904223;
                    raw[i] = (uint8_t)(random >> 24);
                    above[i] = (uint8_t)(random >> 16);
                }
                memcpy(expected, raw, n + PSTI_UNFILTER_OVERREAD);
                levels[0]->row[pixels[k]][filter](expected, above, n);
                for (size_t level = 0; level < n_levels; level++) {
                    memcpy(row, raw, n + PSTI_UNFILTER_OVERREAD);
                    row[-1] = 0x5A;
                    levels[level]->row[pixels[k]][filter](row, above, n);
                    assert_memory_equal(row, expected, n + PSTI_UNFILTER_OVERREAD);
                    assert_int_equal(row[-1], 0x5A);
                }
            }
    for (int i = 0; i < 2; i++)
        munmap(pages[i], 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_neighbourhood),
        cmocka_unit_test(test_two_rows),
        cmocka_unit_test(test_every_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
