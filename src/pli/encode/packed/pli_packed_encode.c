/* pli_packed_encode.c - units of mode packed (docs/format-pli.md, section 4): chooses predictors
 * and taps.
 *
 * The input is a unit's planes. The output is the unit's bytes, which pli_packed_write.c writes.
 * Pure; any thread. For every 16 rows of a plane the predictor of lowest cost is taken. The cost is
 * in bits. It includes the bits of the widths, and extra bits for choices that make decoding
 * slower. pli_packed_rows.c has the kernels that try predictors. */
#include "pli/encode/packed/pli_packed_encode.h"
#include "pli/encode/pli_encode_kernels.h"

#include "base/bits.h"

#include <string.h>

enum { BLOCK = 16 };

/* Extra cost of choices that make decoding slower, in bits per row: two bits for each cycle that
 * the choice takes with AVX-512 (docs/internals/cpu-decode.md). It makes images 1.1 % larger and
 * decoding 12 % faster. */
enum { PRICE_OF_SUMS = 11, PRICE_OF_ONE_TAP = 7, PRICE_OF_TWO_TAPS = 16 };

/* A plane that is being coded. */
struct task {
    const struct psti_packed_rows *rows; /* the kernels that try predictors */
    const struct psti_pli_source *source;
    const struct psti_packed_samples *samples;
    const struct psti_packed_coded *r0, *r1; /* residuals of planes 0 and 1, to which taps refer */
};

/* Returns the plane's first width: the lowest width that minimises the cost of row 0. Row 0 is
 * coded as if the groups above it had this width. */
static uint8_t choose_first_width(const uint8_t *widths, uint32_t n, uint8_t bits)
{
    uint32_t best = UINT32_MAX;
    uint8_t choice = 0;
    for (uint8_t first = 0; first <= bits; first++) {
        uint8_t above[PSTI_PACKED_ROW_GROUPS];
        memset(above, first, sizeof above);
        uint32_t cost = psti_pli_packed_row_cost(widths, above, n);
        if (cost < best) {
            best = cost;
            choice = first;
        }
    }
    return choice;
}

static bool has_sums(uint32_t predictor)
{
    return predictor == PSTI_PACKED_LEFT || predictor == PSTI_PACKED_GRADIENT ||
           predictor == PSTI_PACKED_SMOOTH_GRADIENT;
}

/* Codes the plane with the given taps. Returns its cost in bits, including extra cost for slow
 * decoding. */
static uint32_t code_plane(const struct task *task, const int8_t tap[2],
                           struct psti_packed_coded *out)
{
    struct psti_packed_block block = {.samples = task->samples,
                                      .r0 = task->r0,
                                      .r1 = task->r1,
                                      .tap = {tap[0], tap[1]},
                                      .bits = task->source->bits,
                                      .n_rows = 1,
                                      .groups = (task->source->width + 7) / 8};
    uint32_t price = tap[1] ? PRICE_OF_TWO_TAPS : tap[0] ? PRICE_OF_ONE_TAP : 0;
    uint32_t total = price * task->source->height;
    memcpy(out->tap, tap, 2);
    task->rows->code(&block, 0, out); /* all predictors predict row 0 alike */
    out->first_width = choose_first_width(out->widths[0], block.groups, block.bits);
    memset(block.above, out->first_width, sizeof block.above);
    for (; block.first < task->source->height; block.first += BLOCK) {
        uint32_t left = task->source->height - block.first, best = 0;
        uint32_t costs[PSTI_PACKED_N_PREDICTORS];
        block.n_rows = left < BLOCK ? left : BLOCK;
        task->rows->try_all(&block, costs);
        for (uint32_t m = 0; m < PSTI_PACKED_N_PREDICTORS; m++) {
            costs[m] += has_sums(m + 1) ? PRICE_OF_SUMS * block.n_rows : 0;
            best = costs[m] < costs[best] ? m : best;
        }
        total += costs[best];
        out->predictor[block.first / BLOCK] = (uint8_t)(best + 1);
        task->rows->code(&block, best, out);
        memcpy(block.above, out->widths[block.first + block.n_rows - 1], sizeof block.above);
    }
    return total;
}

/* Taps
 * ------------------------------------------------------------------------------------- */

static int8_t to_tap(double v)
{
    double t = v * 32 + (v < 0 ? -0.5 : 0.5);
    return (int8_t)(t < -PSTI_PACKED_MAX_TAP  ? -PSTI_PACKED_MAX_TAP
                    : t > PSTI_PACKED_MAX_TAP ? PSTI_PACKED_MAX_TAP
                                              : t);
}

/* Returns the sum of products over a row. With 8 bits it fits int32, which compilers can
 * vectorise. */
static int64_t row_product(const int16_t *a, const int16_t *b, uint8_t bits)
{
    if (bits == 8) {
        int32_t sum = 0;
        for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
            sum += a[x] * b[x];
        return sum;
    }
    int64_t sum = 0;
    for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
        sum += (int64_t)a[x] * b[x];
    return sum;
}

/* Computes the taps by least squares. */
static void fit_taps(const struct task *task, const struct psti_packed_coded *coded,
                     uint32_t n_taps, int8_t tap[2])
{
    int64_t s00 = 0, s01 = 0, s11 = 0, s0 = 0, s1 = 0;
    uint8_t bits = task->source->bits;
    for (uint32_t y = 1; y < task->source->height; y++) {
        const int16_t *r = coded->residuals[y], *r0 = task->r0->residuals[y];
        const int16_t *r1 = task->r1->residuals[y];
        s00 += row_product(r0, r0, bits);
        s0 += row_product(r0, r, bits);
        if (n_taps == 2) {
            s01 += row_product(r0, r1, bits);
            s11 += row_product(r1, r1, bits);
            s1 += row_product(r1, r, bits);
        }
    }
    double det = (double)s00 * (double)s11 - (double)s01 * (double)s01;
    tap[0] = tap[1] = 0;
    if (n_taps == 2 && det > 0) {
        tap[0] = to_tap(((double)s0 * (double)s11 - (double)s1 * (double)s01) / det);
        tap[1] = to_tap(((double)s1 * (double)s00 - (double)s0 * (double)s01) / det);
    } else if (s00 > 0) {
        tap[0] = to_tap((double)s0 / (double)s00);
    }
}

/* Codes the plane with other taps and keeps the coding of lower cost. Returns the lower cost.
 * `other` is working memory. */
static uint32_t try_taps(const struct task *task, const int8_t tap[2], uint32_t cost,
                         struct psti_packed_coded *best, struct psti_packed_coded *other)
{
    uint32_t now = code_plane(task, tap, other);
    if (now >= cost)
        return cost;
    memcpy(best, other, sizeof *best);
    return now;
}

static void code_with_taps(const struct task *task, uint32_t n_taps, uint32_t effort,
                           struct psti_packed_coded *out)
{
    struct psti_packed_coded other = {.start = out->start};
    int8_t tap[2] = {0, 0};
    uint32_t cost = code_plane(task, tap, out);
    if (n_taps == 0 || effort < 2)
        return;
    fit_taps(task, out, n_taps, tap);
    if (tap[0] || tap[1])
        cost = try_taps(task, tap, cost, out, &other);
    for (int step = effort >= 5 ? 8 : 4; effort >= 4 && step >= (effort >= 5 ? 1 : 4); step /= 2) {
        for (uint32_t k = 0; k < 2 * n_taps; k++) {
            memcpy(tap, out->tap, 2);
            int v = tap[k / 2] + (k & 1 ? step : -step);
            if (v < -PSTI_PACKED_MAX_TAP || v > PSTI_PACKED_MAX_TAP)
                continue;
            tap[k / 2] = (int8_t)v;
            cost = try_taps(task, tap, cost, out, &other);
        }
    }
}

static uint16_t first_sample(const struct psti_pli_source *source, uint32_t p)
{
    const uint8_t *plane = source->planes[p];
    return source->bits == 8 ? plane[0] : psti_load_u16(plane);
}

size_t psti_pli_packed_encode(const struct psti_pli_source *source, uint32_t effort, uint8_t *out,
                              size_t capacity)
{
    struct psti_packed_coded coded[4] = {0};
    const struct psti_pli_encode_kernels *k = source->kernels;
    const struct psti_packed_rows *rows =
        source->bits == 8 ? k->packed_rows_u8 : k->packed_rows_u16;
    for (uint32_t p = 0; p < source->channels; p++) {
        struct psti_packed_samples samples;
        struct task task = {rows, source, &samples, &coded[0], &coded[1]};
        coded[p].start = first_sample(source, p);
        coded[p].is_constant = psti_pli_plane_is_constant(source, p);
        if (coded[p].is_constant)
            continue;
        psti_pli_packed_load(source, p, &samples);
        code_with_taps(&task, psti_pli_packed_n_taps(source->transform, p), effort, &coded[p]);
    }
    return psti_pli_packed_write(source, coded, out, capacity);
}
