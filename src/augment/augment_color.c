/* augment_color.c - runs ColorJitter and Grayscale on a picture in scratch memory, in place.
 *
 * In and out: HWC samples of 8 or 16 bits. It runs on the thread of the run. The arithmetic is that
 * of torchvision's v2 functions on integer tensors: compute in float, then truncate to an integer.
 * Luma is 0.2989 R + 0.587 G + 0.114 B, truncated too. Only Grayscale uses PIL's integer luma of
 * BT.601, as the decoder does when it makes gray. Gray pictures (1 or 2 channels) have no
 * saturation and hue. The last of 2 or 4 channels is alpha and is not changed.
 *
 * ColorJitter reads the picture once and applies all its operations to a few pixels while they are
 * in the cache. A contrast needs the mean of all pixels before it, so with a contrast there are two
 * such passes. The loops have a version for each CPU level. */
#include "augment/augment_int.h"

struct psti_samples psti_augment_samples(const struct psti_run *run,
                                         const struct psti_picture *picture)
{
    const struct psti_chain_output *output = &run->chain->output;
    struct psti_samples s = {
        .data = picture->data,
        .n_pixels = (size_t)picture->height * picture->width,
        .channels = output->channels,
        .colors = output->channels < 3 ? 1 : 3,
        .wide = output->bits == 16,
        .most = output->bits == 16 ? 65535.0f : 255.0f,
    };
    return s;
}

/* Writes permutation number `order` of the four operations. Each digit of `order` in the factorial
 * number system selects one of the operations that are left. */
void psti_augment_jitter_order(uint32_t order, uint32_t out[4])
{
    uint32_t left[4] = {0, 1, 2, 3}, divisor[4] = {6, 2, 1, 1};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t pick = order / divisor[i];
        order %= divisor[i];
        out[i] = left[pick];
        for (uint32_t k = pick; k < 3; k++)
            left[k] = left[k + 1];
    }
}

/* Pixels in floats
 * ---------------------------------------------------------------------------------- */

static bool is_rgb(const struct psti_samples *s) { return s->channels == 3 && !s->wide; }

static void load(const struct psti_color_ops *ops, const struct psti_samples *s, size_t first,
                 uint32_t n, struct psti_colors *to)
{
    if (is_rgb(s)) {
        ops->load(to, s->data + 3 * first, n);
        return;
    }
    for (uint32_t c = 0; c < s->colors; c++) {
        for (uint32_t i = 0; i < n; i++)
            to->v[c][i] = psti_samples_get(s, (first + i) * s->channels + c);
    }
}

static void store(const struct psti_color_ops *ops, const struct psti_samples *s, size_t first,
                  uint32_t n, const struct psti_colors *from)
{
    if (is_rgb(s)) {
        ops->store(s->data + 3 * first, from, n);
        return;
    }
    for (uint32_t c = 0; c < s->colors; c++) {
        for (uint32_t i = 0; i < n; i++)
            psti_samples_put(s, (first + i) * s->channels + c, from->v[c][i]);
    }
}

static uint64_t luma(const struct psti_color_ops *ops, const struct psti_samples *s,
                     const struct psti_colors *colors, uint32_t n)
{
    if (s->colors == 3)
        return ops->luma(colors, n);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (uint64_t)colors->v[0][i];
    return sum;
}

/* ColorJitter
 * --------------------------------------------------------------------------------------- */

enum color_kind { BRIGHTNESS, CONTRAST, SATURATION, HUE };
struct color_op {
    enum color_kind kind;
    float factor;
    float other; /* BRIGHTNESS and CONTRAST: the number that is added */
};
struct color_list {
    struct color_op ops[4];
    uint32_t n;
};

static void apply(const struct psti_color_ops *ops, const struct psti_samples *s,
                  const struct color_op *op, struct psti_colors *colors, uint32_t n)
{
    if (op->kind == SATURATION) {
        ops->saturate(colors, n, op->factor, s->most);
    } else if (op->kind == HUE) {
        ops->turn(colors, n, op->factor, s->most);
    } else {
        for (uint32_t c = 0; c < s->colors; c++)
            ops->blend(colors->v[c], n, op->factor, op->other, s->most);
    }
}

/* Applies the listed operations to the whole picture in one pass, a few pixels at a time. Returns
 * the sum of the results' luma if `sums`, else 0. */
static uint64_t go_through(const struct psti_color_ops *ops, const struct psti_samples *s,
                           const struct color_op *list, uint32_t n_list, bool sums)
{
    struct psti_colors colors = {0};
    uint64_t sum = 0;
    for (size_t at = 0; at < s->n_pixels; at += PSTI_COLORS) {
        size_t left = s->n_pixels - at;
        uint32_t n = left < PSTI_COLORS ? (uint32_t)left : PSTI_COLORS;
        load(ops, s, at, n, &colors);
        for (uint32_t i = 0; i < n_list; i++)
            apply(ops, s, &list[i], &colors, n);
        if (n_list > 0)
            store(ops, s, at, n, &colors);
        if (sums)
            sum += luma(ops, s, &colors, n);
    }
    return sum;
}

/* Lists the operations of a ColorJitter that change anything, in their drawn order. */
static struct color_list list_of(const struct psti_samples *s, const float factors[4],
                                 uint32_t order)
{
    struct color_list list = {.n = 0};
    uint32_t turns[4];
    psti_augment_jitter_order(order, turns);
    for (uint32_t i = 0; i < 4; i++) {
        enum color_kind kind = (enum color_kind)turns[i];
        float factor = factors[kind];
        bool changes = factor != (kind == HUE ? 0.0f : 1.0f);
        if (changes && (s->colors == 3 || kind < SATURATION))
            list.ops[list.n++] = (struct color_op){kind, factor, 0};
    }
    return list;
}

void psti_augment_color_jitter(const struct psti_run *run, const float factors[4], uint32_t order,
                               struct psti_picture *picture)
{
    const struct psti_color_ops *ops = &run->chain->kernels->colors;
    const struct psti_samples s = psti_augment_samples(run, picture);
    struct color_list list = list_of(&s, factors, order);
    uint32_t before = 0; /* number of operations before the contrast */
    while (before < list.n && list.ops[before].kind != CONTRAST)
        before++;
    uint32_t done = 0;
    if (before < list.n) {
        uint64_t sum = go_through(ops, &s, list.ops, before, true);
        float mean = (float)((double)sum / (double)s.n_pixels);
        list.ops[before].other = mean * (1.0f - list.ops[before].factor);
        done = before;
    }
    if (done < list.n)
        (void)go_through(ops, &s, list.ops + done, list.n - done, false);
}

void psti_augment_color_gray(const struct psti_run *run, struct psti_picture *picture)
{
    struct psti_samples s = psti_augment_samples(run, picture);
    if (s.colors == 1)
        return;
    for (size_t p = 0; p < s.n_pixels; p++) {
        size_t i = p * s.channels;
        uint32_t r = (uint32_t)psti_samples_get(&s, i), g = (uint32_t)psti_samples_get(&s, i + 1),
                 b = (uint32_t)psti_samples_get(&s, i + 2);
        uint32_t luma = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
        for (uint32_t c = 0; c < 3; c++)
            psti_samples_put(&s, i + c, (float)luma);
    }
}
