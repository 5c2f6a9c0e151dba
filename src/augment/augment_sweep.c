/* augment_sweep.c - reorders the weights of an axis for a sweep: a kernel that goes through the
 * source once.
 *
 * In: a built axis. Out: struct psti_sweep, which kernels read word by word (augment_kernels.h).
 * Any thread may call these functions. The caller owns the memory. A triangle filter that shrinks
 * is as wide as two outputs, so its windows overlap by half: window i ends where window i + 2
 * begins. Filtering window by window would therefore load and shuffle each pixel twice.
 *
 * Pixels are taken in pairs, in the direction in which the outputs go through the source. Pair p
 * begins at pixel 2 p, or at pixel -2 p if the direction is backwards. */
#include "augment/augment_int.h"

/* The fewest taps with which a sweep is faster, measured on Zen 3. With fewer taps there is hardly
 * one pair for each output, and the work for each output outweighs the saving. */
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

/* Returns the end of the range of safe outputs that a sweep can compute. The last pair of each
 * output must differ from that of the output before. Window i + 2 may begin in the last pair of
 * window i, but not earlier. Usually a sweep can compute all safe outputs, or all but one if the
 * picture's edge cuts off the last window. */
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
    /* Each output takes a count and a word for the next output but one. Each pair takes two words.
     * A source of odd width has one more pixel in its last pair. */
    return ((size_t)spec->n * 2 + spec->n_source + 1) * sizeof(uint32_t);
}

/* Returns the two weights (an int16 in each half) of pixels `at` and `at` + 1 for output i, or 0 if
 * i is not below `end`. */
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
