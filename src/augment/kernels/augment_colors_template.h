/* augment_colors_template.h - the loops of ColorJitter for vectors of any width.
 *
 * augment_kernels_template.h includes this file and lists what a CPU level must define.
 * augment_colors_c.c has the formulas in torchvision's order. Operations here either are the same,
 * with the same rounding, or are exact, so the bits are equal. */

INLINE FLOATS cut(FLOATS v, float most) { return floored(least(greatest(v, all(0)), all(most))); }

INLINE FLOATS luma_of(const struct psti_colors *colors, uint32_t i)
{
    FLOATS sum = plus(times(load_floats(colors->v[0] + i), all(0.2989f)),
                      times(load_floats(colors->v[1] + i), all(0.587f)));
    return floored(plus(sum, times(load_floats(colors->v[2] + i), all(0.114f))));
}

INLINE void put_floats(float *to, FLOATS v) { store_f32((void *)to, v, false); }

TARGET static void colors_load(struct psti_colors *to, const uint8_t *from, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        BYTES v[3];
        load_planes(from + 3 * (size_t)i, v);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
#pragma GCC unroll 2
            for (uint32_t k = 0; k < 16; k += N_FLOATS)
                put_floats(to->v[c] + i + k, scaled_part(v[c], k, all(1), all(0)));
        }
    }
    for (; i < n; i++) {
        for (uint32_t c = 0; c < 3; c++)
            to->v[c][i] = from[3 * (size_t)i + c];
    }
}

TARGET static void colors_store(uint8_t *to, const struct psti_colors *from, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const BYTES v[3] = {bytes_of(from->v[0] + i), bytes_of(from->v[1] + i),
                            bytes_of(from->v[2] + i)};
        store_planes(to + 3 * (size_t)i, v);
    }
    for (; i < n; i++) {
        for (uint32_t c = 0; c < 3; c++)
            to[3 * (size_t)i + c] = (uint8_t)from->v[c][i];
    }
}

TARGET static void colors_blend(float *plane, uint32_t n, float factor, float other, float most)
{
    for (uint32_t i = 0; i < n; i += N_FLOATS) {
        FLOATS value = times(load_floats(plane + i), all(factor));
        put_floats(plane + i, cut(plus(value, all(other)), most));
    }
}

TARGET static void colors_saturate(struct psti_colors *colors, uint32_t n, float factor, float most)
{
    const float rest = 1.0f - factor;
    for (uint32_t i = 0; i < n; i += N_FLOATS) {
        const FLOATS gray = times(luma_of(colors, i), all(rest));
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            FLOATS value = times(load_floats(colors->v[c] + i), all(factor));
            put_floats(colors->v[c] + i, cut(plus(value, gray), most));
        }
    }
}

/* Computes the sum of luma. Float sums are exact here: each lane adds at most PSTI_COLORS / 8
 * numbers below 2^16. */
TARGET static uint64_t colors_luma(const struct psti_colors *colors, uint32_t n)
{
    FLOATS sums = all(0);
    uint32_t i = 0;
    for (; i + N_FLOATS <= n; i += N_FLOATS)
        sums = plus(sums, luma_of(colors, i));
    float lanes[2 * N_FLOATS] = {0};
    uint64_t sum = 0;
    put_floats(lanes, sums);
    if (i < n)
        put_floats(lanes + N_FLOATS, luma_of(colors, i));
    for (uint32_t k = 0; k < N_FLOATS + (n - i); k++)
        sum += (uint64_t)lanes[k];
    return sum;
}

/* Returns the hue of a colour as a fraction of the colour circle (0..1). One of the three
 * differences from the highest channel is 0, so two divisions are enough. */
INLINE FLOATS hue_of(const FLOATS v[3], FLOATS high, FLOATS range)
{
    const FLOATS r = minus(high, v[0]), g = minus(high, v[1]), b = minus(high, v[2]);
    const MASK is_r = equal(high, v[0]), is_g = equal(high, v[1]);
    FLOATS first = chosen(is_r, b, chosen(is_g, r, g));
    FLOATS second = chosen(is_r, g, chosen(is_g, b, r));
    FLOATS base = chosen(is_r, all(0), chosen(is_g, all(2), all(4)));
    FLOATS sixths = minus(plus(base, over(first, range)), over(second, range));
    FLOATS h = plus(times(sixths, all(1.0f / 6.0f)), all(1));
    return minus(h, floored(h));
}

/* Shifts the hue of colours with channels in 0..1. Returns a mask of the gray pixels, for which the
 * result is undefined. A new channel is high * (1 - saturation * w). In torchvision's table w is 0,
 * f, 1 - f or 1, where f is the fraction of the hue in sixths. As a function of the hue, w is a
 * rising and a falling line, clamped to 0..1. All differences below are exact, except 1 - sixths,
 * which torchvision computes too. */
INLINE MASK turn_colors(FLOATS v[3], float shift)
{
    const FLOATS zero = all(0), one = all(1);
    const FLOATS high = greatest(greatest(v[0], v[1]), v[2]);
    const FLOATS low = least(least(v[0], v[1]), v[2]), range = minus(high, low);
    FLOATS turned = plus(hue_of(v, high, range), all(shift));
    turned = minus(turned, floored(turned));
    const FLOATS sixths = times(turned, all(6)), saturation = over(range, high);
    const FLOATS w[3] = {least(minus(sixths, one), minus(all(5), sixths)),
                         greatest(minus(one, sixths), minus(sixths, all(3))),
                         greatest(minus(all(3), sixths), minus(sixths, all(5)))};
#pragma GCC unroll 3
    for (int c = 0; c < 3; c++) {
        FLOATS part = times(saturation, least(greatest(w[c], zero), one));
        v[c] = times(high, minus(one, part));
    }
    return equal(high, low);
}

/* Shifts the hue of colours in 0..most. A colour / most equals colour / (most + 1) + colour / (most
 * (most + 1)). The first term is exact, so the sum rounds to the same float as the quotient. */
TARGET static void colors_turn(struct psti_colors *colors, uint32_t n, float shift, float most)
{
    const float whole = 1.0f / (most + 1.0f), rest = whole / most, scale = most + 1.0f - 1e-3f;
    for (uint32_t i = 0; i < n; i += N_FLOATS) {
        FLOATS old[3], v[3];
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            old[c] = load_floats(colors->v[c] + i);
            v[c] = plus(times(old[c], all(whole)), times(old[c], all(rest)));
        }
        const MASK is_gray = turn_colors(v, shift);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            FLOATS turned = cut(times(v[c], all(scale)), most);
            put_floats(colors->v[c] + i, chosen(is_gray, old[c], turned));
        }
    }
}
