/* augment_edge.c - tells what a padded picture shows beyond its edges: its own pixels again, or the
 * fill.
 *
 * Pure functions, any thread. */
#include "augment/augment_edge.h"

#include "augment/augment_int.h"

int64_t psti_augment_pad_index(int64_t i, uint32_t n, enum pst_pad_mode mode)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == PST_PAD_CONSTANT)
        return -1;
    if (mode == PST_PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    if (mode == PST_PAD_REFLECT && n == 1)
        return 0;
    int64_t period = mode == PST_PAD_REFLECT ? 2 * ((int64_t)n - 1) : 2 * (int64_t)n;
    i %= period;
    if (i < 0)
        i += period;
    if (i < n)
        return i;
    return mode == PST_PAD_REFLECT ? period - i : period - 1 - i;
}

bool psti_augment_window_range(int64_t start, uint32_t n, uint32_t full, enum pst_pad_mode mode,
                               uint32_t *begin, uint32_t *end)
{
    int64_t low = full, high = -1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t index = psti_augment_pad_index(start + i, full, mode);
        if (index < 0)
            continue;
        low = index < low ? index : low;
        high = index > high ? index : high;
    }
    *begin = high < 0 ? 0 : (uint32_t)low;
    *end = high < 0 ? 1 : (uint32_t)high + 1;
    return high >= 0;
}

void psti_augment_fill(const struct psti_chain *chain, const struct pst_op *op, uint16_t fill[4])
{
    float most = chain->output.bits == 8 ? 255.0f : 65535.0f;
    for (uint32_t c = 0; c < chain->output.channels; c++) {
        float v = op->fill[c];
        v = v < 0 ? 0 : v > most ? most : v;
        fill[c] = (uint16_t)(v + 0.5f);
    }
}
