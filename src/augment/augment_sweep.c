/* augment_sweep.c - the weights of an axis in the order of the source.
 *
 * In: a built axis. Out: struct psti_sweep, which kernels read word by word (augment_kernels.h).
 * Any thread may call these functions. The memory is the caller's. A triangle filter that shrinks
 * is widened by the scale. Its windows then overlap by half: window i ends where window i + 2
 * begins. So filtering window by window would load and shuffle each pixel twice.
 *
 * Pairs are counted in the direction in which the outputs go through the source. Pair p begins at
 * pixel 2 p, or at pixel -2 p if that direction is backwards. */
#include "augment/augment_int.h"

/* The least number of taps for a sweep, measured on Zen 3. With fewer taps there is hardly one pair
 * for each output, and the cost of each output is more than a sweep saves. */
#define LEAST_TAPS 5

struct windows {
    const struct psti_axis *axis;
    bool falls;
};

static int64_t first_pair(struct windows w, uint32_t i)
{
    int64_t start = w.axis->start[i];
    return w.falls ? -((start + w.axis->taps[i] - 1) / 2) : start / 2;
}

static int64_t last_pair(struct windows w, uint32_t i)
{
    int64_t start = w.axis->start[i];
    return w.falls ? -(start / 2) : (start + w.axis->taps[i] - 1) / 2;
}

/* Returns the end of the safe outputs that a sweep can make. Each of these outputs must have a last
 * pair of its own, different from that of the output before. Window i + 2 may begin in the last
 * pair of window i, but not before that pair. Usually a sweep makes all safe outputs, or all but
 * one if the edge of the picture cuts off the last window. */
static uint32_t find_end(struct windows w)
{
    uint32_t begin = w.axis->safe_begin, end = w.axis->safe_end;
    for (uint32_t i = begin + 1; i < end; i++) {
        int64_t least = i == begin + 1 ? first_pair(w, begin) : last_pair(w, i - 2);
        if (last_pair(w, i) <= last_pair(w, i - 1) || first_pair(w, i) < least)
            return i;
    }
    return end;
}

bool psti_augment_sweep_suits(const struct psti_axis_spec *spec)
{
    return spec->bits == 8 && spec->side.interpolation == PST_INTERPOLATION_BILINEAR &&
           !spec->side.no_antialias && psti_augment_axis_max_taps(spec) >= LEAST_TAPS;
}

size_t psti_augment_sweep_nbytes(const struct psti_axis_spec *spec)
{
    /* Each output needs a count, and a word for the next output but one. Each pair needs two words.
     * A source of odd width has one pixel more in its pairs. */
    return ((size_t)spec->n * 2 + spec->n_source + 1) * sizeof(uint32_t);
}

/* Returns the two weights of pixels `at` and `at` + 1 for output i, or 0 if the sweep does not make
 * that output. */
static uint32_t pair_weights(const struct psti_axis *axis, uint32_t i, uint32_t end, int64_t at)
{
    if (i >= end)
        return 0;
    const int16_t *weights = axis->weights + (size_t)i * axis->stride;
    int64_t k = at - axis->start[i], taps = axis->taps[i];
    uint32_t first = k >= 0 && k < taps ? (uint16_t)weights[k] : 0;
    uint32_t second = k + 1 >= 0 && k + 1 < taps ? (uint16_t)weights[k + 1] : 0;
    return first | second << 16;
}

void psti_augment_sweep_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_sweep *sweep)
{
    struct windows w = {.axis = axis, .falls = spec->flip};
    uint32_t *words = memory, begin = axis->safe_begin, end = find_end(w);
    sweep->words = words;
    sweep->end = end;
    sweep->falls = w.falls;
    sweep->first = 0;
    if (end == begin)
        return;
    int64_t direction = w.falls ? -2 : 2, pair = first_pair(w, begin);
    sweep->first = (uint32_t)(pair * direction);
    for (uint32_t i = begin; i < end; i++) {
        int64_t last = last_pair(w, i);
        *words++ = (uint32_t)(last - pair + 1);
        for (; pair <= last; pair++) {
            *words++ = pair_weights(axis, i, end, pair * direction);
            *words++ = pair_weights(axis, i + 1, end, pair * direction);
        }
        *words++ = pair_weights(axis, i + 2, end, last * direction);
    }
}
